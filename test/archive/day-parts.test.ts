import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { toBookSide } from '../../src/archive/format/order-book.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { appendBooks } from '../../src/archive/journal/journal-books.ts';
import { countJournaledTicks } from '../../src/archive/journal/journal-rows.ts';
import { openPublishedTicks } from '../../src/archive/open-archive.ts';
import { repairNow } from './damaged.ts';
import { appendQuotes, quote, quoteAnswer } from './quotes.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  now,
  opened,
  publishedRows,
  publishedTicks,
  publishNow,
} from './scratch.ts';

// Days with fewer parts than others.

const parts = 4;
const symbols = Array.from({ length: 12 }, (_, n) => `S${n}`);
/** An archive whose days get one part, or the same one after the setting was changed. */
const small = (root?: string): Archive =>
  root === undefined ? opened({ parts: 1 }) : opened({ parts, root, create: false });

/** Ticks, quotes and order books of each symbol on a day. */
function fill(archive: Archive, day: number, ticks: number): void {
  for (const [n, symbol] of symbols.entries()) {
    const times = Array.from({ length: ticks }, (_, i) => day + i * 1000 + n);
    append(
      archive,
      answer(
        symbol,
        times.map((t) => [t, n / 100] as const),
        { windows: [{ from: day, to: day + dayMs }] },
      ),
    );
    appendQuotes(
      archive,
      quoteAnswer(symbol, [quote(day + n, 0.4, 0.6)], { windows: [{ from: day, to: day + 1000 }] }),
    );
    const [bids, asks] = [toBookSide([{ price: 0.4, quantity: 1 }], 'highest'), toBookSide([], 'lowest')];
    const response = { symbol, runId: 'run', observedAt: day + 500, rejected: [], understood: true };
    appendBooks(archive.state, [{ ...response, snapshots: [{ t: day + n, bids, asks }] }]);
  }
}

const namesOf = ({ layout }: Archive, folder: string): string[] =>
  globSync(`${folder}/*.parquet`, { cwd: layout.root })
    .map((path) => path.slice(-15))
    .sort();
const dayFolder = (name: string, day: number): string => toDayPath(name as 'ticks', day, 0).slice(0, -16);
const everySplit = ['ticks', 'quotes', 'orderbooks', 'candles_1h', 'candles_1d', 'coverage'];

/** What an archive has, whatever its files are. */
const contents = ({ layout: { root } }: Archive) => ({
  ticks: publishedTicks(root).sort(),
  others: (['quotes', 'orderbooks', 'candles_1h', 'coverage'] as const).map((name) =>
    publishedRows(root, name).map(String).sort(),
  ),
});

test('a small day has one file, and keeps it when it grows', async () => {
  const before = small();
  fill(before, day0, 1);
  await publishNow(before);
  for (const name of everySplit) expect(namesOf(before, dayFolder(name, day0)), name).toEqual(['part-00.parquet']);
  before.close();
  const archive = small(before.layout.root);
  fill(archive, day0, 1000);
  await publishNow(archive);
  for (const name of everySplit) expect(namesOf(archive, dayFolder(name, day0)), name).toEqual(['part-00.parquet']);
  expect(countJournaledTicks(archive.state.db)).toBe(0);
  expect(publishedTicks(archive.layout.root)).toHaveLength(12 * 1000);
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
});

test('the rows are those of an archive without small days', async () => {
  const [archive, whole] = [small(), opened({ parts })];
  for (const [day, ticks] of [
    [day0, 1],
    [day0 + dayMs, 40],
    [day0, 3],
  ] as const) {
    for (const one of [archive, whole]) {
      fill(one, day, ticks);
      await publishNow(one);
    }
  }
  expect(namesOf(archive, dayFolder('ticks', day0))).toHaveLength(1);
  expect(namesOf(whole, dayFolder('ticks', day0)).length).toBeGreaterThan(1);
  expect(contents(archive)).toEqual(contents(whole));
  const [read, readWhole] = [openPublishedTicks(archive), openPublishedTicks(whole)];
  for (const symbol of symbols)
    for (const day of [day0, day0 + dayMs]) expect(read(symbol, day)).toEqual(readWhole(symbol, day));
});

describe('a small day', () => {
  test('that is damaged keeps the input of all of its symbols, and is repaired', async () => {
    const archive = small();
    fill(archive, day0, 2);
    await publishNow(archive);
    const path = join(archive.layout.root, toDayPath('ticks', day0, 0));
    const bytes = readFileSync(path);
    writeFileSync(path, 'PAR1');
    append(archive, ...symbols.map((symbol) => answer(symbol, [[day0 + 50_000, 0.9]])));
    const { refused } = await publishNow(archive);
    expect(refused).toHaveLength(1);
    expect(countJournaledTicks(archive.state.db)).toBe(symbols.length);
    writeFileSync(path, bytes);
    await publishNow(archive);
    expect(countJournaledTicks(archive.state.db)).toBe(0);
    rmSync(path);
    const { lost } = await repairNow(archive);
    expect(lost.map(({ symbol }) => symbol)).toEqual([...symbols].sort());
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });

  test('without coverage is restored from the state', async () => {
    const archive = opened({ parts: 1, mends: true });
    fill(archive, day0, 2);
    await publishNow(archive);
    const before = hashes(archive.layout.root, 'coverage/**/*');
    // The time of a joined window is that of its earliest response.
    const windows = () =>
      publishedRows(archive.layout.root, 'coverage')
        .filter(([name]) => name === 'ticks')
        .map((row) => row.slice(0, 5));
    const rows = windows();
    rmSync(join(archive.layout.root, toDayPath('coverage', day0, 0)));
    await repairNow(archive);
    expect(Object.keys(hashes(archive.layout.root, 'coverage/**/*'))).toEqual(Object.keys(before));
    expect(windows()).toEqual(rows);
  });

  test('keeps its part when the state is lost', async () => {
    const archive = small();
    fill(archive, day0, 1);
    await publishNow(archive);
    archive.close();
    rmSync(join(archive.layout.root, '.oddslake'), { recursive: true });
    const again = small(archive.layout.root);
    fill(again, day0, 500);
    await publishNow(again, now + 1);
    expect(namesOf(again, dayFolder('ticks', day0))).toEqual(['part-00.parquet']);
    expect((await verifyArchive(again, null)).findings).toEqual([]);
  });
});
