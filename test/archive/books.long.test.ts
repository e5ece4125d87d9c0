import { globSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import {
  emptyBooks,
  mergeBooks,
  type ObservedSnapshot,
  type PriceLevel,
  toBookSide,
} from '../../src/archive/format/order-book.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import {
  appendBooks,
  type BookRecord,
  readBookLoad,
  readJournalLoad,
} from '../../src/archive/journal/journal-books.ts';
import { readRunCounts } from '../../src/archive/journal/runs.ts';
import { decodeBooks, encodeBooks } from '../../src/archive/parquet/books-file.ts';
import { rowGroupRows } from '../../src/archive/parquet/writer.ts';
import { checkAsyncProperty } from '../harness/properties.ts';
import { quarantineLines } from '../harness/quarantine.ts';
import { flip } from './damaged.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  hourMs,
  now,
  opened,
  publishedRows,
  publishNow,
  rowHashes,
  scratchFolder,
  startRuns,
} from './scratch.ts';

type Pairs = readonly (readonly [price: number, quantity: number])[];
const levels = (pairs: Pairs): PriceLevel[] => pairs.map(([price, quantity]) => ({ price, quantity }));
const snapshot = (t: number, bids: Pairs, asks: Pairs) => ({
  t,
  bids: toBookSide(levels(bids), 'highest'),
  asks: toBookSide(levels(asks), 'lowest'),
});

const bookAnswer = (
  symbol: string,
  snapshots: BookRecord['snapshots'],
  rest: Partial<BookRecord> = {},
): BookRecord => ({
  runId: 'run',
  symbol,
  observedAt: now,
  snapshots,
  rejected: [],
  understood: true,
  ...rest,
});

function appendAll(archive: Archive, ...records: BookRecord[]): void {
  startRuns(archive, records);
  appendBooks(archive.state, records);
}

const coverage = (root: string) => publishedRows(root, 'coverage');
const books = (root: string) => publishedRows(root, 'orderbooks');

