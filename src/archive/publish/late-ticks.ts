import { firstAtOrAfter } from '../../core/binary-search.ts';
import type { PartColumns } from '../../core/tick-columns.ts';
import { countIn, timesIn } from '../../core/tick-search.ts';
import { union, type Window, within } from '../../core/window.ts';

/** What late ticks are, and how their lateness is measured. Times in ms. */
export interface LateRules {
  /** Only what was fetched before this moment, epoch ms, counts as covered before: the start of the run. */
  readonly beforeMs: number;
  /** Lateness is measured in the overlap, which is read again as a whole: so long before its response. */
  readonly withinMs: number;
}

/** A window of a symbol that was covered, and when its response was generated, epoch ms. */
export interface ClaimedWindow extends Window {
  readonly fetchedAt: number;
}

/** How many ticks came late, and how late they were at least: the greatest time for which one was not there yet, in ms. */
export interface LateTicks {
  readonly ticks: number;
  readonly latenessMs: number;
}

export const noLate: LateTicks = { ticks: 0, latenessMs: 0 };

export const addLateTicks = (a: LateTicks, b: LateTicks): LateTicks => ({
  ticks: a.ticks + b.ticks,
  latenessMs: Math.max(a.latenessMs, b.latenessMs),
});

/**
 * Counts the new ticks of a part whose moment had been covered before they came; a merge takes no old one away. What a
 * backfill brings of windows that nothing had covered is not late.
 * @param withinMs see `LateRules`
 */
export function countLate(
  claimed: ReadonlyMap<string, readonly ClaimedWindow[]>,
  added: ReadonlyMap<string, number>,
  { old, columns }: { readonly old: PartColumns; readonly columns: PartColumns },
  withinMs: number,
): LateTicks {
  if (claimed.size === 0) return noLate;
  const [before, after] = [timesIn(old), timesIn(columns)];
  let late = noLate;
  for (const [symbol, count] of added) {
    const claims = claimed.get(symbol);
    if (count === 0 || claims === undefined) continue;
    const times = { had: before(symbol), has: after(symbol) };
    for (const window of union(claims)) {
      const ticks = countIn(times.has, window) - countIn(times.had, window);
      if (ticks > 0) late = addLateTicks(late, { ticks, latenessMs: measure(times, window, claims, withinMs) });
    }
  }
  return late;
}

/** The greatest lateness, up to `withinMs`, of the new ticks of a window. */
function measure(
  { had, has }: { readonly had: Float64Array; readonly has: Float64Array },
  window: Window,
  claims: readonly ClaimedWindow[],
  withinMs: number,
): number {
  let most = 0;
  let at = firstAtOrAfter(had, window.from);
  for (let i = firstAtOrAfter(has, window.from); i < has.length && has[i]! < window.to; i++) {
    const t = has[i]!;
    if (had[at] === t) {
      at++;
      continue;
    }
    const fetchedAt = claims.reduce((max, w) => (within(t, w) ? Math.max(max, w.fetchedAt) : max), 0);
    if (fetchedAt - t <= withinMs) most = Math.max(most, fetchedAt - t);
  }
  return most;
}
