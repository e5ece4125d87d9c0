import { compareUtf8 } from '../../core/compare-utf8.ts';
import type { LostWindow } from '../../core/data-loss.ts';
import type { PartColumns } from '../../core/merge.ts';
import { countTicksInWindow, indexTickTimes } from '../../core/tick-search.ts';
import { dayMs, intersectTwo, isEmpty, subtract, union, type Window } from '../../core/window.ts';
import type { PublishedCoverage } from '../generation/day-tables.ts';
import type { LostRange } from './salvage-row-groups.ts';

/** What a part of a day lost, as far as coverage can tell. */
export interface PartitionLosses {
  /** Windows whose coverage has to go, each with the ticks that were published in it. */
  readonly windows: readonly LostWindow[];
  /** Lost ticks that no answer covered, as those of rows of a file: nothing knows where to ask for them. */
  readonly uncovered: number;
}

/**
 * Which windows of a day's part are lost: where rows are gone and coverage claims some. Coverage without ticks stays, and
 * so does what lies before and behind the lost rows of a stretch.
 * @param day its UTC midnight, epoch ms
 * @param coverage of the part's symbols, as it was published
 * @param left the rows that are there still
 */
export function computeLostWindows(
  day: number,
  ranges: readonly LostRange[],
  coverage: ReadonlyMap<string, readonly PublishedCoverage[]>,
  left: PartColumns,
): PartitionLosses {
  const windows: LostWindow[] = [];
  const timesOf = indexTickTimes(left);
  let missing = 0;
  for (const [symbol, stretches] of coverage) {
    const spans = ranges.flatMap((range) => computeRangeWindow(range, symbol, day) ?? []);
    const t = timesOf(symbol);
    for (const stretch of stretches) {
      const gone = stretch.ticks - countTicksInWindow(t, stretch);
      const touched = spans.map((span) => intersectTwo(span, stretch)).filter((w) => !isEmpty(w));
      if (gone <= 0 || touched.length === 0) continue;
      missing += gone;
      // Coverage counts its stretch as a whole: what lies between two lost pieces of it goes with them.
      const window = {
        from: touched.reduce((least, w) => Math.min(least, w.from), Number.POSITIVE_INFINITY),
        to: touched.reduce((most, w) => Math.max(most, w.to), 0),
      };
      windows.push({ dataset: 'ticks', symbol, ...window, ticks: gone + countTicksInWindow(t, window) });
    }
  }
  const rows = ranges.reduce((sum, range) => sum + range.rows, 0);
  return { windows, uncovered: Math.max(0, rows - missing) };
}

/**
 * The lost windows of a symbol whose coverage was taken from the state, which knows how many ticks it lost and not where:
 * in each run of stretches that adjoin, from the first lost rows to the last. The one that lost rows reach into most is
 * said to have had the ticks; the others are asked for again as well, as nothing proves that they were quiet.
 * @param t the times that are there still, sorted
 * @param spans where rows of it are gone
 * @param missing how many, of all of it
 * @param elsewhere how many at least in each other window; 0 where `missing` is all that there were
 */
export function computeLostWindowsOfRestored(
  symbol: string,
  stretches: readonly Window[],
  t: Float64Array,
  spans: readonly Window[],
  missing: number,
  elsewhere: 0 | 1,
): LostWindow[] {
  if (missing <= 0) return [];
  const touched = union(stretches).flatMap((run) => {
    const pieces = spans.map((span) => intersectTwo(span, run)).filter((w) => !isEmpty(w));
    const reachMs = pieces.reduce((ms, w) => ms + w.to - w.from, 0);
    const from = Math.min(...pieces.map((w) => w.from));
    const to = Math.max(...pieces.map((w) => w.to));
    return pieces.length === 0 ? [] : [{ from, to, reachMs }];
  });
  const most = touched.reduce((best, { reachMs }, i) => (reachMs > touched[best]!.reachMs ? i : best), 0);
  return touched.map(({ from, to }, i) => {
    const ticks = countTicksInWindow(t, { from, to }) + (i === most ? missing : elsewhere);
    return { dataset: 'ticks', symbol, from, to, ticks };
  });
}

/** The span of time of which a range may hold rows of a symbol, within a day; undefined where it can hold none. */
export function computeRangeWindow({ keys }: LostRange, symbol: string, day: number): Window | undefined {
  const whole = { from: day, to: day + dayMs };
  if (keys === null) return whole;
  const [firstSymbol, firstTime] = keys.first as [string, number];
  const [lastSymbol, lastTime] = keys.last as [string, number];
  if (compareUtf8(symbol, firstSymbol) < 0 || compareUtf8(symbol, lastSymbol) > 0) return undefined;
  return {
    from: symbol === firstSymbol ? firstTime : whole.from,
    to: symbol === lastSymbol ? lastTime + 1 : whole.to,
  };
}

/** Coverage without the lost windows, what is left of a stretch with the ticks that are in it. */
export function subtractFromCoverage(
  stretches: readonly PublishedCoverage[],
  lost: readonly Window[],
  t: Float64Array,
): PublishedCoverage[] {
  return stretches.flatMap((stretch) => {
    const pieces = subtract([stretch], lost);
    if (pieces[0]?.from === stretch.from && pieces[0].to === stretch.to) return [stretch];
    return pieces.map((piece) => ({ ...stretch, ...piece, ticks: countTicksInWindow(t, piece) }));
  });
}
