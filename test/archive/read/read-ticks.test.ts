import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Archive } from '../../../src/archive/archive.ts';
import { readSymbolCoverage } from '../../../src/archive/journal/coverage-store.ts';
import { watchManifest } from '../../../src/archive/read/manifest-watcher.ts';
import {
  daysMax,
  gapsMax,
  openTickReader,
  type ReadTicks,
  type TickRangeResult,
} from '../../../src/archive/read/read-ticks.ts';
import { openVerifiedFiles } from '../../../src/archive/read/verified-files.ts';
import { DamageError } from '../../../src/base/errors.ts';
import { subtract } from '../../../src/base/window.ts';
import { checkAsyncProperty } from '../../harness/properties.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hourMs,
  now,
  opened,
  publishedTicks,
  publishNow,
  scratchFolder,
} from '../scratch.ts';
import { anyAnswer } from './tick-answers.ts';

const reading = (archive: Archive, bytesMax = 1 << 20): ReadTicks =>
  openTickReader(archive, watchManifest(archive), openVerifiedFiles(archive, bytesMax), bytesMax);

const pairsOf = (result: TickRangeResult | null): [number, number][] =>
  result!.slices.flatMap(({ t, p, from, to }) =>
    Array.from({ length: to - from }, (_, i): [number, number] => [t[from + i]!, p[from + i]!]),
  );

const lines = (symbol: string, result: TickRangeResult | null): string[] =>
  result === null ? [] : pairsOf(result).map(([t, p]) => `${symbol} ${t} ${p}`);

const symbols = ['AAA', 'BBB', '🚀 x'];
const all = { from: 0, to: now, limit: 1000 };

test('merges published and journaled ticks as a publish would', async () => {
  const batches = fc.array(fc.array(anyAnswer, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 4 });
  await checkAsyncProperty([batches, fc.constantFrom(0, 1 << 20)], 10, async (drawn, bytesMax) => {
    const root = scratchFolder();
    const [writer, reader] = [opened({ root, parts: 2 }), opened({ root })];
    const read = reading(reader, bytesMax);
    for (const batch of drawn) {
      append(writer, ...batch);
      const before = await Promise.all(symbols.map((symbol) => read({ ...all, symbol })));
      const latest = await Promise.all(symbols.map((symbol) => read({ ...all, symbol, from: null })));
      await publishNow(writer);
      const after = await Promise.all(symbols.map((symbol) => read({ ...all, symbol })));
      const expected = publishedTicks(root).sort();
      for (const result of [before, latest, after])
        expect(symbols.flatMap((symbol, i) => lines(symbol, result[i]!)).sort()).toEqual(expected);
      for (const [i, symbol] of symbols.entries()) {
        if (after[i] === null) continue;
        expect(before[i]!.gaps).toEqual(subtract([{ from: 0, to: now }], readSymbolCoverage(writer.state.db, symbol)));
        expect(after[i]!.gaps).toEqual(before[i]!.gaps);
      }
    }
    writer.close();
    reader.close();
  });
});

test('pages in either direction add up to all ticks, for any limit', async () => {
  const drawn = fc.record({
    published: fc.array(anyAnswer, { maxLength: 4 }),
    journaled: fc.array(anyAnswer, { minLength: 1, maxLength: 4 }),
    limit: fc.integer({ min: 1, max: 7 }),
  });
  await checkAsyncProperty([drawn], 15, async ({ published, journaled, limit }) => {
    const archive = opened({ parts: 1 });
    append(archive, ...published);
    await publishNow(archive);
    append(archive, ...journaled);
    const read = reading(archive);
    const { symbol } = journaled[0]!;
    const whole = await read({ ...all, symbol });
    const forth: [number, number][] = [];
    for (let from = 0; from < now; ) {
      const result = (await read({ symbol, from, to: now, limit }))!;
      expect(result.from).toBe(from);
      expect(result.count).toBeLessThanOrEqual(limit);
      forth.push(...pairsOf(result));
      expect(result.to).toBe(result.to < now ? forth.at(-1)![0] + 1 : now);
      from = result.to;
    }
    expect(forth).toEqual(pairsOf(whole));
    const back: [number, number][] = [];
    for (let to = now, before = Number.POSITIVE_INFINITY; to < before; ) {
      const result = (await read({ symbol, from: null, to, limit }))!;
      expect(result.to).toBe(to);
      back.unshift(...pairsOf(result));
      before = to;
      to = result.from;
    }
    expect(back).toEqual(pairsOf(whole));
    archive.close();
  });
});

