import { fallsOf, type Night, newlyPolledMs } from '../core/falls.ts';
import { dayMs } from '../core/window.ts';
import { lastNights, polledTicks, rememberNight } from '../state/nights.ts';
import type { Run } from './run.ts';

const aheadMsMax = 3_600_000;

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
  const polledMs = newlyPolledMs(past[0], end, settings.source.firstLookbackDays * dayMs);
  if (polledMs === null) return;
  const night: Night = { polledTo: end, polledMs, markets, ticks: polledTicks(db, run.id, past[0]?.runId ?? run.id) };
  rememberNight(db, { ...night, runId: run.id });
  for (const reason of fallsOf(past, night, settings.falls)) {
    log.warn({ reason }, 'a sharp fall against the last nights');
    // Before the windows that failed, of which there may be more than a summary lists.
    run.failures.unshift({ symbol: null, from: null, to: null, reason });
  }
}
