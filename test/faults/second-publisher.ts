import { rmSync, writeFileSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import { createDisk, systemCalls } from '../../src/archive/disk/file-system.ts';
import { createLayout } from '../../src/archive/format/layout.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import { appendTicks, type TickRecord } from '../../src/archive/journal/journal.ts';
import { appendSeries, type SeriesRecord } from '../../src/archive/journal/journal-series.ts';
import { startRun } from '../../src/archive/journal/runs.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import { type PublishOptions, publish } from '../../src/archive/publish/publish.ts';
import { systemClock } from '../../src/base/system.ts';
import { faultDatabase } from './fault-database.ts';
import { faultCalls } from './fault-disk.ts';
import type { Faults } from './fault-points.ts';

// A publisher in a separate thread, so that another can be stopped at any of its calls while this one works.

/** The task of the second publisher. */
export interface SecondJob {
  readonly root: string;
  /** File for its outcome as JSON: see SecondOutcome. */
  readonly report: string;
  readonly nowMs: number;
  /** What it journals before it publishes, as ticks and as quotes: symbol, t, p. */
  readonly ticks: readonly (readonly [symbol: string, t: number, p: number])[];
  /** It pauses before this call, counted from 1, until it may resume; null: it does not. */
  readonly pauseAt: number | null;
}

export interface SecondOutcome {
  readonly calls: number;
  /** The generation that it left; null if it failed. */
  readonly generation: number | null;
  readonly error: string | null;
}

/** Indices of the shared numbers: its state (0 working, 1 done, 2 paused), and whether it may resume. */
export const stateIndex = 0;
export const mayGoOn = 1;

/** Injects no fault, only stops at calls: `before` receives their number, from 1. */
export function createStopper(before: (call: number) => void): Faults & { readonly calls: string[] } {
  const calls: string[] = [];
  return {
    calls,
    kinds: [],
    struck: false,
    isDead: false,
    point({ name, work }) {
      calls.push(name);
      before(calls.length);
      return work();
    },
  };
}

/** Short, because waiting for the transaction of a stopped publisher would never end. */
const busyMs = 20;

export function openWith(root: string, faults: Faults) {
  const open = faultDatabase(faults);
  return openArchive(
    { root, create: false, upstream: null, parts: 2, writer: 'oddslake test' },
    createDisk(faultCalls(faults, systemCalls)),
    (path) => open(path, busyMs),
  );
}

export const publishOptions = (runId: string, nowMs: number): PublishOptions => ({
  runId,
  waitMs: 0,
  namedSymbols: null,
  views: [],
  candles: ['1h'],
  clock: { ...systemClock, nowMs: () => nowMs },
  lifetimeRules: { lingerMs: 7 * 86_400_000, lookbackMs: 0 },
});

/** A response of one tick, journaled as by a poll. */
export const oneTick = (
  runId: string,
  nowMs: number,
  [symbol, t, p]: readonly [string, number, number],
): TickRecord => ({
  runId,
  symbol,
  requestedWindow: { from: t, to: t + 1 },
  observedAt: nowMs,
  origin: 'poll',
  rank: precedenceRanks.poll,
  rejected: [],
  ticks: { t: Float64Array.of(t), p: Float64Array.of(p) },
  covered: [{ from: t, to: t + 1, fetchedAt: nowMs, evidence: 'inferred' }],
});

/** A quote with the time and price of a tick, journaled as by an import. */
export const oneQuote = (
  runId: string,
  nowMs: number,
  [symbol, t, p]: readonly [string, number, number],
): SeriesRecord => ({
  runId,
  dataset: 'quotes',
  symbol,
  observedAt: nowMs,
  origin: 'import',
  rank: precedenceRanks.import,
  rejected: [],
  rows: {
    t: Float64Array.of(t),
    values: [p, Number.NaN, 1, Number.NaN].map((value) => Float64Array.of(value)),
    texts: [],
  },
  covered: [{ from: t, to: t + 1, fetchedAt: nowMs, evidence: 'declared' }],
});

async function work(job: SecondJob, shared: Int32Array): Promise<SecondOutcome> {
  const faults = createStopper((call) => {
    if (call !== job.pauseAt) return;
    Atomics.store(shared, stateIndex, 2);
    Atomics.notify(shared, stateIndex);
    Atomics.wait(shared, mayGoOn, 0);
  });
  // Removes the lock that another publisher holds.
  rmSync(createLayout(job.root).lockPath, { force: true });
  let archive: ReturnType<typeof openWith> | undefined;
  try {
    archive = openWith(job.root, faults);
    const { state } = archive;
    state.db.transaction(() => {
      startRun(state.db, 'second', 'publish', 1, job.nowMs);
      appendTicks(
        state,
        job.ticks.map((tick) => oneTick('second', job.nowMs, tick)),
      );
      appendSeries(
        state,
        job.ticks.map((tick) => oneQuote('second', job.nowMs, tick)),
      );
    });
    const { manifest } = await publish(archive, publishOptions('second', job.nowMs));
    return { calls: faults.calls.length, generation: manifest.generation, error: null };
  } catch (error) {
    return { calls: faults.calls.length, generation: null, error: String(error) };
  } finally {
    archive?.close();
  }
}

parentPort?.on('message', ({ job, shared }: { job: SecondJob; shared: Int32Array }) => {
  void work(job, shared).then((outcome) => {
    writeFileSync(job.report, JSON.stringify(outcome));
    Atomics.store(shared, stateIndex, 1);
    Atomics.notify(shared, stateIndex);
  });
});
