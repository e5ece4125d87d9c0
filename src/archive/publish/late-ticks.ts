import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import { isWithin, union, type Window } from '../../base/window.ts';
import { indexTickTimes, type PartColumns } from '../format/tick-columns.ts';

/** Which ticks of a source count as late, and how their lateness is measured. Times in ms. */
export interface LateTickRules {
  /** Start of the source's run, epoch ms. A window counts as previously covered if it was fetched before this time. */
  readonly fetchedBeforeMs: number;
  /** Length of the overlap, which every run reads again. Lateness beyond it is not measured. */
  readonly latenessMsMax: number;
  /** The source. Null: the only service. */
  readonly source: string | null;
}

/** What a merge needs to measure late ticks by one of the rules. */
export interface LateTickTask {
  /** Coverage of the part's symbols from before the run, for the symbols of the source. */
  readonly claimed: ReadonlyMap<string, readonly FetchedWindow[]>;
  /** See `LateTickRules.latenessMsMax`. */
  readonly latenessMsMax: number;
}

/** A covered window of a symbol, and when its response was generated, epoch ms. */
export interface FetchedWindow extends Window {
  readonly fetchedAt: number;
}

/**
 * Measures how late the new ticks of a part are, in windows that were covered before the run: a lower bound for the longest
 * time after a tick's own time at which the tick was still missing, in ms; 0 if no tick is late. Ticks that a backfill adds
 * to uncovered windows are not late. A merge never removes an old tick.
 * @param latenessMsMax see `LateTickRules.latenessMsMax`
 */
export function measureLateness(
  coveredBefore: ReadonlyMap<string, readonly FetchedWindow[]>,
  added: ReadonlyMap<string, number>,
  { old, columns }: { readonly old: PartColumns; readonly columns: PartColumns },
  latenessMsMax: number,
): number {
  if (coveredBefore.size === 0) return 0;
  const [before, after] = [indexTickTimes(old), indexTickTimes(columns)];
  let latenessMs = 0;
  for (const [symbol, count] of added) {
    const coveredWindows = coveredBefore.get(symbol);
    if (count === 0 || coveredWindows === undefined) continue;
    const times = { had: before(symbol), has: after(symbol) };
    for (const window of union(coveredWindows))
      latenessMs = Math.max(latenessMs, measureLatenessMs(times, window, coveredWindows, latenessMsMax));
  }
  return latenessMs;
}

/** The maximum lateness, limited to `latenessMsMax`, of the new ticks of a window. */
function measureLatenessMs(
  { had, has }: { readonly had: Float64Array; readonly has: Float64Array },
  window: Window,
  coveredWindows: readonly FetchedWindow[],
  latenessMsMax: number,
): number {
  let latenessMs = 0;
  let at = findFirstAtOrAfter(had, window.from);
  for (let i = findFirstAtOrAfter(has, window.from); i < has.length && has[i]! < window.to; i++) {
    const t = has[i]!;
    if (had[at] === t) {
      at++;
      continue;
    }
    const fetchedAt = coveredWindows.reduce((max, w) => (isWithin(t, w) ? Math.max(max, w.fetchedAt) : max), 0);
    if (fetchedAt - t <= latenessMsMax) latenessMs = Math.max(latenessMs, fetchedAt - t);
  }
  return latenessMs;
}
