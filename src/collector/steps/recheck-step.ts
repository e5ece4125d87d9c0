import { readKnownPageCaps } from '../../archive/journal/coverage-store.ts';
import {
  readLastNight,
  readRecheckHistory,
  recordLastNight,
  updateRecheckHistory,
} from '../../archive/journal/nightly-memory.ts';
import { computeLatenessMs, type RecheckHistory, recordLateness } from '../../archive/journal/recheck-results.ts';
import type { RecheckCounts } from '../../archive/journal/run-summary.ts';
import { closeFinalSymbols } from '../../archive/known-state.ts';
import { concatTimes } from '../../archive/read/read-ticks.ts';
import { DamageError, UpstreamError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { clockAheadMsMax } from '../../base/ports.ts';
import { createRandom, hashText } from '../../base/random.ts';
import { hourMs } from '../../base/window.ts';
import { getFutureSkewMs, getOverlapMs, toCompletenessRules } from '../../context/open-configured.ts';
import { type FetchContext, requestWindow } from '../paging/fetch-symbol.ts';
import { type JournalWriter, openJournalWriter, tickRecords } from '../paging/journal-writer.ts';
import type { Observation } from '../paging/observation.ts';
import { createServerBehavior, type KnownPages } from '../paging/server-behavior.ts';
import { type RecheckNightContext, recheckNight } from '../rechecks/recheck.ts';
import { countRechecks, countRereadRequests } from '../rechecks/recheck-plan.ts';
import type { Run } from '../run/run.ts';
import { createCoverageAccess, distrustSource } from './distrust-step.ts';
import { collectPlans } from './poll-steps.ts';
import { createProofAccess, openTicks } from './proof-step.ts';
import { publishJournal } from './publish-step.ts';

/**
 * Rechecks a sample of the proven coverage: fetches it again with different bounds, withdraws contradicted coverage
 * and fetches that again. Then reads doubtful windows of earlier nights again. Does nothing if a night is repeated.
 * Journals all responses.
 * @returns the error if a published file for the comparison is damaged, so that the caller can publish before it throws
 */
export async function recheckCoverage(run: Run, end: number): Promise<DamageError | null> {
  const { context, archive } = run;
  const { settings, clock } = context;
  const { db } = archive.state;
  // A run in which the service left out known ticks proves nothing, whatever it is asked.
  if (settings.poll.recheckShare === 0 || !isNewNight(run, end) || run.night.omission !== null) return null;
  const upstream = await run.upstream();
  const { requests } = upstream.counters();
  const windows = countRechecks(settings.poll.recheckShare, requests);
  // The same night of the same archive selects the same windows.
  const seed = hashText(hashText(0, run.source ?? archive.state.identity.upstream), String(end));
  const history = readRecheckHistory(db, run.source);
  const sink = openJournalWriter(tickRecords, archive.state, clock, settings.publish.journalTicksMax, () =>
    publishJournal(run),
  );
  const cover: FetchContext = {
    upstream,
    clock,
    runId: run.id,
    origin: 'backfill',
    signal: context.signal,
    append: sink.append,
    ...createProofAccess(run, 'backfill', null),
    onOmission: (omission) => distrustSource(run, sink, omission),
    behavior: {
      ...createServerBehavior(readKnownPageCaps<KnownPages>(db, run.source)),
      omitsTicks: history.caughtAt !== null,
    },
    pageLimit: settings.poll.pageLimit,
    futureSkewMs: getFutureSkewMs(context),
    onPage: () => run.pages++,
  };
  const limits = {
    windows,
    rereadRequestsMax: countRereadRequests(requests),
    computeOverlapMs: (memory: RecheckHistory) => getOverlapMs(context, memory),
  };
  // What was fetched in a run that left out known ticks, of twelve hours at most, is doubtful as soon as one leaves none out.
  const doubtfulTo = history.omittedAt === null ? 0 : history.omittedAt + 12 * hourMs;
  const known = { ...history, caughtAt: history.caughtAt && Math.max(history.caughtAt, doubtfulTo) };
  try {
    const { memory, ...night } = await recheckNight(
      {
        ...createRecheckContext(run, cover, sink, end),
        random: createRandom(seed),
        countRequests: () => upstream.counters().requests,
      },
      known,
      limits,
      known.caughtAt !== null && run.nightCounters.isPagingContradicted,
    );
    // A publish during the recheck may have measured lateness.
    updateRecheckHistory(
      db,
      ({ lateness, caughtAt, omittedAt }) => {
        const noted = omittedAt === history.omittedAt ? memory : { ...memory, caughtAt, omittedAt, cleanWindows: 0 };
        return lateness.reduce((updated, { day, ms }) => recordLateness(updated, day, ms, night.at), noted);
      },
      run.source,
    );
    run.rechecks = {
      requests: night.requests,
      windows: night.windows,
      contradicted: night.contradicted,
      new_ticks: night.found,
      withdrawn_windows: night.withdrawn,
      reread_windows: night.reread,
      doubtful_windows: night.doubtful,
      lateness_ms: computeLatenessMs(memory),
      overlap_ms: getOverlapMs(context, memory),
    };
    if (memory.caughtAt !== null) run.warnings.push(formatOmissionWarning(night.doubtful));
    context.log.info({ ...run.rechecks, seed }, 'rechecked a sample of the proven coverage');
    return null;
  } catch (error) {
    if (error instanceof DamageError) return error;
    throw error;
  } finally {
    await sink.drain().catch(() => {});
  }
}

/** Whether this run polled until `end`, epoch ms, and is no repetition of an earlier night. */
function isNewNight(run: Run, end: number): boolean {
  // A repeated night plans no symbols; a restored state does not know earlier nights.
  return run.symbols.planned > 0 && !isRepeatedNight(run, end) && run.hasUpstreamResponded;
}

/** A nightly run that polls less than this after the last one repeats it. */
const nightMsMin = hourMs;

/** Whether a nightly run up to `end`, epoch ms, adds too little to the last one to be another night. */
export function isRepeatedNight(
  { context, archive, source }: Pick<Run, 'context' | 'archive' | 'source'>,
  end: number,
) {
  const last = readLastNight(archive.state.db, source);
  // A night in the future was polled while the clock was wrong.
  return last !== null && last <= context.clock.nowMs() + clockAheadMsMax && end - last < nightMsMin;
}

/** Records a published night, and what is known of lateness after its publish. Closes the symbols that are final. */
export function finishNight(run: Run, end: number): void {
  const { archive, context, source } = run;
  const { db } = archive.state;
  closeFinalSymbols(archive, toCompletenessRules(context.settings), context.clock.nowMs());
  const known = readRecheckHistory(db, source);
  run.rechecks = {
    ...(run.rechecks ?? emptyRecheckCounts),
    lateness_ms: computeLatenessMs(known),
    overlap_ms: getOverlapMs(context, known),
  };
  if (!isRepeatedNight(run, end)) recordLastNight(db, end, source);
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

const formatOmissionWarning = (doubtful: number): string =>
  `The service leaves ticks out of responses for wide windows: earlier coverage counts as inferred until it is read again${doubtful === 0 ? '' : ` (${formatCount(doubtful, 'window')} left for the next nights)`}.`;

/** Creates the context through which rechecks access this archive. */
function createRecheckContext(
  run: Run,
  cover: FetchContext,
  sink: JournalWriter,
  end: number,
): Omit<RecheckNightContext, 'random' | 'countRequests'> {
  const { context, archive } = run;
  const readTicks = openTicks(archive);
  let hasFailed = false;
  return {
    ...createCoverageAccess(run),
    endMs: end,
    nowMs: () => context.clock.nowMs(),
    async loadTickTimes(symbol, { from, to }) {
      const page = await readTicks({ symbol, from, to, limit: Number.MAX_SAFE_INTEGER });
      return concatTimes(page?.slices ?? []);
    },
    async requestPage(symbol, window): Promise<Observation | null> {
      // After one failure the remaining windows of the sample are skipped.
      if (hasFailed) return null;
      try {
        const observation = await requestWindow(cover, symbol, window);
        await sink.drain();
        return observation;
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        // The rejection of one symbol is not evidence about other symbols.
        if (error.failure !== 'refused') hasFailed = true;
        context.log.warn({ symbol, reason: error.reason }, 'a recheck request failed');
        return null;
      }
    },
    async refetch(plans) {
      await collectPlans(run, plans, 'backfill', { isRecheck: true });
    },
  };
}
