import type { Static } from 'typebox';
import { findFirstIndex } from '../../../base/binary-search.ts';
import type { HistoricalCoverageResponse } from '../../../contract/historical.ts';
import type { TimeRange } from './view.ts';

/** A window without coverage, with the reason if it is known. */
export interface Gap extends TimeRange {
  readonly reason?: string;
  readonly detail?: string;
  /** Number of lost ticks. */
  readonly ticks?: number;
}

/** A row of /api/v1/historical/coverage. */
export type CoverageRow = Omit<
  Static<typeof HistoricalCoverageResponse>['coverage'][number],
  'dataset' | 'symbol' | 'ticks'
>;

/** A covered window of a chart. */
export interface CoveredWindow extends TimeRange {
  readonly evidence: string;
  readonly origin: string;
  readonly grainMs: number | null;
}

/** Windows within the range. Adjacent windows of the same kind are joined. */
export function joinCoverage(rows: readonly CoverageRow[], range: TimeRange): CoveredWindow[] {
  const out: { from: number; to: number; evidence: string; origin: string; grainMs: number | null }[] = [];
  for (const row of [...rows].sort((a, b) => a.t_from - b.t_from)) {
    const [from, to] = [Math.max(row.t_from, range.from), Math.min(row.t_to, range.to)];
    if (from >= to) continue;
    const { origin, evidence, grain_ms: grainMs = null } = row;
    const last = out.at(-1);
    if (last?.to === from && last.evidence === evidence && last.origin === origin && last.grainMs === grainMs)
      last.to = to;
    else out.push({ from, to, evidence, origin, grainMs });
  }
  return out;
}

/** Sorted gaps within the range. Gaps that touch are one, if they have the same reason. */
export function clipGaps<T extends Gap>(gaps: readonly T[], range: TimeRange): T[] {
  const out: T[] = [];
  for (const gap of [...gaps].sort((a, b) => a.from - b.from)) {
    const last = out.at(-1);
    const joins = last !== undefined && last.reason === gap.reason && last.detail === gap.detail && gap.from <= last.to;
    // Gaps of several pages may overlap; a chart needs disjoint ones.
    const start = joins ? gap.from : Math.max(gap.from, last?.to ?? gap.from);
    const cut = { ...gap, from: Math.max(start, range.from), to: Math.min(gap.to, range.to) };
    if (cut.from >= cut.to) continue;
    if (joins) out[out.length - 1] = { ...last, to: Math.max(last.to, cut.to) };
    else out.push(cut);
  }
  return out;
}

/** The window that contains a time, in sorted, disjoint windows. */
export function findWindow<T extends TimeRange>(windows: readonly T[], t: number): T | undefined {
  const found = windows[findFirstIndex(0, windows.length, (i) => windows[i]!.to > t)];
  return found !== undefined && found.from <= t ? found : undefined;
}

/** Index of the last value that is at most `t`, in ascending values; -1 if there is none. */
export const findLastAtMost = (values: ArrayLike<number>, t: number): number =>
  findFirstIndex(0, values.length, (i) => values[i]! > t) - 1;
