import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { TickRecord } from '../../src/archive/journal/journal.ts';
import { readRunCounts } from '../../src/archive/journal/runs.ts';
import { checkAsyncProperty } from '../harness/properties.ts';
import { share } from '../harness/share.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hourMs,
  now,
  opened,
  publishedRows,
  publishedTicks,
  publishNow,
  rowHashes,
  scratchFolder,
} from './scratch.ts';

/**
 * One answer of few ticks around two midnights, with prices that repeat and differ. It covers just their moments: where
 * a later answer covers a tick and lacks it, the stand-in for the tick's own moment is that answer's, and not exact.
 */
const anyAnswer = fc
  .record({
    symbol: fc.constantFrom('AAA', 'BBB', '🚀 x'),
    hours: fc.array(fc.integer({ min: -20, max: 20 }), { minLength: 1, maxLength: 12 }),
    prices: fc.array(fc.constantFrom(0, -0, 0.1, 0.1 + Number.EPSILON, 0.5, 1), { minLength: 12, maxLength: 12 }),
    seen: fc.integer({ min: 0, max: 3 }),
  })
  .map(({ symbol, hours, prices, seen }) => {
    const pairs = hours.map((hour, i) => [day0 + dayMs + hour * hourMs, prices[i]!] as const);
    return answer(symbol, pairs, { observedAt: now + seen, windows: pairs.map(([t]) => ({ from: t, to: t + 1 })) });
  });

describe('publishing any answers', () => {
  test('gives the same rows for any batching and order of the responses, and the same bytes in equal parts', async () => {
    const published = async (batches: readonly (readonly TickRecord[])[], parts: number): Promise<object> => {
      const root = scratchFolder();
      const archive = opened({ root, parts });
      for (const batch of batches) {
        append(archive, ...batch);
        await publishNow(archive, now, 'run', { candles: [] });
      }
      archive.close();
      if (parts === 1) return rowHashes(root, '{ticks,coverage}/**/*.parquet');
      return [publishedTicks(root).sort(), publishedRows(root, 'coverage').map(String).sort()];
    };
    const cases = fc.array(fc.tuple(anyAnswer, fc.integer({ min: 0, max: 3 }), fc.nat()), {
      minLength: 1,
      maxLength: 8,
    });
    await checkAsyncProperty([cases], share * 25, async (drawn) => {
      const parts = 1 + (drawn.length % 3);
      const atOnce = await published([drawn.map(([record]) => record)], parts);
      const shuffled = [...drawn].sort(([, , a], [, , b]) => a - b);
      const grouped = [...Map.groupBy(shuffled, ([, batch]) => batch).values()];
      const batches = grouped.map((group) => group.map(([record]) => record));
      expect(await published(batches, parts)).toEqual(atOnce);
    });
  });

  test('keeps every tick once: rows added are the accepted ones, and the counts of a run add up', async () => {
    await checkAsyncProperty(
      [fc.array(fc.array(anyAnswer, { minLength: 1, maxLength: 4 }), { maxLength: 4 })],
      share * 15,
      async (batches) => {
        const root = scratchFolder();
        const archive = opened({ root, parts: 2 });
        for (const [i, batch] of batches.entries()) {
          const runId = `run ${i}`;
          const before = publishedTicks(root).length;
          append(archive, ...batch.map((record) => ({ ...record, runId })));
          await publishNow(archive, now, runId, { candles: [] });
          const counts = readRunCounts(archive.state.db, runId);
          expect(publishedTicks(root).length - before).toBe(counts.accepted);
          expect(counts.fetched).toBe(counts.accepted + counts.duplicates + counts.conflicts + counts.quarantined);
          expect(counts.recovered).toBe(0);
        }
        archive.close();
        const keys = publishedTicks(root).map((line) => line.slice(0, line.lastIndexOf(' ')));
        expect(new Set(keys).size).toBe(keys.length);
        for (const row of publishedRows(root, 'symbols')) {
          const times = keys.filter((key) => key.startsWith(`${row[0]} `)).map((key) => Number(key.split(' ').at(-1)));
          expect(row.slice(12, 15)).toEqual([Math.min(...times), Math.max(...times), times.length]);
        }
      },
    );
  });
});
