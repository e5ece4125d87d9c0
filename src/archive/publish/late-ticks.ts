import { isWithin, union, type Window } from '../../base/window.ts';
import { countTicksInWindow, findFirstAtOrAfter, indexTickTimes, type PartColumns } from '../format/tick-columns.ts';

/** What late ticks are, and how their lateness is measured. Times in ms. */
export interface LateTickRules {
  /** Only what was fetched before this moment, epoch ms, counts as covered before: the start of the run. */
  readonly fetchedBeforeMs: number;
  /** Lateness is measured in the overlap, which is read again as a whole: so long before its response. */
  readonly latenessMsMax: number;
}

/** A window of a symbol that was covered, and when its response was generated, epoch ms. */
export interface FetchedWindow extends Window {
  readonly fetchedAt: number;
}

/** How many ticks came late, and how late they were at least: the greatest time for which one was not there yet, in ms. */
export interface LateTicks {
  readonly ticks: number;
  readonly latenessMs: number;
}

export const noLateTicks: LateTicks = { ticks: 0, latenessMs: 0 };

export const addLateTicks = (a: LateTicks, b: LateTicks): LateTicks => ({
  ticks: a.ticks + b.ticks,
  latenessMs: Math.max(a.latenessMs, b.latenessMs),
});

/**
 * Counts the new ticks of a part whose moment had been covered before they came; a merge takes no old one away. What a
 * backfill brings of windows that nothing had covered is not late.
 * @param latenessMsMax see `LateTickRules`
 */
export function countLateTicks(
  claimed: ReadonlyMap<string, readonly FetchedWindow[]>,
  added: ReadonlyMap<string, number>,
  { old, columns }: { readonly old: PartColumns; readonly columns: PartColumns },
  withinMs: number,
): LateTicks {
  if (claimed.size === 0) return noLateTicks;
  const [before, after] = [indexTickTimes(old), indexTickTimes(columns)];
  let late = noLateTicks;
  for (const [symbol, count] of added) {
    const claims = claimed.get(symbol);
    if (count === 0 || claims === undefined) continue;
    const times = { had: before(symbol), has: after(symbol) };
    for (const window of union(claims)) {
      const ticks = countTicksInWindow(times.has, window) - countTicksInWindow(times.had, window);
      if (ticks > 0)
        late = addLateTicks(late, { ticks, latenessMs: measureLatenessMs(times, window, claims, withinMs) });
    }
  }
  return late;
}

/** The greatest lateness, up to `latenessMsMax`, of the new ticks of a window. */
function measureLatenessMs(
  { had, has }: { readonly had: Float64Array; readonly has: Float64Array },
  window: Window,
  claims: readonly FetchedWindow[],
  withinMs: number,
): number {
  let most = 0;
  let at = findFirstAtOrAfter(had, window.from);
  for (let i = findFirstAtOrAfter(has, window.from); i < has.length && has[i]! < window.to; i++) {
    const t = has[i]!;
    if (had[at] === t) {
      at++;
      continue;
    }
    const fetchedAt = claims.reduce((max, w) => (isWithin(t, w) ? Math.max(max, w.fetchedAt) : max), 0);
    if (fetchedAt - t <= withinMs) most = Math.max(most, fetchedAt - t);
  }
  return most;
}
