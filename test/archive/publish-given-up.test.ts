import { globSync } from 'node:fs';
import { expect, test } from 'vitest';
import { type MergeWorkers, mergePartition } from '../../src/archive/publish/merge-partition.ts';
import { mergeSeriesPart } from '../../src/archive/publish/merge-series-part.ts';
import { appendQuotes, publishedQuotes, quote, quoteAnswer } from './quotes.ts';
import { answer, append, day0, hourMs, now, opened, publishedTicks, publishNow, scratchFolder } from './scratch.ts';

/** Merges all parts at once, and returns no result until released. */
function held(): { workers: MergeWorkers; begun: Promise<void>; letGo(): Promise<void> } {
  const begun = Promise.withResolvers<void>();
  const free = Promise.withResolvers<void>();
  const works: Promise<unknown>[] = [];
  function hold<T>(merge: () => T): Promise<T> {
    begun.resolve();
    const work = free.promise.then(merge);
    works.push(work);
    return work;
  }
  const workers: MergeWorkers = {
    concurrency: 4,
    merge: (task, { lookup }) => hold(() => mergePartition(task, lookup)),
    mergeSeries: (task) => hold(() => mergeSeriesPart(task)),
  };
  return {
    workers,
    begun: begun.promise,
    async letGo() {
      free.resolve();
      expect(works.length).toBeGreaterThan(0);
      await Promise.all(works);
      // Long enough for every waiting request to be scheduled.
      for (let turn = 0; turn < 100; turn++) await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test('an aborted publish writes nothing more, although threads still merge its parts', async () => {
  const root = scratchFolder();
  const archive = opened({ root, parts: 4 });
  append(archive, ...['A', 'B', 'C', 'D', 'E', 'F'].map((symbol) => answer(symbol, [[day0 + hourMs, 0.5]])));
  const { workers, begun, letGo } = held();
  // A second part is still being merged, and nothing waits for it.
  let first = true;
  const failing: MergeWorkers = {
    ...workers,
    async merge(task, precedence) {
      if (!first) return workers.merge(task, precedence);
      first = false;
      await begun;
      throw new Error('the thread has ended');
    },
  };
  const publishing = publishNow(archive, now, 'run', {
    candles: [],
    workers: async () => failing,
  });
  await expect(publishing).rejects.toThrow('the thread has ended');
  await letGo();
  expect(globSync('.oddslake/staging/**/*.parquet', { cwd: root })).toEqual([]);
  await publishNow(archive, now, 'run', { candles: [] });
  expect(publishedTicks(root)).toHaveLength(6);
  archive.close();
});

test('an aborted publish of series writes nothing more, although threads still merge its parts', async () => {
  const root = scratchFolder();
  const archive = opened({ root, parts: 4 });
  const symbols = ['A', 'B', 'C', 'D', 'E', 'F'];
  appendQuotes(archive, ...symbols.map((symbol) => quoteAnswer(symbol, [quote(day0 + hourMs, 0.5)])));
  const { workers, begun, letGo } = held();
  let first = true;
  const failing: MergeWorkers = {
    ...workers,
    async mergeSeries(task) {
      if (!first) return await workers.mergeSeries(task);
      first = false;
      await begun;
      throw new Error('the thread has ended');
    },
  };
  const publishing = publishNow(archive, now, 'run', { workers: async () => failing });
  await expect(publishing).rejects.toThrow('the thread has ended');
  await letGo();
  expect(globSync('.oddslake/staging/**/*.parquet', { cwd: root })).toEqual([]);
  await publishNow(archive);
  expect(publishedQuotes(root)).toHaveLength(symbols.length);
  archive.close();
});
