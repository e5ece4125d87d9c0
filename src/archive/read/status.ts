import { clockAheadMsMax } from '../../base/ports.ts';
import { formatDay } from '../../base/time.ts';
import { dayMs, floorToDay, hourMs } from '../../base/window.ts';
import { toOpenDayList } from '../../contract/day-reasons.ts';
import type { Archive } from '../archive.ts';
import {
  type Completeness,
  type CompletenessInput,
  type CompletenessRules,
  computeCompleteness,
} from '../completeness/completeness.ts';
import { computeLifetime, isActive } from '../completeness/symbol-lifetime.ts';
import { listFilesWithRows, listManifestFiles, sumFileSizes, toManifestOwner } from '../format/manifest.ts';
import type { SymbolFacts } from '../format/market.ts';
import { countJournaledTicks } from '../journal/journal-rows.ts';
import { type PastRun, readCurrentRuns } from '../journal/runs.ts';
import { readAllSymbols } from '../journal/symbol-store.ts';
import { listDaysToJudge, readCurrentState, readKnownWindow, selectSymbolsOf } from '../known-state.ts';
import { readDamageStatus } from './archive-status.ts';
import { countGaps, listOpenDaysOf } from './gaps.ts';

const cursorsMax = 20;

/** Symbols that are less far behind the others do not lag: they are fetched one after the other. In ms. */
export const laggingMsMin = hourMs;

/**
 * Judges a state of an archive. Days are those of the manifest, those with owed or lost windows, and all that have ended since while a
 * symbol is active.
 */
export function computeCompletenessOf(archive: Archive, state: CompletenessInput, nowMs: number): Completeness {
  const days = listDaysToJudge(Object.keys(archive.readManifest().days), state);
  // As `updatePublishedCompleteness` does: without an active symbol nothing is expected of what follows.
  const isOpen = (facts: SymbolFacts): boolean =>
    isActive(facts, state.namedSymbols) && computeLifetime(facts, [], state.lifetimeRules).to > nowMs;
  const end = state.symbols.some(isOpen) ? floorToDay(nowMs) : 0;
  for (let day = (days.at(-1) ?? end) + dayMs; day < end; day += dayMs) days.push(day);
  return computeCompleteness(state, { days, window: readKnownWindow(archive.state.db, nowMs), isEndOpen: true });
}

/**
 * Reads the status that `status --json` prints. `reached` is the watermark with inferred windows included. Lost,
 * expired and accepted windows hold back neither. What is published and journaled is that of the whole archive, also
 * if `sources` selects some of its sources.
 */
export function readStatus(archive: Archive, rules: CompletenessRules, nowMs: number, sources: readonly string[] = []) {
  const symbols = sources.length === 0 ? null : selectSymbolsOf(readAllSymbols(archive.state.db), sources);
  const state = readCurrentState(archive, rules, nowMs, symbols, sources);
  return createStatus(archive, computeCompletenessOf(archive, state, nowMs), nowMs);
}

/** Creates the status from the completeness at the same moment. */
export function createStatus(archive: Archive, completeness: Completeness, nowMs: number) {
  const { db } = archive.state;
  const manifest = archive.readManifest();
  const { watermark, reached, counts } = completeness;
  const cursors = completeness.live.toSorted((a, b) => a.cursor - b.cursor);
  const runs = readCurrentRuns(db, nowMs + clockAheadMsMax);
  const newest = cursors.at(-1)?.cursor ?? 0;
  const ticks = listFilesWithRows(manifest, 'ticks');
  const days = [...completeness.days.keys()].filter((day) => day + dayMs <= nowMs).sort((a, b) => a - b);
  return {
    archive: archive.name,
    ...toManifestOwner(archive.state.identity),
    generation: manifest.generation,
    completeness: counts,
    watermark,
    reached,
    lag_ms: reached === null ? null : Math.max(0, nowMs - reached),
    symbols: {
      known: completeness.known,
      live: counts.live,
      suspended: counts.suspended,
      ...(counts.excluded !== undefined && { excluded: counts.excluded }),
      ...(counts.forgotten !== undefined && { forgotten: counts.forgotten }),
    },
    published: {
      ticks: sumFileSizes(ticks).rows,
      bytes: sumFileSizes(listManifestFiles(manifest)).bytes,
      days: new Set(ticks.map(({ date }) => date)).size,
    },
    days: {
      first: days.length === 0 ? null : formatDay(days[0]!),
      last: days.length === 0 ? null : formatDay(days.at(-1)!),
    },
    ...toOpenDayList(listOpenDaysOf(completeness, nowMs)),
    ...readDamageStatus(archive, manifest),
    journaled_ticks: countJournaledTicks(db),
    gaps: countGaps(completeness.gaps),
    /** The last nightly, failed runs after it, and the newest run, oldest first. */
    last_runs: runs
      .filter((run, i) => i === runs.length - 1 || run.job === 'nightly' || run.exitCode !== 0)
      .map(toRunLine),
    cursors: cursors.slice(0, cursorsMax).map(({ symbol, cursor }) => ({ symbol, cursor })),
    cursors_count: cursors.length,
    lagging_count: cursors.filter(({ cursor }) => newest - cursor >= laggingMsMin).length,
  };
}

const toRunLine = ({ runId, job, startedAt, finishedAt, exitCode, state }: PastRun) => ({
  run_id: runId,
  job,
  started_at: startedAt,
  finished_at: finishedAt,
  exit_code: exitCode,
  state,
});
