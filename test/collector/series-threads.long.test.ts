import { expect, test } from 'vitest';
import type { SeriesRecord } from '../../src/archive/journal/journal-series.ts';
import { inlineWorker, type MergeWorkers } from '../../src/archive/publish/merge-partition.ts';
import { openMergeThreads } from '../../src/collector/steps/merge-workers.ts';
import { appendQuotes, quote, quoteAnswer } from '../archive/quotes.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  hourMs,
  now,
  opened,
  publishNow,
  scratchFolder,
} from '../archive/scratch.ts';
import { trade, tradeAnswer } from '../archive/trades.ts';

const symbols = Array.from({ length: 24 }, (_, i) => `S${i % 5}-é${i}`);

/** One batch of observations: its quotes conflict with those of other batches, and its trades overlap with theirs. */
function createBatch(batch: number): SeriesRecord[] {
  return symbols.flatMap((symbol, i) => {
    const from = day0 + (i % 3) * dayMs + (i % 7) * hourMs;
    const rest = { observedAt: now + batch, windows: [{ from, to: from + (2 + batch) * hourMs }] };
    const quotes = Array.from({ length: 40 }, (_, k) => quote(from + k * 60_000 * (batch + 1), 0.1 * (batch + 1), 0.9));
    const trades = Array.from({ length: 40 }, (_, k) =>
      trade(from + k * 60_000, `t${k + 10 * batch}`, 0.25 + k / 100, k, { aggressor: k % 2 ? 'buy' : null }),
    );
    // Some symbols have quotes alone.
    return [quoteAnswer(symbol, quotes, rest), ...(i % 4 === 0 ? [] : [tradeAnswer(symbol, trades, rest)])];
  });
}

/** Publishes three batches, of which the later ones change published files. */
async function publishBatches(workers: MergeWorkers): Promise<Record<string, string>> {
  const root = scratchFolder();
  const archive = opened({ root, parts: 4 });
  for (let batch = 0; batch < 3; batch++) {
    append(
      archive,
      ...symbols.slice(batch).map((symbol, i) => answer(symbol, [[day0 + (i % 3) * dayMs + batch * hourMs, 0.5]])),
    );
    appendQuotes(archive, ...createBatch(batch));
    await publishNow(archive, now + batch, 'run', { workers: async () => workers });
  }
  archive.close();
  return hashes(root, '**/*.parquet');
}

test('threads merge series into the same files as the calling thread', async () => {
  const inline = await publishBatches(inlineWorker);
  expect(Object.keys(inline).filter((path) => path.startsWith('trades/')).length).toBeGreaterThan(8);
  expect(Object.keys(inline).some((path) => path.startsWith('quote_conflicts/'))).toBe(true);
  const threads = await openMergeThreads(2);
  try {
    expect(await publishBatches(threads.parts)).toEqual(inline);
    // Every part on the other thread.
    const pooled: MergeWorkers = {
      ...threads.parts,
      concurrency: 1,
      async mergeSeries(task) {
        while (!threads.hasRoom()) await new Promise((resolve) => setImmediate(resolve));
        return await threads.parts.mergeSeries(task);
      },
    };
    expect(await publishBatches(pooled)).toEqual(inline);
  } finally {
    await threads.close();
  }
});

test('a part that a thread cannot decode is refused, and the other parts are published', async () => {
  const archive = opened({ root: scratchFolder(), parts: 4 });
  append(archive, ...symbols.map((symbol) => answer(symbol, [[day0, 0.5]])));
  await publishNow(archive);
  append(archive, ...symbols.map((symbol) => answer(symbol, [[day0 + 1000, 0.6]])));
  const threads = await openMergeThreads(2);
  try {
    const workers: MergeWorkers = {
      ...threads.parts,
      async merge(task, precedence) {
        while (!threads.hasRoom()) await new Promise((resolve) => setImmediate(resolve));
        const old = task.part === 2 ? new Uint8Array(100) : task.old;
        return await threads.parts.merge({ ...task, old }, precedence);
      },
    };
    const { refused, manifest } = await publishNow(archive, now, 'run', { workers: async () => workers });
    expect(refused).toEqual([expect.stringMatching(/ticks\/.*\/part-02.parquet cannot be decoded/)]);
    const written = manifest.datasets.ticks.files.filter(({ generation }) => generation === 2);
    expect(written.map(({ path }) => path.at(-9))).toEqual(['0', '1', '3']);
    // Its input stays journaled.
    expect((await publishNow(archive)).refused).toEqual([]);
    expect(archive.readManifest().datasets.ticks.files.every(({ generation }) => generation > 1)).toBe(true);
  } finally {
    await threads.close();
    archive.close();
  }
});
