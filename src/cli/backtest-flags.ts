import { InvalidArgumentError, Option } from 'commander';
import { type ObjectiveName, objectiveNames } from '../backtest/engine/objectives.ts';
import type { BuiltinStrategy } from '../backtest/strategy/builtin-strategies.ts';
import { parseDuration } from '../base/time.ts';
import { formatParameters } from '../report/backtest-figures.ts';

/** Flags of `backtest run`, without the common flags. */
export interface BacktestRequestFlags {
  readonly objective: ObjectiveName;
  readonly symbol: readonly string[];
  readonly symbolsFile?: string;
  readonly category: readonly string[];
  readonly source: readonly string[];
  readonly from?: string;
  readonly to?: string;
  readonly param: readonly NamedValue<number>[];
  readonly grid: readonly NamedValue<readonly number[]>[];
  readonly heldOut?: number;
}

export type NamedValue<T> = readonly [name: string, value: T];

export const createObjectiveOption = (): Option =>
  new Option('--objective <name>', 'measure of the result, which also selects the best point of a grid')
    .choices(objectiveNames)
    .default('total_pnl');

export const createParamOption = (): Option =>
  new Option('--param <name=value>', 'value of a parameter of the strategy; can be repeated')
    .argParser((text, previous: readonly NamedValue<number>[]) => [...previous, parseNamed(text, parseNumber)])
    .default([], 'its defaults');

export const createGridOption = (): Option =>
  new Option('--grid <name=value,…>', 'values to try for a parameter; with several parameters, every combination')
    .argParser((text, previous: readonly NamedValue<readonly number[]>[]) => [
      ...previous,
      parseNamed(text, (values, name) => values.split(',').map((value) => parseNumber(value, name))),
    ])
    .default([], 'one run');

export const createHeldOutOption = (): Option =>
  new Option(
    '--held-out <share>',
    'with --grid: share of the window, at its end, for evaluating the chosen parameters (default: 0.3)',
  ).argParser((text) => parseNumber(text, ''));

/** Help texts of the built-in strategies. Parameters that all of them have are listed once. */
export function describeExecutables(all: readonly BuiltinStrategy[]): Record<string, string> {
  const shared = Object.keys(all[0]!.strategy.parameters).filter((name) =>
    all.every(({ strategy }) => Object.hasOwn(strategy.parameters, name)),
  );
  const formatSubset = (parameters: Readonly<Record<string, number>>, isIncluded: (name: string) => boolean): string =>
    formatParameters(Object.fromEntries(Object.entries(parameters).filter(([name]) => isIncluded(name))));
  const terms = all.map(({ name, says, strategy: { parameters } }) => {
    const ownText = formatSubset(parameters, (one) => !shared.includes(one));
    return [name, ownText === '' ? says : `${says} (${ownText})`];
  });
  const sharedText = formatSubset(all[0]!.strategy.parameters, (name) => shared.includes(name));
  return { ...Object.fromEntries(terms), 'all of them': `(${sharedText})` };
}

function parseNamed<T>(text: string, read: (value: string, name: string) => T): NamedValue<T> {
  const [, name, value] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
  if (name === undefined) throw new InvalidArgumentError('Expected name=value.');
  return [name.trim(), read(value!, name.trim())];
}

/** Parses a number. Parameters in milliseconds also accept durations such as `6h`. */
function parseNumber(text: string, name: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value)) return value;
  if (!name.endsWith('_ms')) throw new InvalidArgumentError(`Expected a number, not ${JSON.stringify(text)}.`);
  try {
    return parseDuration(text.trim(), name);
  } catch {
    throw new InvalidArgumentError(
      `Expected milliseconds or a duration such as 90s or 6h, not ${JSON.stringify(text)}.`,
    );
  }
}
