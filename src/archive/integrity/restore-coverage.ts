import { dayMs, intersectTwo, subtract, type Window } from '../../base/window.ts';
import { type CoveredWindow, countCoverageTicks, joinForPublishing, overlayCoverage } from '../format/coverage.ts';
import { listReadColumns } from '../format/datasets.ts';
import { canBeJoined, findNewestResponse, readSegments, readSegmentsIn } from '../journal/coverage-store.ts';
import type { Archive } from '../open-archive.ts';
import { decodeRows } from '../parquet/rows.ts';
import { type DayCoverage, parseCoverageRows } from '../publish/day-tables.ts';
import type { DamagedFile } from './salvage-row-groups.ts';

/** Coverage that was restored from the state, by symbol. */
export type RestoredCoverage = Map<string, readonly CoveredWindow[]>;

/**
 * Restores a day's coverage from the intact rows of its damaged file and, for ticks, from the state. The state has no
 * coverage of order books.
 * @param day its UTC midnight, epoch ms
 * @param settleMs how long after a window's end a response must be generated to be final, in ms
 */
export function restoreCoverage(
  archive: Archive,
  day: number,
  { salvage }: DamagedFile,
  settleMs: number,
): { coverage: DayCoverage; refilled: RestoredCoverage } {
  const { readableFile, intactGroups } = salvage();
  const coverage = parseCoverageRows(
    readableFile === null ? [] : decodeRows(listReadColumns('coverage'), readableFile, intactGroups),
  );
  const restored: RestoredCoverage = new Map();
  const dayWindow = { from: day, to: day + dayMs };
  for (const [symbol, segments] of readSegmentsIn(archive.state.db, dayWindow)) {
    const known = coverage.ticks.get(symbol) ?? [];
    const newest = findNewestResponse(readSegments(archive.state.db, symbol));
    const unknown = segments.flatMap((segment) =>
      subtract([intersectTwo(segment, dayWindow)], known).map((window) =>
        clipSegment(segment, window, settleMs, newest),
      ),
    );
    if (unknown.length === 0) continue;
    const windows = joinForPublishing(overlayCoverage([...known.map(toCovered), ...unknown]));
    restored.set(symbol, windows);
    coverage.ticks.set(symbol, countCoverageTicks(windows, new Float64Array(0)));
  }
  return { coverage, refilled: restored };
}

/**
 * Clips a segment to a window. Old segments were joined with their neighbors and have the time of the last response, so
 * for a clipped one it is known only that its response came after it had settled.
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
