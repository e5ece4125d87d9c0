import { dayMs, intersectTwo, subtract, type Window } from '../../base/window.ts';
import { type CoveredWindow, joinForPublishing, overlayCoverage } from '../format/coverage.ts';
import { readCoverageColumns } from '../format/datasets.ts';
import { countTicksInWindow } from '../format/tick-columns.ts';
import { canBeJoined, findNewestResponse, readSegments, readSegmentsIn } from '../journal/coverage.ts';
import type { Archive } from '../open-archive.ts';
import { decodeRows } from '../parquet/rows.ts';
import { type DayCoverage, type PublishedCoverage, parseCoverageRows } from '../publish/day-tables.ts';
import type { DamagedFile } from './salvage-row-groups.ts';

/** The coverage of symbols that was taken from the state. */
export type RestoredCoverage = Map<string, readonly CoveredWindow[]>;

/**
 * A day's coverage whose file is damaged: the rows that are intact, and of ticks what the state knows besides. Of order
 * books only the file knew.
 * @param day its UTC midnight, epoch ms
 * @param settleMs how long after its end a window is answered at least where it is final
 */
export function restoreCoverage(
  archive: Archive,
  day: number,
  { salvage }: DamagedFile,
  settleMs: number,
): { coverage: DayCoverage; refilled: RestoredCoverage } {
  const { readableFile, intactGroups } = salvage();
  const coverage = parseCoverageRows(
    readableFile === null ? [] : decodeRows(readCoverageColumns, readableFile, intactGroups),
  );
  const refilled: RestoredCoverage = new Map();
  const within = { from: day, to: day + dayMs };
  for (const [symbol, segments] of readSegmentsIn(archive.state.db, within)) {
    const known = coverage.ticks.get(symbol) ?? [];
    const newest = findNewestResponse(readSegments(archive.state.db, symbol));
    const unknown = segments.flatMap((segment) =>
      subtract([intersectTwo(segment, within)], known).map((window) => clipSegment(segment, window, settleMs, newest)),
    );
    if (unknown.length === 0) continue;
    const stretches = joinForPublishing(overlayCoverage([...known.map(toCovered), ...unknown]));
    refilled.set(symbol, stretches);
    coverage.ticks.set(symbol, countCoverageTicks(stretches, new Float64Array(0)));
  }
  return { coverage, refilled };
}

/**
 * A day's part of a segment. Old ones were joined with their neighbours, with the time of the last one's response: of such
 * a part no more is known than that it was answered once it had settled.
 */
function clipSegment(segment: CoveredWindow, window: Window, settleMs: number, newest: number): CoveredWindow {
  const fetchedAt = canBeJoined(segment, newest)
    ? Math.min(segment.fetchedAt, window.to + settleMs)
    : segment.fetchedAt;
  return { ...segment, ...window, fetchedAt };
}

const toCovered = ({ from, to, fetchedAt, origin, evidence }: CoveredWindow): CoveredWindow => ({
  from,
  to,
  fetchedAt,
  origin,
  evidence,
});

/** Stretches with the ticks that are in them: those that are there, sorted. */
export const countCoverageTicks = (stretches: readonly CoveredWindow[], t: Float64Array): PublishedCoverage[] =>
  stretches.map((stretch) => ({ ...stretch, ticks: countTicksInWindow(t, stretch) }));
