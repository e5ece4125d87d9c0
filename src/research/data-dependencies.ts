import { amountOf } from './bind-parameters.ts';
import { bounds, type Condition, type Measure, type Strategy } from './strategy.ts';

/** What a strategy looks at, so that no more need be loaded. */
export interface Looks {
  /** How far back before the tick of a decision, milliseconds. */
  readonly backMs: number;
  /** At what was known of the market. */
  readonly states: boolean;
  /** At its other venues. */
  readonly venues: boolean;
}

export function looksOf(strategy: Strategy): Looks {
  const measures = strategy.rules.flatMap(({ entry, exit }) => [
    ...measuresIn(entry),
    ...(exit === null ? [] : measuresIn(exit)),
  ]);
  const names = new Set(measures.map(({ measure }) => measure));
  const windows = measures.map(({ window_ms }) => (window_ms === undefined ? 0 : amountOf(window_ms, strategy)));
  return {
    backMs: windows.reduce((most, window) => Math.max(most, window), 0),
    states: names.has('category') || names.has('confidence') || names.has('time_to_close_ms'),
    venues: names.has('venue_spread'),
  };
}

/** What several strategies look at. */
export const allLooks = (strategies: readonly Strategy[]): Looks =>
  strategies.map(looksOf).reduce((a, b) => ({
    backMs: Math.max(a.backMs, b.backMs),
    states: a.states || b.states,
    venues: a.venues || b.venues,
  }));

type Named = Pick<Measure, 'window_ms'> & { readonly measure: string };

function measuresIn(condition: Condition): Named[] {
  if ('all' in condition) return condition.all.flatMap(measuresIn);
  if ('any' in condition) return condition.any.flatMap(measuresIn);
  if (condition.measure === 'category') return [condition];
  const operands = bounds.map((bound) => condition[bound]);
  return [condition, ...operands.filter((operand) => typeof operand === 'object' && 'measure' in operand)];
}