describe('publishing order books', () => {
  test('writes a row a level, asks before bids, best first, each in the file of its day and symbol', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    const before = snapshot(day0 - 1, [[0.4, 5]], []);
    const after = snapshot(
      day0,
      [
        [0.4, 5],
        [0.42, 1],
      ],
      [
        [0.5, 2],
        [0.45, 3],
      ],
    );
    appendAll(archive, bookAnswer('AAA', [before, after]));
    const { manifest } = await publishNow(archive);
    expect(books(root)).toEqual([
      ['AAA', day0 - 1, 'bid', 0, 0.4, 5],
      ['AAA', day0, 'ask', 0, 0.45, 3],
      ['AAA', day0, 'ask', 1, 0.5, 2],
      ['AAA', day0, 'bid', 0, 0.42, 1],
      ['AAA', day0, 'bid', 1, 0.4, 5],
    ]);
    expect(
      manifest.datasets.orderbooks.files.map(({ date, rows, t_min, t_max, symbols }) => [
        date,
        rows,
        t_min,
        t_max,
        symbols,
      ]),
    ).toEqual([
      ['2026-05-31', 1, day0 - 1, day0 - 1, 1],
      ['2026-06-01', 4, day0, day0, 1],
    ]);
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  });

  test('keeps an empty book as one row of level -1', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    appendAll(archive, bookAnswer('AAA', [snapshot(day0, [], [])]));
    await publishNow(archive);
    expect(books(root)).toEqual([['AAA', day0, 'bid', -1, Number.NaN, 0]]);
    const before = hashes(root, 'orderbooks/**/*');
    appendAll(archive, bookAnswer('AAA', [snapshot(day0, [], [])]));
    await publishNow(archive);
    expect(hashes(root, 'orderbooks/**/*')).toEqual(before);
  });

  test('a snapshot replaces one of the same moment whole, and no other', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    appendAll(
      archive,
      bookAnswer('AAA', [
        snapshot(
          day0,
          [
            [0.4, 5],
            [0.3, 1],
          ],
          [],
        ),
        snapshot(day0 + 1, [[0.2, 1]], []),
      ]),
    );
    await publishNow(archive);
    appendAll(archive, bookAnswer('AAA', [snapshot(day0, [], [[0.9, 7]])], { observedAt: now + 1 }));
    await publishNow(archive);
    expect(books(root)).toEqual([
      ['AAA', day0, 'ask', 0, 0.9, 7],
      ['AAA', day0 + 1, 'bid', 0, 0.2, 1],
    ]);
  });

  test('of the same moment the one observed later wins, in whatever order the answers came', async () => {
    const older = bookAnswer('AAA', [snapshot(day0, [[0.9, 9]], [])], { observedAt: now });
    const newer = bookAnswer('AAA', [snapshot(day0, [[0.1, 1]], [])], { observedAt: now + 1 });
    const orders = [
      [older, newer],
      [newer, older],
    ];
    const trees = [];
    for (const records of orders) {
      const root = scratchFolder();
      const archive = opened({ root });
      appendAll(archive, ...records);
      await publishNow(archive);
      expect(books(root)).toEqual([['AAA', day0, 'bid', 0, 0.1, 1]]);
      trees.push(hashes(root, '{orderbooks,coverage}/**/*'));
    }
    expect(trees[0]).toEqual(trees[1]);
  });

  test('gives the same bytes however the answers came in order and in batches', async () => {
    const anyAnswer = fc
      .record({
        symbol: fc.constantFrom('AAA', 'BBB', '🚀 x'),
        at: fc.integer({ min: 0, max: 6 }),
        seen: fc.integer({ min: 0, max: 2 }),
        bids: fc.array(fc.tuple(fc.constantFrom(0.1, 0.2, 0.3), fc.integer({ min: 1, max: 3 })), { maxLength: 3 }),
        asks: fc.array(fc.tuple(fc.constantFrom(0.5, 0.6), fc.integer({ min: 1, max: 3 })), { maxLength: 2 }),
      })
      .map(({ symbol, at, seen, bids, asks }) =>
        bookAnswer(symbol, [snapshot(day0 + dayMs + (at - 3) * hourMs, bids, asks)], { observedAt: now + seen }),
      );
    const published = async (batches: readonly (readonly BookRecord[])[]): Promise<object> => {
      const root = scratchFolder();
      const archive = opened({ root, parts: 1 });
      for (const batch of batches) {
        appendAll(archive, ...batch);
        await publishNow(archive);
      }
      archive.close();
      return rowHashes(root, '{orderbooks,coverage}/**/*.parquet');
    };
    const cases = fc.array(fc.tuple(anyAnswer, fc.integer({ min: 0, max: 2 }), fc.nat()), {
      minLength: 1,
      maxLength: 8,
    });
    await checkAsyncProperty([cases], 12, async (drawn) => {
      const all = drawn.map(([record]) => record);
      const shuffled = [...drawn].sort(([, , a], [, , b]) => a - b).map(([record]) => record);
      expect(await published([shuffled])).toEqual(await published([all]));
      const batches = [0, 1, 2].map((n) => drawn.filter(([, batch]) => batch === n).map(([record]) => record));
      expect(await published(batches)).toEqual(await published([all]));
    });
  });

  test('covers the millisecond of each answer beside the coverage of ticks, which stays as it is', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    const today = now - 12 * hourMs;
    const windows = [{ from: today, to: today + hourMs }];
    append(archive, answer('AAA', [[today, 0.5]], { windows }));
    await publishNow(archive);
    const ticks = ['ticks', 'AAA', today, today + hourMs, 1, now, 'poll', 'confirmed', null];
    expect(coverage(root)).toEqual([ticks]);
    const one = snapshot(now, [[0.4, 1]], []);
    appendAll(archive, bookAnswer('AAA', [one]), bookAnswer('AAA', [one]));
    appendAll(
      archive,
      bookAnswer('AAA', [snapshot(now + 1, [], []), snapshot(now - dayMs, [], [])], { observedAt: now + 1 }),
    );
    appendAll(archive, bookAnswer('BBB', [], { observedAt: now + 9 }));
    await publishNow(archive);
    const rows = [
      // Adjoining moments are one row; the same moment answered twice counts once.
      ['orderbooks', 'AAA', now, now + 2, 3, now, 'poll', 'inferred', null],
      ['orderbooks', 'BBB', now + 9, now + 10, 0, now + 9, 'poll', 'inferred', null],
    ];
    expect(coverage(root)).toEqual([...rows, ticks]);
    append(archive, answer('AAA', [[today + 1, 0.6]], { windows }));
    await publishNow(archive);
    expect(coverage(root)).toEqual([...rows, ticks.with(4, 2)]);
    const before = hashes(root, 'coverage/**/*');
    appendAll(archive, bookAnswer('AAA', [one]));
    await publishNow(archive);
    expect(hashes(root, 'coverage/**/*')).toEqual(before);
  });

  test('sets aside what was not understood as received, and does not call its moment covered', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    const rejected = [{ reason: 'order book: price 42 is outside 0 to 1', raw: '{"yes":[[42 , 1e0]]}' }];
    appendAll(archive, bookAnswer('AAA', [], { rejected, understood: false }));
    await publishNow(archive);
    const [line] = quarantineLines(root);
    expect(JSON.parse(line!)).toEqual({ run_id: 'run', symbol: 'AAA', at: now, ...rejected[0] });
    expect(coverage(root)).toEqual([]);
    // The counts of ticks are of ticks alone.
    expect(readRunCounts(archive.state.db, 'run')).toMatchObject({ fetched: 0, quarantined: 0 });
  });

  test('leaves nothing journaled behind, and makes no new generation without anything new', async () => {
    const archive = opened();
    appendAll(archive, bookAnswer('AAA', [snapshot(day0, [[0.4, 1]], [])]), bookAnswer('BBB', []));
    expect(readBookLoad(archive.state.db)).toBeGreaterThan(0);
    await publishNow(archive);
    const { manifest, files } = await publishNow(archive);
    expect([manifest.generation, files]).toEqual([1, []]);
    expect(readJournalLoad(archive.state.db)).toBe(0);
    for (const table of ['journal', 'journal_books', 'journal_book_coverage'])
      expect(archive.state.db.one(`select count(*) as n from ${table}`)).toEqual({ n: 0 });
  });

  test('refuses a damaged file, keeps the journal for it, and merges into it once it is whole again', async () => {
    const root = scratchFolder();
    const archive = opened({ root, parts: 1 });
    appendAll(archive, bookAnswer('AAA', [snapshot(day0, [[0.4, 1]], [])]));
    await publishNow(archive);
    const path = join(root, globSync('orderbooks/**/*.parquet', { cwd: root })[0]!);
    const intact = flip(path, 40);
    appendAll(
      archive,
      bookAnswer('AAA', [snapshot(day0 + 1, [], []), snapshot(day0 + dayMs, [], [])], { observedAt: now + 5 }),
    );
    appendAll(archive, bookAnswer('BBB', [snapshot(day0 + dayMs, [], [])], { observedAt: now + 5 }));
    const { refused } = await publishNow(archive);
    expect(refused).toEqual([expect.stringMatching(/orderbooks.*is damaged/)]);
    // What is not published whole is not covered either.
    expect(coverage(root).map((row) => row[1])).toEqual(['AAA', 'BBB']);
    writeFileSync(path, intact);
    expect((await publishNow(archive)).refused).toEqual([]);
    expect(books(root).map((row) => row.slice(0, 2))).toEqual([
      ['AAA', day0],
      ['AAA', day0 + 1],
      ['AAA', day0 + dayMs],
      ['BBB', day0 + dayMs],
    ]);
    expect(coverage(root).map((row) => row.slice(1, 4))).toEqual([
      ['AAA', now, now + 1],
      ['AAA', now + 5, now + 6],
      ['BBB', now + 5, now + 6],
    ]);
  });

  test('survives the loss of .oddslake: coverage of order books is read back and kept', async () => {
    const root = scratchFolder();
    const first = opened({ root });
    appendAll(first, bookAnswer('AAA', [snapshot(now, [[0.4, 1]], [])]));
    await publishNow(first);
    first.close();
    const { rmSync } = await import('node:fs');
    rmSync(join(root, '.oddslake'), { recursive: true });
    const again = opened({ root });
    appendAll(again, bookAnswer('AAA', [snapshot(now + 7, [], [])], { observedAt: now + 7 }));
    append(again, answer('AAA', [[now - 1, 0.5]]));
    await publishNow(again);
    expect(coverage(root).map((row) => row.slice(0, 4))).toEqual([
      ['orderbooks', 'AAA', now, now + 1],
      ['orderbooks', 'AAA', now + 7, now + 8],
      ['ticks', 'AAA', now - 1, now],
    ]);
  });
});

test('a part of books is read back as it was written, over many batches and row groups', () => {
  const snapshots: ObservedSnapshot[] = Array.from({ length: 7_000 }, (_, i) => ({
    symbol: `S${i % 7}`,
    observedAt: now,
    ...snapshot(
      day0 + i,
      i % 11 === 0 ? [] : Array.from({ length: 15 }, (_, k) => [k / 20, 1 + ((i + k) % 9)] as const),
      i % 13 === 0 || i % 11 === 0 ? [] : Array.from({ length: 12 }, (_, k) => [1 - k / 30, k + 0.5] as const),
    ),
  }));
  const { columns, isChanged } = mergeBooks(emptyBooks, snapshots);
  expect(isChanged).toBe(true);
  // It is read in batches of the usual row group, and written here in batches of eight of the small ones.
  expect(columns.t.length).toBeGreaterThan(rowGroupRows);
  const bytes = encodeBooks(columns, 1_000);
  const back = decodeBooks(bytes);
  expect(back).toEqual(columns);
  expect(Buffer.compare(encodeBooks(back, 1_000), bytes)).toBe(0);
  expect(mergeBooks(columns, snapshots).isChanged).toBe(false);
});
