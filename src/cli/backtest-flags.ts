import { InvalidArgumentError, Option } from 'commander';
import { type ObjectiveName, objectiveNames } from '../backtest/engine/objectives.ts';
import type { BuiltinStrategy } from '../backtest/strategy/builtin-strategies.ts';
import { parseDuration } from '../base/time.ts';
import { formatParameters } from '../report/backtest-figures.ts';

/** What `backtest run` takes, beside what every command does. */
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
  new Option('--objective <name>', 'what the run is judged by, and a grid is chosen by')
    .choices(objectiveNames)
    .default('total_pnl');

export const createParamOption = (): Option =>
  new Option('--param <name=value>', "another value of one of the strategy's parameters; may be repeated")
    .argParser((text, before: readonly NamedValue<number>[]) => [...before, parseNamed(text, parseNumber)])
    .default([], 'its defaults');

export const createGridOption = (): Option =>
  new Option('--grid <name=value,…>', 'values of a parameter to be tried, with several in every combination')
    .argParser((text, before: readonly NamedValue<readonly number[]>[]) => [
      ...before,
      parseNamed(text, (values, name) => values.split(',').map((value) => parseNumber(value, name))),
    ])
    .default([], 'one run');

export const createHeldOutOption = (): Option =>
  new Option(
    '--held-out <share>',
    'of a grid: the end of the span that it is judged on, and not chosen by (default: 0.3)',
  ).argParser((text) => parseNumber(text, ''));

/** What the help says of the strategies that everybody has. Those that all of them take are said once. */
export function describeExecutables(all: readonly BuiltinStrategy[]): Record<string, string> {
  const shared = Object.keys(all[0]!.strategy.parameters).filter((name) =>
    all.every(({ strategy }) => Object.hasOwn(strategy.parameters, name)),
  );
  const told = (parameters: Readonly<Record<string, number>>, isWanted: (name: string) => boolean): string =>
    formatParameters(Object.fromEntries(Object.entries(parameters).filter(([name]) => isWanted(name))));
  const terms = all.map(({ name, says, strategy: { parameters } }) => {
    const own = told(parameters, (one) => !shared.includes(one));
    return [name, own === '' ? says : `${says} (${own})`];
  });
  const everywhere = told(all[0]!.strategy.parameters, (name) => shared.includes(name));
  return { ...Object.fromEntries(terms), 'each of them': `takes ${everywhere}` };
}

function parseNamed<T>(text: string, read: (value: string, name: string) => T): NamedValue<T> {
  const [, name, value] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
  if (name === undefined) throw new InvalidArgumentError('Expected name=value.');
  return [name.trim(), read(value!, name.trim())];
}

/** Parameters that are milliseconds may be said as `6h`, too. */
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
