import { globSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import type { TickRecord } from '../../src/archive/journal/journal.ts';
import { checkAsyncProperty } from '../harness/properties.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  hourMs,
  now,
  opened,
  type Pairs,
  publishedRows,
  publishNow,
  rowHashes,
  scratchFolder,
} from './scratch.ts';

const candles = (root: string) => rowHashes(root, 'candles_1{h,d}/**/*.parquet');
const paths = (files: readonly { readonly path: string }[], folder: RegExp) =>
  files.map((file) => file.path).filter((path) => folder.test(path));
const changedCandles = async (archive: Archive): Promise<string[]> =>
  paths((await publishNow(archive)).files, /^candles/).sort();

const ofDays = (symbol: string, days: number): TickRecord =>
  answer(
    symbol,
    Array.from({ length: days * 4 }, (_, i) => [day0 + i * 6 * hourMs, (i % 7) / 10] as const),
    { windows: [{ from: day0, to: day0 + days * dayMs }] },
  );

/** The columns from quotes and trades, of which there are none. */
const noSeries = [null, null, null, null, null];

/** Two symbols of different parts, of four. */
const [one, other] = ['AAA', 'DDD'];

describe('the candles of a publish', () => {
  test('tell each interval with ticks, and how much of it is covered', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    const pairs: Pairs = [
      [day0 + 5, 0.5],
      [day0 + 6, 0.75],
      [day0 + hourMs - 1, 0.25],
      [day0 + 5 * hourMs, 1],
    ];
    append(archive, answer(one, pairs, { windows: [{ from: day0, to: day0 + 5.25 * hourMs }] }));
    const { manifest } = await publishNow(archive);
    expect(publishedRows(root, 'candles_1h')).toEqual([
      [one, day0, 0.5, 0.75, 0.25, 0.25, 3, 1, ...noSeries],
      [one, day0 + 5 * hourMs, 1, 1, 1, 1, 1, 0.25, ...noSeries],
    ]);
    expect(publishedRows(root, 'candles_1d')).toEqual([[one, day0, 0.5, 1, 0.25, 1, 4, 5.25 / 24, ...noSeries]]);
    expect(manifest.datasets.candles_1h.files).toEqual([
      expect.objectContaining({ date: '2026-06-01', rows: 2, symbols: 1, t_min: day0, t_max: day0 + 5 * hourMs }),
    ]);
    expect(manifest.datasets.candles_1h.files[0]!.path.replace('candles_1h', 'ticks')).toBe(
      manifest.datasets.ticks.files[0]!.path,
    );
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });

  test('are the same bytes however the answers came in batches', async () => {
    const anyAnswer = fc
      .record({
        symbol: fc.constantFrom('AAA', 'BBB', '🚀 x'),
        ticks: fc.uniqueArray(fc.integer({ min: 0, max: 60 }), { maxLength: 12 }),
        from: fc.integer({ min: 0, max: 30 }),
        hours: fc.integer({ min: 1, max: 30 }),
        seen: fc.nat({ max: 1000 }),
      })
      .map(({ symbol, ticks, from, hours, seen }) => {
        const w = { from: day0 + from * hourMs, to: day0 + (from + hours) * hourMs };
        // One price a moment: which of two wins is another test's.
        const inside = ticks.map((hour) => [day0 + hour * hourMs + 7, ((hour * 7) % 11) / 10] as const);
        const pairs = inside.filter(([t]) => w.from <= t && t < w.to);
        return answer(symbol, pairs, { requestedWindow: w, windows: [w], observedAt: now + seen });
      });
    const published = async (batches: readonly (readonly TickRecord[])[]) => {
      const root = scratchFolder();
      const archive = opened({ root, parts: 1 });
      for (const batch of batches) {
        append(archive, ...batch);
        await publishNow(archive);
      }
      return candles(root);
    };
    await checkAsyncProperty(
      [fc.array(anyAnswer, { minLength: 1, maxLength: 6 }), fc.nat()],
      12,
      async (records, cut) => {
        const at = cut % records.length;
        const atOnce = await published([records]);
        expect(await published(records.toReversed().map((record) => [record]))).toEqual(atOnce);
        expect(await published([records.slice(at), records.slice(0, at)])).toEqual(atOnce);
      },
    );
  });

  test('are written again for the part of the day that changed, and no other', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, ofDays(one, 3), ofDays(other, 3));
    expect(await changedCandles(archive)).toHaveLength(12);
    const before = candles(root);
    append(archive, answer(one, [[day0 + dayMs + 9 * hourMs, 0.9]]));
    const changed = await changedCandles(archive);
    expect(changed.map((path) => path.replace(/part-\d+/, 'part'))).toEqual([
      'candles_1d/date=2026-06-02/part.parquet',
      'candles_1h/date=2026-06-02/part.parquet',
    ]);
    const after = candles(root);
    expect(Object.keys(after).filter((path) => after[path] !== before[path])).toEqual(changed);
  });

  test('are written again where coverage alone grew, as far as that changes a share', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, answer(one, [[day0 + 5, 0.5]], { windows: [{ from: day0, to: day0 + hourMs }] }));
    await publishNow(archive);
    append(archive, answer(one, [], { windows: [{ from: day0 + 2 * hourMs, to: day0 + 3 * hourMs }] }));
    // The hour of the tick was covered before: only the day's share is another.
    expect((await changedCandles(archive)).map((path) => path.split('/')[0])).toEqual(['candles_1d']);
    expect(publishedRows(root, 'candles_1d')[0]![7]).toBe(2 / 24);
    append(archive, answer(one, [], { windows: [{ from: day0, to: day0 + hourMs }], observedAt: now + 5 }));
    expect(await changedCandles(archive)).toEqual([]);
  });

  test('are not made of intervals that nobody asks for, but kept up where they are', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, ofDays(one, 1));
    await publishNow(archive, now, 'run', { candles: ['1h'] });
    expect(publishedRows(root, 'candles_1d')).toEqual([]);
    append(archive, answer(one, [[day0 + 1, 0.9]]));
    await publishNow(archive, now, 'run', { candles: [] });
    expect(publishedRows(root, 'candles_1h')[0]!.slice(0, 8)).toEqual([one, day0, 0, 0.9, 0, 0.9, 2, 1]);
    expect(publishedRows(root, 'candles_1d')).toEqual([]);
  });
});

