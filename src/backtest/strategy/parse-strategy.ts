import { type Fault, parseBy } from '../../contract/parsed-schema.ts';
import { type Strategy, strategyDefinition } from '../../contract/strategy-language.ts';

/** Parses a strategy from JSON. Returns all faults of an invalid strategy. */
export function parseStrategy(json: unknown, at = ''): { strategy: Strategy } | { faults: readonly Fault[] } {
  const parsed = parseBy(strategyDefinition, json, at);
  return 'faults' in parsed ? parsed : { strategy: parsed.value };
}

/** Parameter values of one grid point. */
export type ParameterPoint = Readonly<Record<string, number>>;

/** Sets parameters of a strategy. Returns faults for unknown parameters and invalid values. */
export function bindParameters(
  strategy: Strategy,
  values: ParameterPoint,
): { strategy: Strategy } | { faults: readonly Fault[] } {
  const unknown = Object.keys(values).filter((name) => !Object.hasOwn(strategy.parameters, name));
  if (unknown.length > 0)
    return { faults: unknown.map((name) => createUnknownParameterFault(strategy, `parameters.${name}`)) };
  const bound = { ...strategy, parameters: { ...strategy.parameters, ...values } };
  const parsed = parseStrategy(bound);
  if ('strategy' in parsed) return parsed;
  // One fault per parameter, because an invalid value is usually invalid in several places.
  const faults = new Map(parsed.faults.toReversed().map((fault) => [toParameterFault(bound, fault).name, fault]));
  return { faults: [...faults.values()].toReversed().map((fault) => toParameterFault(bound, fault)) };
}

/** Maps a fault in the strategy to the parameter that caused it. */
function toParameterFault(strategy: Strategy, { name, reason }: Fault): Fault {
  let part: unknown = strategy;
  for (const key of name.split(/[.[\]]+/).filter((each) => each !== ''))
    part = (part as Record<string, unknown> | undefined)?.[key];
  const parameter = (part as { readonly parameter?: string } | undefined)?.parameter;
  if (parameter === undefined) return { name, reason };
  const value = strategy.parameters[parameter];
  return { name: `parameters.${parameter}`, reason: `is ${value}, which is invalid for ${name}: it ${reason}` };
}

const createUnknownParameterFault = ({ parameters }: Strategy, name: string): Fault => {
  const names = Object.keys(parameters).join(', ');
  return { name, reason: names === '' ? 'the strategy has no parameters' : `the strategy has only ${names}` };
};

/** All combinations of the values; the last name varies fastest. One point for an empty grid. */
export function expandGrid(grid: Readonly<Record<string, readonly number[]>>): ParameterPoint[] {
  let points: ParameterPoint[] = [{}];
  for (const [name, values] of Object.entries(grid))
    points = points.flatMap((point) => values.map((value) => ({ ...point, [name]: value })));
  return points;
}
