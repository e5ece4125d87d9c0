import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { generatedPages, ticksPerPage } from '../../bench/generated-pages.ts';
import { nightlyPages, writePages } from '../../bench/pages.ts';
import { dayMs } from '../../src/base/window.ts';
import { decodeTickPage } from '../../src/client/decode.ts';
import { scratchRoot } from '../harness/scratch-root.ts';

const made = (pages: number, seed: number) => [...generatedPages({ pages, seed })];

test('generated pages have the requested number and length and depend only on the seed', () => {
  const pages = made(12, 7);
  expect(pages.map(({ count }) => count)).toEqual(Array(12).fill(ticksPerPage));
  expect(made(12, 7)).toEqual(pages);
  expect(made(12, 8)).not.toEqual(pages);
});

test('a page ascends strictly, has prices inside (0, 1), and is generated after its window', () => {
  for (const { t, p, from, to, generatedAt } of made(12, 7)) {
    expect(t.every((at, i) => i === 0 || at > t[i - 1]!)).toBe(true);
    expect(p.every((price) => price > 0 && price < 1)).toBe(true);
    expect([from, to]).toEqual([t[0], t.at(-1)! + 1]);
    expect(generatedAt).toBeGreaterThanOrEqual(to!);
  }
});

test('pages of a symbol overlap, with repeated keys, corrected prices and late ticks', () => {
  const bySymbol = Map.groupBy(made(40, 7), ({ symbol }) => symbol);
  let [repeated, corrected] = [0, 0];
  for (const pages of bySymbol.values()) {
    const seen = new Map<number, number>();
    for (const { t, p } of pages) {
      t.forEach((at, i) => {
        if (seen.has(at)) repeated++;
        if (seen.has(at) && seen.get(at) !== p[i]) corrected++;
        seen.set(at, p[i]!);
      });
    }
    const times = pages.map(({ generatedAt }) => generatedAt!);
    expect(times).toEqual([...new Set(times)].sort((a, b) => a - b));
  }
  const overlaps = 40 - bySymbol.size;
  expect(repeated).toBe(overlaps * 250);
  expect(corrected).toBeGreaterThan(overlaps);
});

test('the decoder reads back a written page', async () => {
  const folder = mkdtempSync(join(scratchRoot, 'oddslake-pages-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const written = await writePages(folder, generatedPages({ pages: 2, seed: 1 }));
  const names = readdirSync(folder).sort();
  expect(names).toEqual(['page-000000.json', 'page-000001.json']);
  const files = names.map((name) => readFileSync(join(folder, name)));
  expect(written).toEqual({ pages: 2, ticks: 2 * ticksPerPage, bytes: files[0]!.length + files[1]!.length });
  const [first] = made(2, 1);
  expect(decodeTickPage(files[0]!)).toMatchObject({ symbol: first!.symbol, t: first!.t, p: first!.p });
});

test('a recording becomes daily pages with one hour of overlap, none for a symbol without ticks', () => {
  const day = Date.UTC(2026, 6, 12);
  const hour = 3_600_000;
  const recording = {
    symbols: ['early', 'silent', 'through'],
    offsets: [0, 1, 1, 4],
    t: Float64Array.of(day - 5 * hour, day - 2 * hour, day - hour, day + hour),
    p: Float64Array.of(0.1, 0.2, 0.3, 0.4),
    markets: [],
  };
  const pages = [...nightlyPages(recording)];
  expect(pages.map(({ symbol, p }) => [symbol, ...p])).toEqual([
    ['early', 0.1],
    ['through', 0.2, 0.3],
    ['through', 0.3, 0.4],
  ]);
  expect(pages.map(({ from, to }) => [from! - day, to! - day])).toEqual([
    [-dayMs - hour, 0],
    [-dayMs - hour, 0],
    [-hour, dayMs],
  ]);
});

test('pages of a recording have the same length and adjoining windows', () => {
  const ticks = ticksPerPage + 1;
  const t = Float64Array.from({ length: ticks }, (_, i) => 2 * dayMs + i * 1000);
  const recording = { symbols: ['a'], offsets: [0, ticks], t, p: t.map(() => 0.5), markets: [] };
  const [full, rest, ...others] = [...nightlyPages(recording)];
  expect([full!.count, rest!.count, others.length]).toEqual([ticksPerPage, 1, 0]);
  expect([full!.to, rest!.from]).toEqual([t.at(-1), t.at(-1)]);
});
