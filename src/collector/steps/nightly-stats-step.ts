import { computeLifetime } from '../../archive/completeness/symbol-lifetime.ts';
import { readSymbolCoverage } from '../../archive/journal/coverage-store.ts';
import {
  compareWithPast,
  computeMarketChanges,
  computeNewlyPolledMs,
  computeNightCoverage,
  describeVolumeDrops,
  type NightVolume,
  selectSimilarNights,
  toNamedCount,
} from '../../archive/journal/nightly-comparison.ts';
import {
  countPolled,
  type RecordedNight,
  readLastNights,
  readRecheckHistory,
  recordNight,
} from '../../archive/journal/nightly-memory.ts';
import { computeLatenessMs } from '../../archive/journal/recheck-results.ts';
import type { NightSummary, RecheckCounts } from '../../archive/journal/run-summary.ts';
import { readRulesSince } from '../../archive/journal/selection-store.ts';
import { readListedStates, readSymbol } from '../../archive/journal/symbol-store.ts';
import { clockAheadMsMax } from '../../base/ports.ts';
import { dayMs, type Window } from '../../base/window.ts';
import { getLingerRules, getOverlapMs } from '../../context/open-configured.ts';
import { createJobFailure } from '../run/judge-run.ts';
import type { Run } from '../run/run.ts';
import { reportShortLists } from './poll-steps.ts';

/**
 * Compares a published night with the previous nights, and records it. A sharp drop is a failure of the run; the data are
 * published nevertheless.
 * @param markets number of listed markets; null if a list is incomplete
 */
export function recordNightStats(run: Run, end: number, markets: number | null): void {
  const { settings, log, clock } = run.context;
  const { db } = run.archive.state;
  // Ignore nights in the future: they were polled while the clock was wrong.
  const past = readLastNights(db, run.source).filter((night) => night.polledTo <= clock.nowMs() + clockAheadMsMax);
  const lookbackMs = settings.source.firstLookbackDays * dayMs;
  const polledMs = computeNewlyPolledMs(past[0], end, lookbackMs);
  const counts = countPolled(db, run.id, past[0]?.runId ?? run.id, run.source);
  // A repeated night is neither compared nor recorded.
  const symbolsWithGaps = new Set(run.nightCounters.missingWindows.map(({ symbol }) => symbol));
  const compared = polledMs === null ? [] : selectSimilarNights(past, polledMs);
  run.nightSummary = {
    nights: compared.length,
    ticks: {
      new: compareWithPast(counts.ticks, pickColumn(compared, 'ticks')),
      late: compareWithPast(counts.late, pickColumn(compared, 'late')),
      conflicts: compareWithPast(counts.conflicts, pickColumn(compared, 'conflicts')),
    },
    markets: summarizeMarketChanges(run, past[0]),
    covered: summarizeNightCoverage(run, {
      from: past.find((night) => night.polledTo < end)?.polledTo ?? end - lookbackMs,
      to: end,
    }),
    fetched_late: {
      ...toNamedCount(run.nightCounters.fetchedLateSymbols.filter((symbol) => !symbolsWithGaps.has(symbol))),
      days: run.context.settings.source.downsampledAfterDays,
    },
  };
  // The publish since the rechecks may have increased the overlap.
  const known = readRecheckHistory(db, run.source);
  run.rechecks = {
    ...(run.rechecks ?? emptyRecheckCounts),
    lateness_ms: computeLatenessMs(known),
    overlap_ms: getOverlapMs(run.context, known),
  };
  const { listedAt, shortListsReason } = run.nightCounters;
  if (polledMs === null) {
    reportShortLists(run);
    return;
  }
  const night: NightVolume = { polledTo: end, polledMs, markets, ticks: counts.ticks };
  recordNight(db, { ...night, runId: run.id, late: counts.late, conflicts: counts.conflicts, listedAt }, run.source);
  const drops = describeVolumeDrops(past, night, settings.drops, readRulesSince(db, run.source));
  // Report a drop in the number of markets only once.
  if (shortListsReason !== null && !drops.some((reason) => reason.startsWith('markets')))
    drops.push(`markets: ${shortListsReason}`);
  for (const reason of drops) {
    log.warn({ reason }, 'a sharp drop compared with the previous nights');
    // Before the failed windows, which may exceed the limit of the summary.
    run.failures.unshift(createJobFailure('sharp drop', reason));
  }
}

const emptyRecheckCounts: Omit<RecheckCounts, 'lateness_ms' | 'overlap_ms'> = {
  requests: 0,
  windows: 0,
  contradicted: 0,
  new_ticks: 0,
  withdrawn_windows: 0,
  reread_windows: 0,
  doubtful_windows: 0,
};

const pickColumn = (nights: readonly RecordedNight[], name: 'ticks' | 'late' | 'conflicts'): number[] =>
  nights.map((night) => night[name]);

/** Compares with the market lists of the previous night; without one, all listed symbols are new. */
function summarizeMarketChanges(run: Run, before: RecordedNight | undefined): NightSummary['markets'] {
  const { archive, context, nightCounters } = run;
  const nowMs = context.clock.nowMs();
  const since = before?.listedAt ?? before?.polledTo ?? (nightCounters.listedAt ?? nowMs) - 1;
  return computeMarketChanges(readListedStates(archive.state.db, since, nowMs, run.source), since, nowMs);
}

function summarizeNightCoverage({ archive, context, nightCounters }: Run, night: Window): NightSummary['covered'] {
  const rules = getLingerRules(context);
  const lifetimes = new Map<string, Window>();
  const getLifetime = (symbol: string): Window => {
    const known = lifetimes.get(symbol);
    if (known !== undefined) return known;
    const facts = readSymbol(archive.state.db, symbol);
    const lifetime =
      facts === undefined ? night : computeLifetime(facts, readSymbolCoverage(archive.state.db, symbol), rules);
    lifetimes.set(symbol, lifetime);
    return lifetime;
  };
  return computeNightCoverage(
    nightCounters.polledCount,
    nightCounters.missingWindows.map((window) => ({ ...window, lifetime: getLifetime(window.symbol) })),
    night,
  );
}
