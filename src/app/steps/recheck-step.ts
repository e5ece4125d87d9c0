import { aheadMsMax } from '../../core/clock.ts';
import type { Covered } from '../../core/coverage.ts';
import { DamageError, UpstreamError } from '../../core/errors.ts';
import { ranks } from '../../core/merge.ts';
import { generator, textKey } from '../../core/random.ts';
import { latenessOf, noteLateness, type RecheckMemory } from '../../core/rechecks.ts';
import { noTicks } from '../../core/tick.ts';
import { newlyPolledMs } from '../../core/volume-drop.ts';
import { dayMs, type Window } from '../../core/window.ts';
import { type CoverContext, requestOnce } from '../../ingest/fetch-symbol.ts';
import { openSink, type Sink } from '../../ingest/journal-writer.ts';
import type { Observation } from '../../ingest/observation.ts';
import { demoted, type RecheckNightContext, recheckNight } from '../../ingest/recheck-night.ts';
import { countRechecks, countRereadRequests } from '../../ingest/recheck-plan.ts';
import { type KnownPages, unknownBehavior } from '../../ingest/server-behavior.ts';
import { openVerifiedFiles } from '../../reading/files/verified-files.ts';
import { watchCurrent } from '../../reading/manifest-watcher.ts';
import { openTicks } from '../../reading/read-ticks.ts';
import { responsesOf } from '../../state/coverage.ts';
import { oldestShown, readKnownPages } from '../../state/evidence.ts';
import type { TickRecord } from '../../state/journal.ts';
import { lastNights } from '../../state/nightly-stats.ts';
import { readRechecks, updateRechecks } from '../../state/rechecks.ts';
import { allSymbols } from '../../state/symbols.ts';
import { overlapMsOf } from '../open-configured.ts';
import type { Run } from '../run.ts';
import { collectPlans } from './poll-steps.ts';
import { publishStep } from './publish-step.ts';

const minuteMs = 60_000;

/** What is read of the archive to compare with is kept in memory up to so many bytes. */
const cacheBytesMax = 64 * 1024 * 1024;

/**
 * Reads a sample of what is settled again, with other bounds, and withdraws and fetches again what that contradicts; then
 * what earlier findings put in doubt. A night that is repeated skips it. Journals all that comes.
 * @returns the error where a published file that was to be compared with is damaged: the rest is to be published before
 * that is said
 */
export async function recheckStep(run: Run, end: number): Promise<DamageError | null> {
  const { context, archive } = run;
  const { settings, clock } = context;
  const { db } = archive.state;
  const past = lastNights(db).filter((night) => night.polledTo <= clock.nowMs() + aheadMsMax);
  // A lost state does not know of earlier nights: nothing was to be asked of one that is repeated.
  const isRepeated =
    run.symbols.planned === 0 || newlyPolledMs(past[0], end, settings.source.firstLookbackDays * dayMs) === null;
  if (settings.poll.recheckShare === 0 || isRepeated || !run.reached) return null;
  const upstream = await run.upstream();
  const { requests } = upstream.counters();
  const windows = countRechecks(settings.poll.recheckShare, requests);
  // The same night of the same archive draws the same windows.
  const seed = textKey(textKey(0, archive.state.identity.upstream), String(end));
  const sink = openSink(archive.state, clock, settings.publish.journalTicksMax, () => publishStep(run));
  const cover: CoverContext = {
    upstream,
    clock,
    runId: run.id,
    origin: 'backfill',
    signal: context.signal,
    append: sink.append,
    behavior: unknownBehavior(oldestShown(db), readKnownPages<KnownPages>(db)),
    pageLimit: settings.poll.pageLimit,
    futureSkewMs: settings.poll.futureSkewSeconds * 1000,
    onPage: () => run.pages++,
  };
  const limits = {
    windows,
    rereadRequestsMax: countRereadRequests(requests),
    overlapOf: (memory: RecheckMemory) => overlapMsOf(context, memory),
  };
  const known = readRechecks(db);
  try {
    const { memory, ...night } = await recheckNight(
      { ...contextOf(run, cover, sink, end), random: generator(seed), requests: () => upstream.counters().requests },
      known,
      limits,
      known.caughtAt !== null && run.night.isPagingContradicted,
    );
    // A publish on the way may have measured a lateness.
    updateRechecks(db, ({ lateness }) =>
      lateness.reduce((noted, { day, ms }) => noteLateness(noted, day, ms, night.at), memory),
    );
    run.rechecks = {
      requests: night.requests,
      windows: night.windows,
      contradicted: night.contradicted,
      new_ticks: night.found,
      withdrawn_windows: night.withdrawn,
      reread_windows: night.reread,
      doubtful_windows: night.doubtful,
      lateness_ms: latenessOf(memory),
      overlap_ms: overlapMsOf(context, memory),
    };
    if (memory.caughtAt !== null) run.warnings.push(caughtText(night.doubtful));
    context.log.info({ ...run.rechecks, seed }, 'rechecked a sample of what is settled');
    return null;
  } catch (error) {
    if (error instanceof DamageError) return error;
    throw error;
  } finally {
    await sink.drain().catch(() => {});
  }
}

const caughtText = (doubtful: number): string =>
  `The service was seen to leave ticks out of wide windows: what was fetched before counts as inferred until it is read again${doubtful === 0 ? '' : `, ${doubtful} windows in the next nights`}.`;

/** How rechecks read and write this archive. */
function contextOf(
  run: Run,
  cover: CoverContext,
  sink: Sink,
  end: number,
): Omit<RecheckNightContext, 'random' | 'requests'> {
  const { context, archive } = run;
  const { db } = archive.state;
  const readTicks = openTicks(archive, watchCurrent(archive), openVerifiedFiles(archive, cacheBytesMax), cacheBytesMax);
  const record = (symbol: string, given: Partial<TickRecord>): TickRecord => ({
    runId: run.id,
    symbol,
    asked: { from: 0, to: 0 },
    observedAt: context.clock.nowMs(),
    origin: 'backfill',
    rank: ranks.poll,
    ticks: noTicks,
    rejected: [],
    covered: [],
    ...given,
  });
  async function write(one: TickRecord): Promise<void> {
    await sink.append(one);
    await sink.drain();
  }
  let isSilent = false;
  return {
    symbols: allSymbols(db)
      .filter(({ suspendedAt }) => suspendedAt === null)
      .map(({ symbol, ticks }) => ({ symbol, ticks })),
    settleMs: context.settings.archive.settleMinutes * minuteMs,
    endMs: end,
    nowMs: () => context.clock.nowMs(),
    coverageOf: (symbol) => responsesOf(db, symbol),
    async timesOf(symbol, { from, to }) {
      const found = await readTicks({ symbol, from, to, limit: Number.MAX_SAFE_INTEGER });
      return joined(found?.slices ?? []);
    },
    async request(symbol, window): Promise<Observation | null> {
      // What failed once is not tried for each window of a sample.
      if (isSilent) return null;
      try {
        const observation = await requestOnce(cover, symbol, window);
        await sink.drain();
        return observation;
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        // Of a symbol that it refuses it may have answered for others.
        if (error.failure !== 'refused') isSilent = true;
        context.log.warn({ symbol, reason: error.reason }, 'a recheck was not answered');
        return null;
      }
    },
    withdraw: (symbol, windows: readonly Window[]) => write(record(symbol, { withdrawn: windows })),
    demote: (symbol, windows: readonly Covered[]) =>
      write(record(symbol, { origin: windows[0]!.origin, ...demoted(windows) })),
    refetch: (plans) => collectPlans(run, plans, 'backfill', { isAgain: true }),
  };
}

function joined(
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
