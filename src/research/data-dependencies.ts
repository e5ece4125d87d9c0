import { resolveQuantity } from './bind-parameters.ts';
import { boundNames, type Condition, type Measure, type Strategy } from './strategy.ts';

/** What a strategy looks at, so that no more need be loaded. */
export interface DataDependencies {
  /** How far back before the tick of a decision, milliseconds. */
  readonly lookbackMs: number;
  /** At what was known of the market. */
  readonly needsStates: boolean;
  /** At its other venues. */
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
    lookbackMs: windows.reduce((most, window) => Math.max(most, window), 0),
    needsStates: names.has('category') || names.has('confidence') || names.has('time_to_close_ms'),
    needsVenues: names.has('venue_spread'),
  };
}

/** What several strategies look at. */
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
