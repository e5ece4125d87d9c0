import {
  boundNames,
  type Condition,
  type Measure,
  type Quantity,
  type Strategy,
} from '../../contract/strategy-language.ts';

/**
 * Whether a strategy trades whole contracts only. By default it does with the fees of Kalshi, whose contracts are whole in
 * most markets; shares of Polymarket are not.
 */
export const tradesWholeContracts = ({ fees, whole_contracts }: Pick<Strategy, 'fees' | 'whole_contracts'>): boolean =>
  whole_contracts ?? ('schedule' in fees && fees.schedule === 'kalshi');

export const resolveQuantity = (quantity: Quantity, { parameters }: Strategy): number =>
  typeof quantity === 'number' ? quantity : parameters[quantity.parameter]! * (quantity.times ?? 1);

/** Data that a strategy needs. */
export interface DataDependencies {
  /** Maximum lookback before a tick, in milliseconds. */
  readonly lookbackMs: number;
  /** Whether it needs market states. */
  readonly needsStates: boolean;
  /** Whether it needs other venues. */
  readonly needsVenues: boolean;
}

export function findDataDependencies(strategy: Strategy): DataDependencies {
  const measures = strategy.rules.flatMap(({ entry, exit }) => [
    ...listMeasures(entry),
    ...(exit === null ? [] : listMeasures(exit)),
  ]);
  const names = new Set(measures.map(({ measure }) => measure));
  const windows = measures.map(({ window_ms }) => (window_ms === undefined ? 0 : resolveQuantity(window_ms, strategy)));
  return {
    lookbackMs: windows.reduce((max, window) => Math.max(max, window), 0),
    needsStates: names.has('category') || names.has('confidence') || names.has('time_to_close_ms'),
    needsVenues: names.has('venue_spread'),
  };
}

/** Data that several strategies need. */
export const mergeDataDependencies = (strategies: readonly Strategy[]): DataDependencies =>
  strategies.map(findDataDependencies).reduce((a, b) => ({
    lookbackMs: Math.max(a.lookbackMs, b.lookbackMs),
    needsStates: a.needsStates || b.needsStates,
    needsVenues: a.needsVenues || b.needsVenues,
  }));

type NamedMeasure = Pick<Measure, 'window_ms'> & { readonly measure: string };

function listMeasures(condition: Condition): NamedMeasure[] {
  if ('all' in condition) return condition.all.flatMap(listMeasures);
  if ('any' in condition) return condition.any.flatMap(listMeasures);
  if (condition.measure === 'category') return [condition];
  const operands = boundNames.map((bound) => condition[bound]);
  return [condition, ...operands.filter((operand) => typeof operand === 'object' && 'measure' in operand)];
}
