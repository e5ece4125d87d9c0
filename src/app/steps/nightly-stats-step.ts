import { aheadMsMax } from '../../core/clock.ts';
import { compared, marketChanges, named, nightCoverage } from '../../core/nightly-stats.ts';
import { latenessOf } from '../../core/rechecks.ts';
import { lifetimeOf } from '../../core/symbol-lifetime.ts';
import { comparedMax, fallsOf, type Night, newlyPolledMs } from '../../core/volume-drop.ts';
import { dayMs, type Window } from '../../core/window.ts';
import { coverageOf } from '../../state/coverage.ts';
import { type KnownNight, lastNights, polledCounts, rememberNight } from '../../state/nightly-stats.ts';
import { readRechecks } from '../../state/rechecks.ts';
import { listedStates, oneSymbol } from '../../state/symbols.ts';
import { lingerRules, overlapMsOf } from '../open-configured.ts';
import type { Run } from '../run.ts';
import type { NightFacts, RecheckCounts } from '../summary.ts';
import { shortListsStep } from './poll-steps.ts';

/**
 * Compares this night with the last ones, once it is published, and remembers it. What fell sharply is a failure of the
 * run; nothing is withheld for it.
 * @param markets how many the lists named; null where one could not be had whole
 */
export function nightStep(run: Run, end: number, markets: number | null): void {
  const { settings, log, clock } = run.context;
  const { db } = run.archive.state;
  // A night that lies ahead was polled by a clock that was wrong: waiting for it would be no watch at all.
  const past = lastNights(db).filter((night) => night.polledTo <= clock.nowMs() + aheadMsMax);
  const lookbackMs = settings.source.firstLookbackDays * dayMs;
  const polledMs = newlyPolledMs(past[0], end, lookbackMs);
  const counts = polledCounts(db, run.id, past[0]?.runId ?? run.id);
  // What is repeated is no night: it is compared with nothing, and nothing will be with it.
  const lacking = new Set(run.night.lacking.map(({ symbol }) => symbol));
  const others = polledMs === null ? [] : past.slice(0, comparedMax);
  run.nightFacts = {
    nights: others.length,
    ticks: {
      new: compared(counts.ticks, column(others, 'ticks')),
      late: compared(counts.late, column(others, 'late')),
      conflicts: compared(counts.conflicts, column(others, 'conflicts')),
    },
    markets: changesSince(run, past[0]),
    covered: coveredOf(run, {
      from: past.find((night) => night.polledTo < end)?.polledTo ?? end - lookbackMs,
      to: end,
    }),
    too_late: named(run.night.tooLate.filter((symbol) => !lacking.has(symbol))),
  };
  // What was published since the rechecks may have grown the overlap.
  const known = readRechecks(db);
  run.rechecks = {
    ...(run.rechecks ?? noRechecks),
    lateness_ms: latenessOf(known),
    overlap_ms: overlapMsOf(run.context, known),
  };
  const { listedAt, shortLists } = run.night;
  if (polledMs === null) {
    shortListsStep(run);
    return;
  }
  const night: Night = { polledTo: end, polledMs, markets, ticks: counts.ticks };
  rememberNight(db, { ...night, runId: run.id, late: counts.late, conflicts: counts.conflicts, listedAt });
  const falls = fallsOf(past, night, settings.falls);
  // The same is told once.
  if (shortLists !== null && !falls.some((reason) => reason.startsWith('markets')))
    falls.push(`markets: ${shortLists}`);
  for (const reason of falls) {
    log.warn({ reason }, 'a sharp fall against the last nights');
    run.fell = true;
    // Before the windows that failed, of which there may be more than a summary lists.
    run.failures.unshift({ symbol: null, from: null, to: null, reason });
  }
}

const noRechecks: Omit<RecheckCounts, 'lateness_ms' | 'overlap_ms'> = {
  requests: 0,
  windows: 0,
  contradicted: 0,
  new_ticks: 0,
  withdrawn_windows: 0,
  reread_windows: 0,
  doubtful_windows: 0,
};

const column = (nights: readonly KnownNight[], name: 'ticks' | 'late' | 'conflicts'): (number | null)[] =>
  nights.map((night) => night[name]);

/** Since the lists that the night before polled; where there was none, what these lists were the first to tell. */
function changesSince(run: Run, before: KnownNight | undefined): NightFacts['markets'] {
  const { archive, context, night } = run;
  const nowMs = context.clock.nowMs();
  const since = before?.listedAt ?? before?.polledTo ?? (night.listedAt ?? nowMs) - 1;
  const states = listedStates(archive.state.db, since, nowMs);
  // Of one that closed a moment ago nothing could be told yet: it is counted, and nothing to look into.
  run.longOverdue = marketChanges(states, since, nowMs - dayMs).overdue.names;
  return marketChanges(states, since, nowMs);
}

function coveredOf({ archive, context, night }: Run, span: Window): NightFacts['covered'] {
  const rules = lingerRules(context);
  const lives = new Map<string, Window>();
  const lifeIn = (symbol: string): Window => {
    const known = lives.get(symbol);
    if (known !== undefined) return known;
    const facts = oneSymbol(archive.state.db, symbol);
    const life = facts === undefined ? span : lifetimeOf(facts, coverageOf(archive.state.db, symbol), rules);
    lives.set(symbol, life);
    return life;
  };
  return nightCoverage(
    night.polled,
    night.lacking.map((window) => ({ ...window, life: lifeIn(window.symbol) })),
    span,
  );
}
