import type { CoveredWindow } from '../../archive/format/coverage.ts';
import { precedenceRanks } from '../../archive/format/precedence.ts';
import { readKnownPageCaps, readResponses } from '../../archive/journal/coverage-store.ts';
import type { TickRecord } from '../../archive/journal/journal.ts';
import {
  readLastNight,
  readRecheckHistory,
  recordLastNight,
  updateRecheckHistory,
} from '../../archive/journal/nightly-memory.ts';
import { computeLatenessMs, type RecheckHistory, recordLateness } from '../../archive/journal/recheck-results.ts';
import type { RecheckCounts } from '../../archive/journal/run-summary.ts';
import { readCollectedSymbols } from '../../archive/journal/symbol-subsets.ts';
import { watchManifest } from '../../archive/read/manifest-watcher.ts';
import { openTickReader } from '../../archive/read/read-ticks.ts';
import { openVerifiedFiles } from '../../archive/read/verified-files.ts';
import { DamageError, UpstreamError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { clockAheadMsMax } from '../../base/ports.ts';
import { createRandom, hashText } from '../../base/random.ts';
import { emptyTicks } from '../../base/ticks.ts';
import { hourMs, type Window } from '../../base/window.ts';
import { getFutureSkewMs, getOverlapMs } from '../../context/open-configured.ts';
import { type FetchContext, requestWindow } from '../paging/fetch-symbol.ts';
import { type JournalWriter, openJournalWriter, tickRecords } from '../paging/journal-writer.ts';
import type { Observation } from '../paging/observation.ts';
import { createServerBehavior, type KnownPages } from '../paging/server-behavior.ts';
import { createDemotion, type RecheckNightContext, recheckNight } from '../rechecks/recheck.ts';
import { countRechecks, countRereadRequests } from '../rechecks/recheck-plan.ts';
import type { Run } from '../run/run.ts';
import { collectPlans } from './poll-steps.ts';
import { noteRecordCoverage } from './polled-symbols.ts';
import { publishJournal } from './publish-step.ts';

/** Size of the cache of published ticks that responses are compared with, in bytes. */
const cacheBytesMax = 64 * 1024 * 1024;

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
  if (settings.poll.recheckShare === 0 || !isNewNight(run, end)) return null;
  const upstream = await run.upstream();
  const { requests } = upstream.counters();
  const windows = countRechecks(settings.poll.recheckShare, requests);
  // The same night of the same archive selects the same windows.
  const seed = hashText(hashText(0, run.source ?? archive.state.identity.upstream), String(end));
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
    night: run.night,
    behavior: createServerBehavior(readKnownPageCaps<KnownPages>(db, run.source)),
    pageLimit: settings.poll.pageLimit,
    futureSkewMs: getFutureSkewMs(context),
    onPage: () => run.pages++,
  };
  const limits = {
    windows,
    rereadRequestsMax: countRereadRequests(requests),
    computeOverlapMs: (memory: RecheckHistory) => getOverlapMs(context, memory),
  };
  const known = readRecheckHistory(db, run.source);
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
      ({ lateness }) => lateness.reduce((noted, { day, ms }) => recordLateness(noted, day, ms, night.at), memory),
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

/** Records a published night, and what is known of lateness after its publish. */
export function finishNight(run: Run, end: number): void {
  const { archive, context, source } = run;
  const { db } = archive.state;
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
  const { db } = archive.state;
  const readTicks = openTickReader(
    archive,
    watchManifest(archive),
    openVerifiedFiles(archive, cacheBytesMax),
    cacheBytesMax,
  );
  const createRecord = (symbol: string, fields: Partial<TickRecord>): TickRecord => ({
    runId: run.id,
    symbol,
    requestedWindow: { from: 0, to: 0 },
    observedAt: context.clock.nowMs(),
    origin: 'backfill',
    rank: precedenceRanks.poll,
    ticks: emptyTicks,
    rejected: [],
    covered: [],
    ...fields,
  });
  async function write(record: TickRecord): Promise<void> {
    noteRecordCoverage(run, record);
    await sink.append(record);
    await sink.drain();
  }
  let hasFailed = false;
  return {
    symbols: readCollectedSymbols(db, run.source),
    endMs: end,
    nowMs: () => context.clock.nowMs(),
    getCoverage: (symbol) => readResponses(db, symbol),
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
    withdraw: (symbol, windows: readonly Window[]) => write(createRecord(symbol, { withdrawn: windows })),
    demote: (symbol, windows: readonly CoveredWindow[]) =>
      write(createRecord(symbol, { origin: windows[0]!.origin, ...createDemotion(windows) })),
    async refetch(plans) {
      await collectPlans(run, plans, 'backfill', { isRecheck: true });
    },
  };
}

function concatTimes(
  slices: readonly { readonly t: Float64Array; readonly from: number; readonly to: number }[],
): Float64Array {
  const times = new Float64Array(slices.reduce((sum, { from, to }) => sum + to - from, 0));
  let at = 0;
  for (const { t, from, to } of slices) {
    times.set(t.subarray(from, to), at);
    at += to - from;
  }
  return times;
}
