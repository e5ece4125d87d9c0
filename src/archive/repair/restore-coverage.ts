import { type Covered, joinForPublishing, overlay } from '../../core/coverage.ts';
import { countIn } from '../../core/tick-search.ts';
import { dayMs, intersection, subtract, type Window } from '../../core/window.ts';
import { isJoined, newestResponse, segmentsIn, segmentsOf } from '../../state/coverage.ts';
import { coverageOfRows, type DayCoverage, type PublishedCoverage } from '../generation/day-tables.ts';
import type { Archive } from '../open-archive.ts';
import { decodeRows } from '../parquet/rows.ts';
import { coverageColumns } from '../parquet/schema.ts';
import type { Broken } from './types.ts';

/** The coverage of symbols that was taken from the state. */
export type Refilled = Map<string, readonly Covered[]>;

/**
 * A day's coverage whose file is damaged: the rows that are intact, and of ticks what the state knows besides. Of order
 * books only the file knew.
 * @param day its UTC midnight, epoch ms
 * @param settleMs how long after its end a window is answered at least where it is final
 */
export function refill(
  archive: Archive,
  day: number,
  { salvaged }: Broken,
  settleMs: number,
): { coverage: DayCoverage; refilled: Refilled } {
  const { readable, kept } = salvaged();
  const coverage = coverageOfRows(readable === null ? [] : decodeRows(coverageColumns, readable, kept));
  const refilled: Refilled = new Map();
  const within = { from: day, to: day + dayMs };
  for (const [symbol, segments] of segmentsIn(archive.state.db, within)) {
    const known = coverage.ticks.get(symbol) ?? [];
    const newest = newestResponse(segmentsOf(archive.state.db, symbol));
    const unknown = segments.flatMap((segment) =>
      subtract([intersection(segment, within)], known).map((window) => answeredPart(segment, window, settleMs, newest)),
    );
    if (unknown.length === 0) continue;
    const stretches = joinForPublishing(overlay([...known.map(answerOf), ...unknown]));
    refilled.set(symbol, stretches);
    coverage.ticks.set(symbol, countAnew(stretches, new Float64Array(0)));
  }
  return { coverage, refilled };
}

/**
 * A day's part of a segment. Old ones were joined with their neighbours, with the time of the last one's response: of such
 * a part no more is known than that it was answered once it had settled.
 */
function answeredPart(segment: Covered, window: Window, settleMs: number, newest: number): Covered {
  const fetchedAt = isJoined(segment, newest) ? Math.min(segment.fetchedAt, window.to + settleMs) : segment.fetchedAt;
  return { ...segment, ...window, fetchedAt };
}

const answerOf = ({ from, to, fetchedAt, origin, evidence }: Covered): Covered => ({
  from,
  to,
  fetchedAt,
  origin,
  evidence,
});

/** Stretches with the ticks that are in them: those that are there, sorted. */
export const countAnew = (stretches: readonly Covered[], t: Float64Array): PublishedCoverage[] =>
  stretches.map((stretch) => ({ ...stretch, ticks: countIn(t, stretch) }));
