import { cpSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { appendTicks } from '../../src/archive/journal/journal.ts';
import { appendSeries } from '../../src/archive/journal/journal-series.ts';
import { startRun } from '../../src/archive/journal/runs.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import { publish } from '../../src/archive/publish/publish.ts';
import { publishedQuotes } from '../archive/quotes.ts';
import { day0, dayMs, now, publishedTicks, upstreamName } from '../archive/scratch.ts';
import {
  createStopper,
  mayGoOn,
  oneQuote,
  oneTick,
  openWith,
  publishOptions,
  type SecondJob,
  type SecondOutcome,
  stateIndex,
} from './second-publisher.ts';

// Two publishers of one archive, after the lock of the first was removed: the second runs in between, at any call of
// the first.

type Tick = readonly [symbol: string, t: number, p: number];

const published: readonly Tick[] = [
  ['AAA', day0 + 1, 0.1],
  ['BBB', day0 + 1, 0.2],
];
const firstTicks: readonly Tick[] = [
  ['AAA', day0 + 2, 0.3],
  ['BBB', day0 + 2, 0.4],
  ['CCC', day0 + 2, 0.45],
  ['BBB', day0 + dayMs, 0.4],
];
const secondTicks: readonly Tick[] = [
  ['AAA', day0 + 3, 0.5],
  ['BBB', day0 + 4, 0.6],
  ['CCC', day0 + dayMs + 1, 0.7],
];
const all = [...published, ...firstTicks, ...secondTicks].map((tick) => tick.join(' ')).sort();

interface TwoPublishers {
  /** Calls of the first alone. */
  readonly calls: number;
  /** Calls of the second alone, from opening the archive on. */
  readonly secondCalls: number;
  /**
   * Stops the first before one of its calls and lets the second publish. With `pauseAt` the second stops before that
   * call of its own, and finishes after the first. Resolves to the errors.
   */
  interleave(at: number, pauseAt?: number): Promise<string[]>;
  close(): Promise<void>;
}

export async function twoPublishers(folder: string): Promise<TwoPublishers> {
  const base = join(folder, 'base');
  await makeBase(base);
  const worker = new Worker(new URL('./second-publisher.ts', import.meta.url));
  const begin = (job: SecondJob, shared: Int32Array): void => {
    worker.postMessage({ job, shared });
    Atomics.wait(shared, stateIndex, 0);
  };
  const place = join(folder, 'place');
  const report = join(folder, 'report.json');
  const fresh = (): void => {
    rmSync(place, { recursive: true, force: true });
    cpSync(base, place, { recursive: true });
  };
  const jobOf = (pauseAt: number | null): SecondJob => ({
    root: place,
    report,
    nowMs: now + 1,
    ticks: secondTicks,
    pauseAt,
  });
  const newShared = (): Int32Array => new Int32Array(new SharedArrayBuffer(8));
  const outcome = (): SecondOutcome => JSON.parse(readFileSync(report, 'utf8')) as SecondOutcome;

  async function first(before: (call: number) => void): Promise<number> {
    const faults = createStopper(before);
    const archive = openWith(place, faults);
    try {
      await publish(archive, publishOptions('first', now));
    } finally {
      archive.close();
    }
    return faults.calls.length;
  }

  fresh();
  const calls = await first(() => {});
  fresh();
  begin(jobOf(null), newShared());
  const { calls: secondCalls } = outcome();

  return {
    calls,
    secondCalls,
    async interleave(at, pauseAt) {
      fresh();
      const wrong: string[] = [];
      const seen: number[] = [generationAt(place)];
      const shared = newShared();
      let begun = false;
      await first((call) => {
        seen.push(generationAt(place));
        if (call !== at || begun) return;
        begun = true;
        begin(jobOf(pauseAt ?? null), shared);
        seen.push(generationAt(place));
      }).catch((error: unknown) => {
        // It may end early with an error.
        if ((error as { exitCode?: number }).exitCode !== 5) wrong.push(`the first: ${(error as Error).stack}`);
      });
      seen.push(generationAt(place));
      if (Atomics.load(shared, stateIndex) === 2) {
        Atomics.store(shared, stateIndex, 0);
        Atomics.store(shared, mayGoOn, 1);
        Atomics.notify(shared, mayGoOn);
        Atomics.wait(shared, stateIndex, 0);
      }
      seen.push(generationAt(place));
      if (begun) {
        const { error } = outcome();
        if (error !== null && !/Another (process|run)/.test(error)) wrong.push(`the second: ${error}`);
      }
      if (seen.some((generation, i) => i > 0 && generation < seen[i - 1]!))
        wrong.push(`generations went ${seen.join(' ')}`);
      const after = await findErrorsAfter(place).catch((error: unknown) => [`afterwards: ${String(error)}`]);
      return [...wrong, ...after];
    },
    close: async () => void (await worker.terminate()),
  };
}

async function makeBase(root: string): Promise<void> {
  mkdirSync(root, { recursive: true });
  const options = {
    root,
    create: true,
    upstream: upstreamName,
    parts: 2,
    writer: 'oddslake test',
  };
  const archive = openArchive(options, systemDisk);
  startRun(archive.state.db, 'first', 'publish', 1, now);
  appendTicks(
    archive.state,
    published.map((tick) => oneTick('first', now, tick)),
  );
  appendSeries(
    archive.state,
    published.map((tick) => oneQuote('first', now, tick)),
  );
  await publish(archive, publishOptions('first', now));
  appendTicks(
    archive.state,
    firstTicks.map((tick) => oneTick('first', now, tick)),
  );
  appendSeries(
    archive.state,
    firstTicks.map((tick) => oneQuote('first', now, tick)),
  );
  archive.close();
}

function generationAt(root: string): number {
  const path = join(root, 'manifest.json');
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as { generation: number }).generation : 0;
}

/** Errors of the archive after an undisturbed publisher. */
async function findErrorsAfter(root: string): Promise<string[]> {
  const archive = openArchive({ root, create: false, upstream: null, parts: 2, writer: 'oddslake test' }, systemDisk);
  try {
    const { db } = archive.state;
    await publish(archive, publishOptions('third', now + 2));
    const verified = await verifyArchive(archive, null);
    const ticks = publishedTicks(root).sort();
    const expected = all.filter((tick) => ticks.includes(tick) || wasAppended(archive, tick));
    const quotes = publishedQuotes(root)
      .map((row) => row.slice(0, 3).join(' '))
      .sort();
    // Both were journaled in one transaction.
    const quotesDiffer = JSON.stringify(quotes) !== JSON.stringify(ticks);
    const waiting = db.one<{ n: number }>('select count(*) as n from journal')!.n;
    return [
      ...verified.findings.map(({ path, kind }) => `${path}: ${kind}`),
      ...(verified.state === null ? [] : [verified.state]),
      ...(JSON.stringify(ticks) === JSON.stringify(expected) ? [] : [`published: ${ticks.join(', ')}`]),
      ...(quotesDiffer ? [`published quotes: ${quotes.join(', ')}`] : []),
      ...(waiting === 0 ? [] : [`${waiting} records are still journaled`]),
    ];
  } finally {
    archive.close();
  }
}

/** The second may have been refused before it journaled anything: its ticks are nowhere then. */
function wasAppended(archive: ReturnType<typeof openArchive>, tick: string): boolean {
  const isOfSecond = secondTicks.some((one) => one.join(' ') === tick);
  return !isOfSecond || archive.state.db.one("select 1 from runs where run_id = 'second'") !== undefined;
}