describe('candles that published ticks lack', () => {
  test('are made by the next publish, though nothing is journaled, and then no more', async () => {
    const [late, early] = [scratchFolder(), scratchFolder()];
    const archive = opened({ root: late });
    append(archive, ofDays(one, 3), ofDays(other, 2));
    await publishNow(archive, now, 'run', { candles: [] });
    for (const name of ['candles_1h', 'candles_1d'] as const) expect(publishedRows(late, name)).toEqual([]);
    const ticks = hashes(late, '{ticks,coverage}/**/*');
    const made: [number, number][] = [];
    const { manifest, files } = await publishNow(archive, now, 'run', { onProgress: (...at) => made.push(at) });
    expect(manifest.generation).toBe(2);
    expect(paths(files, /^candles/)).toHaveLength(10);
    expect(made.at(-1)).toEqual([5, 5]);
    expect(hashes(late, '{ticks,coverage}/**/*')).toEqual(ticks);
    expect((await publishNow(archive)).manifest.generation).toBe(2);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);

    const usual = opened({ root: early });
    append(usual, ofDays(one, 3), ofDays(other, 2));
    await publishNow(usual);
    expect(candles(late)).toEqual(candles(early));
  });

  test('are left out where the ticks are damaged, which is reported, and made of all others', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, ofDays(one, 2), ofDays(other, 2));
    await publishNow(archive, now, 'run', { candles: [] });
    const spoilt = globSync('ticks/date=2026-06-01/*', { cwd: root })[0]!;
    writeFileSync(join(root, spoilt), 'x');
    const { refused, files } = await publishNow(archive);
    expect(refused).toEqual([expect.stringContaining(`${spoilt} is damaged`)]);
    expect(paths(files, /^candles_1h/)).toHaveLength(3);
  });

  test('wait for the next publish where this one is stopped', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, ofDays(one, 2));
    await publishNow(archive, now, 'run', { candles: [] });
    const stop = new AbortController();
    const stopping = publishNow(archive, now, 'run', { signal: stop.signal, onProgress: () => stop.abort() });
    await expect(stopping).rejects.toThrow();
    expect(publishedRows(root, 'candles_1h')).toEqual([]);
    await publishNow(archive);
    expect(Object.keys(candles(root))).toHaveLength(4);
  });
});
