import { computeLifetime } from '../../archive/completeness/symbol-lifetime.ts';
import { readSymbolCoverage } from '../../archive/journal/coverage.ts';
import {
  comparedMax,
  compareWithPast,
  computeMarketChanges,
  computeNewlyPolledMs,
  computeNightCoverage,
  describeVolumeDrops,
  type NightVolume,
  toNamedCount,
} from '../../archive/journal/nightly-comparison.ts';
import {
  countPolled,
  type RecordedNight,
  readLastNights,
  readRechecks,
  recordNight,
} from '../../archive/journal/nightly-memory.ts';
import { computeLatenessMs } from '../../archive/journal/recheck-results.ts';
import { readListedStates, readSymbol } from '../../archive/journal/symbols.ts';
import type { LateTickRules } from '../../archive/publish/late-ticks.ts';
import { clockAheadMsMax } from '../../base/ports.ts';
import { dayMs, type Window } from '../../base/window.ts';
import { getLingerRules, getOverlapMs } from '../../context/open-configured.ts';
import type { Run } from '../run/run.ts';
import type { NightSummary, RecheckCounts } from '../run/summary.ts';
import { reportShortLists } from './poll-steps.ts';

/**
 * Compares this night with the last ones, once it is published, and remembers it. What fell sharply is a failure of the
 * run; nothing is withheld for it.
 * @param markets how many the lists named; null where one could not be had whole
 */
export function recordNightStats(run: Run, end: number, markets: number | null): void {
  const { settings, log, clock } = run.context;
  const { db } = run.archive.state;
  // A night that lies ahead was polled by a clock that was wrong: waiting for it would be no watch at all.
  const past = readLastNights(db).filter((night) => night.polledTo <= clock.nowMs() + clockAheadMsMax);
  const lookbackMs = settings.source.firstLookbackDays * dayMs;
  const polledMs = computeNewlyPolledMs(past[0], end, lookbackMs);
  const counts = countPolled(db, run.id, past[0]?.runId ?? run.id);
  // What is repeated is no night: it is compared with nothing, and nothing will be with it.
  const lacking = new Set(run.nightCounters.missingWindows.map(({ symbol }) => symbol));
  const others = polledMs === null ? [] : past.slice(0, comparedMax);
  run.nightSummary = {
    nights: others.length,
    ticks: {
      new: compareWithPast(counts.ticks, pickColumn(others, 'ticks')),
      late: compareWithPast(counts.late, pickColumn(others, 'late')),
      conflicts: compareWithPast(counts.conflicts, pickColumn(others, 'conflicts')),
    },
    markets: summarizeMarketChanges(run, past[0]),
    covered: summarizeNightCoverage(run, {
      from: past.find((night) => night.polledTo < end)?.polledTo ?? end - lookbackMs,
      to: end,
    }),
    fetched_late: toNamedCount(run.nightCounters.tooLateSymbols.filter((symbol) => !lacking.has(symbol))),
  };
  // What was published since the rechecks may have grown the overlap.
  const known = readRechecks(db);
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
  recordNight(db, { ...night, runId: run.id, late: counts.late, conflicts: counts.conflicts, listedAt });
  const falls = describeVolumeDrops(past, night, settings.drops);
  // The same is told once.
  if (shortListsReason !== null && !falls.some((reason) => reason.startsWith('markets')))
    falls.push(`markets: ${shortListsReason}`);
  for (const reason of falls) {
    log.warn({ reason }, 'a sharp fall against the last nights');
    run.hasSharpDrop = true;
    // Before the windows that failed, of which there may be more than a summary lists.
    run.failures.unshift({ symbol: null, from: null, to: null, reason });
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

const pickColumn = (nights: readonly RecordedNight[], name: 'ticks' | 'late' | 'conflicts'): (number | null)[] =>
  nights.map((night) => night[name]);

/** Since the lists that the night before polled; where there was none, what these lists were the first to tell. */
function summarizeMarketChanges(run: Run, before: RecordedNight | undefined): NightSummary['markets'] {
  const { archive, context, nightCounters } = run;
  const nowMs = context.clock.nowMs();
  const since = before?.listedAt ?? before?.polledTo ?? (nightCounters.listedAt ?? nowMs) - 1;
  const states = readListedStates(archive.state.db, since, nowMs);
  // Of one that closed a moment ago nothing could be told yet: it is counted, and nothing to look into.
  run.longOverdueSymbols = computeMarketChanges(states, since, nowMs - dayMs).overdue.names;
  return computeMarketChanges(states, since, nowMs);
}

function summarizeNightCoverage({ archive, context, nightCounters }: Run, span: Window): NightSummary['covered'] {
  const rules = getLingerRules(context);
  const lives = new Map<string, Window>();
  const lifeIn = (symbol: string): Window => {
    const known = lives.get(symbol);
    if (known !== undefined) return known;
    const facts = readSymbol(archive.state.db, symbol);
    const life =
      facts === undefined ? span : computeLifetime(facts, readSymbolCoverage(archive.state.db, symbol), rules);
    lives.set(symbol, life);
    return life;
  };
  return computeNightCoverage(
    nightCounters.polledCount,
    nightCounters.missingWindows.map((window) => ({ ...window, lifetime: lifeIn(window.symbol) })),
    span,
  );
}

/** What the polls of a run note for the summary of a night. */
export interface NightCounters {
  /** How late ticks are counted; absent where it polls no ticks. */
  lateRules?: LateTickRules;
  /** Whether responses to its polls contradicted each other. */
  isPagingContradicted: boolean;
  /** The moment of the market lists that it polled, epoch ms; null where none could be had. */
  listedAt: number | null;
  /** Why its lists are suspiciously short, one clause; null where they are not. */
  shortListsReason: string | null;
  /** Symbols whose ticks it was to have up to its end. */
  polledCount: number;
  /** What it asked for and has not got. */
  readonly missingWindows: (Window & { readonly symbol: string })[];
  /** Symbols of which it asked for a time that the service may have thinned out by now. */
  readonly tooLateSymbols: string[];
}

export const createNightCounters = (): NightCounters => ({
  listedAt: null,
  shortListsReason: null,
  polledCount: 0,
  missingWindows: [],
  tooLateSymbols: [],
  isPagingContradicted: false,
});
