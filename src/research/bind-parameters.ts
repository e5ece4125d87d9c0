import { parseStrategy } from './parse-strategy.ts';
import type { Quantity, Strategy } from './strategy.ts';
import type { Fault } from './validator.ts';

/** Values of a strategy's parameters: one point of a grid. */
export type ParameterPoint = Readonly<Record<string, number>>;

/** Points of one run. */
export const pointsMax = 1000;

/** The strategy with other values of its parameters; faults where it has no such parameter, or a value does not fit. */
export function bindParameters(
  strategy: Strategy,
  values: ParameterPoint,
): { strategy: Strategy } | { faults: readonly Fault[] } {
  const stray = Object.keys(values).filter((name) => !Object.hasOwn(strategy.parameters, name));
  if (stray.length > 0)
    return { faults: stray.map((name) => createUnknownParameterFault(strategy, `parameters.${name}`)) };
  const bound = { ...strategy, parameters: { ...strategy.parameters, ...values } };
  const read = parseStrategy(bound);
  if ('strategy' in read) return read;
  // A value that does not do for one place mostly does not for others.
  const faults = new Map(read.faults.toReversed().map((fault) => [toParameterFault(bound, fault).name, fault]));
  return { faults: [...faults.values()].toReversed().map((fault) => toParameterFault(bound, fault)) };
}

/** A fault where the strategy stands, as one of the parameter whose value it comes from: that is what was asked for. */
function toParameterFault(strategy: Strategy, { name, reason }: Fault): Fault {
  let part: unknown = strategy;
  for (const key of name.split(/[.[\]]+/).filter((each) => each !== ''))
    part = (part as Record<string, unknown> | undefined)?.[key];
  const parameter = (part as { readonly parameter?: string } | undefined)?.parameter;
  if (parameter === undefined) return { name, reason };
  const value = strategy.parameters[parameter];
  return { name: `parameters.${parameter}`, reason: `is ${value}, which does not do for ${name}: it ${reason}` };
}

const createUnknownParameterFault = ({ parameters }: Strategy, name: string): Fault => {
  const names = Object.keys(parameters).join(', ');
  return { name, reason: names === '' ? 'the strategy has no parameters' : `the strategy has only ${names}` };
};

/** The value of a number of a strategy. */
export const resolveQuantity = (quantity: Quantity, { parameters }: Strategy): number =>
  typeof quantity === 'number' ? quantity : parameters[quantity.parameter]! * (quantity.times ?? 1);

/** Every combination of the values, the last name's changing first; one point where there are no names. */
export function expandGrid(grid: Readonly<Record<string, readonly number[]>>): ParameterPoint[] {
  let points: ParameterPoint[] = [{}];
  for (const [name, values] of Object.entries(grid))
    points = points.flatMap((point) => values.map((value) => ({ ...point, [name]: value })));
  return points;
}

/** How many points a grid has, without making them. */
export const countPoints = (grid: Readonly<Record<string, readonly unknown[]>>): number =>
  Object.values(grid).reduce((product, values) => product * values.length, 1);
