import { dayMs, intersectTwo, subtract, type Window } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import { type CoveredWindow, countCoverageTicks, joinForPublishing, overlayCoverage } from '../format/coverage.ts';
import { listReadColumns } from '../format/datasets.ts';
import {
  canBeJoined,
  findNewestResponse,
  readPublishedCoverage,
  readPublishedCoverageIn,
} from '../journal/coverage-store.ts';
import { decodeRows } from '../parquet/rows.ts';
import { addCoverage, type DayCoverage, parseCoverageRows } from '../publish/day-tables.ts';
import type { DamagedFile } from './salvage-row-groups.ts';

/** Coverage that was restored from the state, by symbol. */
export type RestoredCoverage = Map<string, readonly CoveredWindow[]>;

/**
 * Restores a day's coverage from its intact files, the intact rows of its damaged files and, for ticks, from the state. The
 * state has no other coverage.
 * @param day its UTC midnight, epoch ms
 * @param coverage the coverage of the intact files; changed in place
 * @param settleMs how long after a window's end a response must be generated to be final, in ms
 */
export function restoreCoverage(
  archive: Archive,
  day: number,
  coverage: DayCoverage,
  damaged: readonly DamagedFile[],
  settleMs: number,
): RestoredCoverage {
  for (const file of damaged) addCoverage(coverage, readIntactCoverage(file));
  const restored: RestoredCoverage = new Map();
  const dayWindow = { from: day, to: day + dayMs };
  for (const [symbol, covered] of readPublishedCoverageIn(archive.state.db, dayWindow)) {
    const known = coverage.ticks.get(symbol) ?? [];
    const newest = findNewestResponse(readPublishedCoverage(archive.state.db, symbol));
    const unknown = covered.flatMap((one) =>
      subtract([intersectTwo(one, dayWindow)], known).map((window) => clipCoverage(one, window, settleMs, newest)),
    );
    if (unknown.length === 0) continue;
    const windows = joinForPublishing(overlayCoverage([...known.map(toCovered), ...unknown]));
    restored.set(symbol, windows);
    coverage.ticks.set(symbol, countCoverageTicks(windows, new Float64Array(0)));
  }
  return restored;
}

/** The intact rows of a damaged file of coverage. */
function readIntactCoverage({ salvage }: DamagedFile): DayCoverage {
  const { readableFile, intactGroups } = salvage();
  return parseCoverageRows(
    readableFile === null ? [] : decodeRows(listReadColumns('coverage'), readableFile, intactGroups),
  );
}

/**
 * Clips a covered window to another one. Old ones were joined with their neighbors and have the time of the last response, so
 * for a clipped one it is known only that its response came after it had settled.
 */
function clipCoverage(covered: CoveredWindow, window: Window, settleMs: number, newest: number): CoveredWindow {
  const fetchedAt = canBeJoined(covered, newest)
    ? Math.min(covered.fetchedAt, window.to + settleMs)
    : covered.fetchedAt;
  return { ...covered, ...window, fetchedAt };
}

const toCovered = ({ from, to, fetchedAt, origin, evidence }: CoveredWindow): CoveredWindow => ({
  from,
  to,
  fetchedAt,
  origin,
  evidence,
});
