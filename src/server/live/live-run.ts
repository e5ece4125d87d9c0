import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Archive } from '../../archive/archive.ts';
import { openSharedRateStore } from '../../archive/journal/rate-limit-store.ts';
import { finishRun, readRunCounts } from '../../archive/journal/runs.ts';
import type { State } from '../../archive/journal/state.ts';
import { floorToDay } from '../../base/window.ts';
import type { Upstream } from '../../client/upstream.ts';
import { closeRawCapture, openRawCapture } from '../../collector/run/raw-capture.ts';
import { createRun, type Run } from '../../collector/run/run.ts';
import { emptyFacts, summarize } from '../../collector/run/summary.ts';
import type { Context } from '../../context/context.ts';
import { keepSource, openConfiguredUpstream } from '../../context/open-configured.ts';
import { requireUpstream } from '../../settings/settings.ts';
import { openStateWriter } from './state-writer.ts';

/** The run that live reads belong to, and what they need. */
export interface LiveSession {
  readonly run: Run;
  readonly upstream: Upstream;
  readonly state: State;
  /** Writes to the state. Waits without blocking the process while another one writes. */
  write<T>(work: () => T): Promise<T>;
}

/** Name of the runs of live reads. */
const liveJob = 'live';

/** A live read is not worth long waits: its reader is served from the archive meanwhile. */
const requestMsMax = 10_000;
const retryAfterMsMax = 10_000;
/** One more attempt absorbs a single fault; a service that is down is left alone. */
const retryAttemptsMax = 2;

interface OpenSession extends LiveSession {
  readonly day: number;
  users: number;
  isRetired: boolean;
  end(): Promise<void>;
}

export type LiveRuns = ReturnType<typeof openLiveRuns>;

/** Opens the runs of live reads. */
export function openLiveRuns(context: Context, archive: Archive) {
  const { clock, settings } = context;
  const { privateFolder } = archive.layout;
  const writer = openStateWriter(context, archive);
  const { state, write } = writer;
  const { db } = state;
  // Apart from the collector's, and shared by all services of the archive.
  const rateFolder = join(privateFolder, 'live');
  mkdirSync(rateFolder, { recursive: true });
  const { sourceName } = settings;
  const rateStore = openSharedRateStore(archive.state, rateFolder, undefined, sourceName);
  let opening: Promise<OpenSession> | undefined;
  const ending = new Set<Promise<void>>();

  const open = (): Promise<OpenSession> => openSession(context, { ...archive, state }, write, rateStore);

  /** A night counts the ticks of the runs since the night before: a run must not span it. */
  const isOver = ({ day, run }: OpenSession): boolean =>
    day !== floorToDay(clock.nowMs()) ||
    db.one("select 1 from runs where run_id > ? and job = 'nightly' and source is ? limit 1", run.id, sourceName) !==
      undefined;

  function retire(session: OpenSession): void {
    session.isRetired = true;
    if (session.users > 0) return;
    const end = session.end().catch((error: unknown) => {
      context.log.warn({ err: error }, 'the run of live reads could not be ended');
    });
    ending.add(end);
    void end.finally(() => ending.delete(end));
  }

  async function acquire(): Promise<OpenSession> {
    for (;;) {
      opening ??= open();
      const attempt = opening;
      let session: OpenSession;
      try {
        session = await attempt;
      } catch (error) {
        if (opening === attempt) opening = undefined;
        throw error;
      }
      if (opening !== attempt) continue;
      if (!isOver(session)) {
        session.users++;
        return session;
      }
      opening = undefined;
      retire(session);
    }
  }

  return {
    /** Runs `work` in the current run; starts one on the first call, and a new one every UTC day and after each night. */
    async use<T>(work: (session: LiveSession) => Promise<T>): Promise<T> {
      const session = await acquire();
      try {
        return await work(session);
      } finally {
        session.users--;
        if (session.isRetired && session.users === 0) retire(session);
      }
    },
    /** Ends the current run. No work may be running. */
    async close() {
      const last = opening;
      opening = undefined;
      const session = await last?.catch(() => undefined);
      if (session !== undefined) retire(session);
      await Promise.all(ending);
      rateStore.close();
      writer.close();
    },
  };
}

/** Starts a run of live reads. @param archive with the state that the run writes */
async function openSession(
  context: Context,
  archive: Archive,
  write: LiveSession['write'],
  rateStore: ReturnType<typeof openSharedRateStore>,
): Promise<OpenSession> {
  const { clock, settings } = context;
  const startedAt = clock.nowMs();
  const run = await write(() => {
    keepSource(archive, settings);
    return createRun(context, liveJob, archive, startedAt, false, async () => upstream);
  });
  const raw = await openRawCapture(run);
  const upstream = await openConfiguredUpstream(
    context,
    rateStore,
    requireUpstream(settings),
    (response) => raw?.write(response),
    settings.service.live.rateShare,
    {
      requestDeadlineMs: Math.min(requestMsMax, settings.upstream.requestDeadlineSeconds * 1000),
      retryAttemptsMax,
      retryAfterMsMax,
    },
  );
  return {
    run,
    upstream,
    state: archive.state,
    write,
    day: floorToDay(startedAt),
    users: 0,
    isRetired: false,
    async end() {
      const counters = upstream.counters();
      await upstream.close();
      await closeRawCapture(run, raw);
      const summary = await write(() => summarizeLiveRun(context, run, startedAt, counters));
      context.log.info({ run_id: run.id, requests: summary.requests, ticks: summary.ticks }, 'live reads recorded');
    },
  };
}

/** Records the result of a run. The ticks in the journal count as accepted until they are published. */
function summarizeLiveRun(
  { clock, version }: Context,
  run: Run,
  startedAt: number,
  { requests, retries, throttledMs }: ReturnType<Upstream['counters']>,
) {
  const { state } = run.archive;
  const { fetched, accepted, duplicates, conflicts, quarantined, recovered } = readRunCounts(state.db, run.id);
  const { generation, watermark } = run.archive.readManifest();
  const summary = summarize({
    ...emptyFacts,
    version,
    job: liveJob,
    source: run.source,
    strict: false,
    thrown: undefined,
    started_at: startedAt,
    finished_at: clock.nowMs(),
    run_id: run.id,
    requests,
    retries,
    throttled_ms: throttledMs,
    pages: run.pages,
    recovered,
    generation,
    watermark,
    ticks: { fetched, accepted, duplicates, conflicts, quarantined },
    warnings: run.warnings,
    hasUpstreamResponded: run.hasUpstreamResponded,
  });
  finishRun(state.db, run.id, summary.finished_at, summary.exit_code, JSON.stringify(summary));
  return summary;
}