test('without from and truncation, the window starts at the first known moment', async () => {
  const archive = opened();
  append(archive, answer('A', [[day0 + 5000, 1]], { windows: [{ from: day0 + 4000, to: day0 + 6000 }] }));
  const read = reading(archive);
  const from = async (symbol: string, to = now, limit = 5) => (await read({ symbol, from: null, to, limit }))!.from;
  expect(await from('A')).toBe(day0 + 4000);
  await publishNow(archive);
  append(archive, answer('A', [[day0 + 3000, 1]], { windows: [] }));
  expect(await from('A')).toBe(day0 + 3000);
  await publishNow(archive);
  expect(await from('A')).toBe(day0 + 3000);
  expect(await from('A', now, 1)).toBe(day0 + 5000);
  expect(await from('A', day0 + 3500)).toBe(day0 + 3000);
  expect(await from('A', day0)).toBe(day0);
});

test('an unknown symbol gives null; a symbol known from market lists only has no ticks', async () => {
  const archive = opened();
  append(archive, answer('A', [], { windows: [{ from: day0, to: day0 + 1 }] }));
  const read = reading(archive);
  expect(await read({ ...all, symbol: 'B' })).toBeNull();
  expect(await read({ symbol: 'A', from: day0, to: day0 + 3, limit: 1 })).toEqual({
    from: day0,
    to: day0 + 3,
    slices: [],
    count: 0,
    gaps: [{ from: day0 + 1, to: day0 + 3 }],
  });
});

test(`of more than ${gapsMax} gaps the last one spans all the rest`, async () => {
  const archive = opened();
  const windows = Array.from({ length: gapsMax + 5 }, (_, i) => ({ from: day0 + 2 * i, to: day0 + 2 * i + 1 }));
  append(archive, answer('A', [], { windows }));
  const { gaps } = (await reading(archive)({ symbol: 'A', from: day0, to: day0 + 2 * windows.length, limit: 1 }))!;
  expect(gaps).toHaveLength(gapsMax);
  expect(gaps[0]).toEqual({ from: day0 + 1, to: day0 + 2 });
  expect(gaps.at(-1)).toEqual({ from: day0 + 2 * gapsMax - 1, to: day0 + 2 * windows.length });
});

test(`an answer looks at no more than ${daysMax} days, and its window says where it stopped`, async () => {
  const archive = opened({ parts: 1 });
  const first = day0 - 400 * dayMs;
  const pairs = Array.from({ length: 400 }, (_, i) => [first + i * dayMs + hourMs, i] as const);
  append(archive, answer('A', pairs));
  const read = reading(archive);
  const forth = (await read({ symbol: 'A', from: first, to: now, limit: 1000 }))!;
  expect([forth.count, forth.from, forth.to]).toEqual([daysMax, first, first + daysMax * dayMs]);
  const back = (await read({ symbol: 'A', from: null, to: now, limit: 1000 }))!;
  expect([back.count, back.from, back.to]).toEqual([daysMax, day0 - daysMax * dayMs, now]);
  const rest = (await read({ symbol: 'A', from: forth.to, to: now, limit: 1000 }))!;
  expect([rest.count, rest.to]).toEqual([400 - daysMax, now]);
});

test('rejects a damaged part file only if it is needed', async () => {
  const root = scratchFolder();
  const archive = opened({ root, parts: 1 });
  append(archive, answer('A', [[day0, 1]]), answer('A', [[day0 + dayMs, 2]]));
  const { manifest } = await publishNow(archive);
  writeFileSync(join(root, manifest.datasets.ticks.files[0]!.path), 'damage');
  const read = reading(archive);
  await expect(read({ ...all, symbol: 'A' })).rejects.toThrow(DamageError);
  expect(pairsOf(await read({ ...all, symbol: 'A', from: day0 + dayMs }))).toEqual([[day0 + dayMs, 2]]);
});

test('reports a manifest that is not the last published one as damage', async () => {
  const root = scratchFolder();
  const archive = opened({ root, parts: 1 });
  append(archive, answer('A', [[day0, 1]]));
  await publishNow(archive);
  const older = archive.readManifestText();
  append(archive, answer('A', [[day0 + 1, 1]]));
  await publishNow(archive);
  writeFileSync(join(root, 'manifest.json'), older);
  await expect(reading(opened({ root }))({ ...all, symbol: 'A' })).rejects.toThrow(DamageError);
});

test('starts again if manifest and state differ in their generation', async () => {
  const archive = opened({ parts: 1 });
  append(archive, answer('A', [[day0, 1]]));
  const { manifest: older } = await publishNow(archive);
  append(archive, answer('A', [[day0 + 1, 2]]));
  await publishNow(archive);
  const current = watchManifest(archive);
  let looks = 0;
  const late = { ...current, getManifest: () => (looks++ < 3 ? older : current.getManifest()) };
  const result = await openTickReader(archive, late, openVerifiedFiles(archive, 0), 0)({ ...all, symbol: 'A' });
  expect(lines('A', result)).toEqual([`A ${day0} 1`, `A ${day0 + 1} 2`]);
  expect(looks).toBe(4);
});
