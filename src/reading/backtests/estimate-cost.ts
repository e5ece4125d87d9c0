import type { Window } from '../../core/window.ts';
import { resolveQuantity } from '../../research/bind-parameters.ts';
import { mergeDataDependencies } from '../../research/data-dependencies.ts';
import { type Quantity, type Strategy, windowedMeasures } from '../../research/strategy.ts';
import { computeReadFrom, estimateTicksIn } from './batches.ts';
import type { Universe } from './select-symbols.ts';

/** More ticks would be played than may be. */
export class BacktestTooLargeError extends Error {}

/**
 * About how many ticks a backtest reads, from where its strategies look back to and with the other venues they look at,
 * counted for each point of a grid, and there for each measure over a window.
 */
export function estimateCost(universe: Universe, span: Window, strategies: readonly Strategy[]): number {
  const looks = mergeDataDependencies(strategies);
  const from = computeReadFrom(span.from, looks);
  const read = looks.needsVenues ? listAllMembers(universe) : universe.members;
  let ticks = 0;
  for (const member of read) ticks += estimateTicksIn(member, { ...span, from });
  return ticks * strategies.reduce((sum, strategy) => sum + Math.max(1, countWindows(strategy)), 0);
}

/** With all that are of the same markets now: whose they were at the time, is not looked up for a guess. */
function listAllMembers({ members, others }: Universe) {
  const ids = new Set(members.map(({ canonicalId }) => canonicalId));
  return [...members, ...others.filter(({ canonicalId }) => canonicalId !== null && ids.has(canonicalId))];
}

/** Measures over windows that are followed through the ticks: those that are alike are followed once. */
function countWindows(strategy: Strategy): number {
  const windows = new Set<string>();
  const look = (part: unknown): void => {
    if (typeof part !== 'object' || part === null) return;
    const { measure, window_ms } = part as { readonly measure?: string; readonly window_ms?: Quantity };
    if (measure !== undefined && window_ms !== undefined && windowedMeasures.has(measure))
      windows.add(`${measure} ${resolveQuantity(window_ms, strategy)}`);
    for (const inner of Object.values(part)) look(inner);
  };
  look(strategy.rules);
  return windows.size;
}
