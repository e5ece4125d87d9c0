import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { toBookSide } from '../../src/archive/format/order-book.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import { conflictDatasets, seriesDatasets } from '../../src/archive/format/series-datasets.ts';
import { readText } from '../../src/archive/format/text-columns.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import type { TickRecord } from '../../src/archive/journal/journal.ts';
import { appendBooks, type BookRecord } from '../../src/archive/journal/journal-books.ts';
import type { SeriesRecord } from '../../src/archive/journal/journal-series.ts';
import { startRun } from '../../src/archive/journal/runs.ts';
import { readSeriesCounts } from '../../src/archive/journal/series-counts.ts';
import type { CellValue } from '../../src/archive/parquet/rows.ts';
import { decodeSeries } from '../../src/archive/parquet/series-file.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import { floorToDay } from '../../src/base/window.ts';
import { listCounted, pickWinningRow } from '../faults/simulation/series-model.ts';
import { createRow, keyRows, seqColumn, toSeriesRow } from '../faults/simulation/series-rows.ts';
import { checkAsyncProperty, printSeed } from '../harness/properties.ts';
import { share } from '../harness/share.ts';
import { appendQuotes, findSeriesCountErrors, type Quote, quoteAnswer } from './quotes.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hourMs,
  now,
  opened,
  pathOfSymbol,
  publishedRows,
  publishedTicks,
  publishNow,
  rowHashes,
  scratchFolder,
} from './scratch.ts';
import { type Trade, trade, tradeAnswer } from './trades.ts';

// Any quotes and trades, beside ticks and order books, in any batches.

const seed = printSeed('series laws');

const symbols = ['AAA', 'BBB', '🚀 x', '\u{e000}'];
const anyNumber = fc.constantFrom(Number.NaN, 0, -0, 0.1, 0.1 + Number.EPSILON, 0.5);
const anySeen = {
  symbol: fc.constantFrom(...symbols),
  seen: fc.integer({ min: 0, max: 3 }),
  rank: fc.constantFrom(...Object.values(precedenceRanks)),
};

/** Finer times, some of which are unknown: several files have others of one key. */
const withTimes = (record: SeriesRecord): SeriesRecord => {
  const { rows, observedAt } = record;
  const draw = (c: number) =>
    rows.t.map((t, i) => ((i + c) % 3 === 0 ? Number.NaN : 1000 * t + ((observedAt + i + c) % 7)));
  return { ...record, rows: { ...rows, times: [draw(0), draw(1)] } };
};

/** Quotes around two midnights, with numbers that repeat and differ. Covers just their moments. */
const anyQuotes = fc
  .record({
    ...anySeen,
    rows: fc.array(fc.tuple(fc.integer({ min: -20, max: 20 }), anyNumber, anyNumber, anyNumber, anyNumber), {
      minLength: 1,
      maxLength: 10,
    }),
  })
  .map(({ symbol, rows, seen, rank }) => {
    const quotes = rows.map(([at, ...rest]): Quote => [day0 + dayMs + at * hourMs, ...rest]);
    const windows = quotes.map(([t]) => ({ from: t, to: t + 1 }));
    return withTimes(quoteAnswer(symbol, quotes, { observedAt: now + seen, rank, windows }));
  });

/**
 * Trades around a midnight, several in one millisecond. An identifier has one content, but for one in four: those have a
 * millisecond for themselves, because the precedence is that of the millisecond.
 */
const anyTrades = fc
  .record({
    ...anySeen,
    rows: fc.array(
      fc.tuple(
        fc.integer({ min: 0, max: 40 }),
        fc.integer({ min: 0, max: 3 }),
        fc.record({
          aggressor: fc.constantFrom(null, 'buy', 'sell'),
          block: fc.constantFrom(null, true, false),
          hash: fc.constantFrom(null, '0xab', ''),
          priceText: fc.constantFrom(null, '0.5000000000000000001'),
        }),
      ),
      { minLength: 1, maxLength: 12 },
    ),
  })
  .map(({ symbol, rows, seen, rank }) => {
    const trades = rows.map(([number, drawn, rest]): Trade => {
      const day = number % 2 === 0 ? day0 : day0 + dayMs;
      if (number % 4 === 3) return trade(day + 1000 + 10 * number, `x${number}`, drawn / 4, 1 + drawn, rest);
      // Times that do not adjoin: which windows are joined depends on what is published together.
      return trade(day + 10 * (number % 3), `${number}`, (number % 5) / 5, 1 + number);
    });
    const windows = trades.map(({ t }) => ({ from: t, to: t + 1 }));
    return withTimes(tradeAnswer(symbol, trades, { observedAt: now + seen, rank, windows }));
  });

const anyTicks = fc
  .record({
    symbol: fc.constantFrom(...symbols),
    hours: fc.array(fc.integer({ min: -20, max: 20 }), { minLength: 1, maxLength: 6 }),
    price: fc.constantFrom(0.1, 0.5),
    seen: fc.integer({ min: 0, max: 3 }),
  })
  .map(({ symbol, hours, price, seen }) => {
    const pairs = hours.map((at) => [day0 + dayMs + at * hourMs, price] as const);
    return answer(symbol, pairs, { observedAt: now + seen, windows: pairs.map(([t]) => ({ from: t, to: t + 1 })) });
  });

const anyBook = fc
  .record({
    symbol: fc.constantFrom(...symbols),
    at: fc.integer({ min: -3, max: 3 }),
    quantity: fc.integer({ min: 1, max: 3 }),
    seen: fc.integer({ min: 0, max: 2 }),
  })
  .map(({ symbol, at, quantity, seen }): BookRecord => {
    const t = day0 + dayMs + at * hourMs;
    const bids = toBookSide([{ price: 0.3, quantity }], 'highest');
    const snapshots = [{ t, bids, asks: toBookSide([], 'lowest') }];
    return { runId: 'run', symbol, observedAt: t + seen, snapshots, rejected: [], understood: true };
  });

/** A journaled record of any dataset. */
type AnyRecord = { series: SeriesRecord } | { ticks: TickRecord } | { books: BookRecord };
const anyRecord: fc.Arbitrary<AnyRecord> = fc.oneof(
  { weight: 2, arbitrary: anyQuotes.map((series) => ({ series })) },
  { weight: 2, arbitrary: anyTrades.map((series) => ({ series })) },
  { weight: 1, arbitrary: anyTicks.map((ticks) => ({ ticks })) },
  { weight: 1, arbitrary: anyBook.map((books) => ({ books })) },
);
const datasetOf = (record: AnyRecord): string => ('series' in record ? record.series.dataset : Object.keys(record)[0]!);

const rejected = [{ reason: 'bad', raw: '{}' }];

/**
 * Publishes batches, each as a run of its own whose counts are checked. Returns the hashes of the files with rows or, with several
 * parts, whose ranges depend on the batches, the rows.
 */
async function publishBatches(batches: readonly (readonly AnyRecord[])[], parts: number): Promise<object> {
  const root = scratchFolder();
  const archive = opened({ root, parts, groupRows: 8 });
  const { db } = archive.state;
  const countRows = () => seriesDatasets.map((dataset) => publishedRows(root, dataset).length);
  for (const [i, batch] of batches.entries()) {
    const runId = `run ${i}`;
    startRun(db, runId, 'test', process.pid, now);
    const before = countRows();
    for (const record of batch) {
      if ('series' in record) appendQuotes(archive, { ...record.series, runId, rejected });
      else if ('ticks' in record) append(archive, { ...record.ticks, runId });
      else appendBooks(archive.state, [{ ...record.books, runId }]);
    }
    await publishNow(archive, now, runId, { candles: [] });
    const after = countRows();
    for (const [d, dataset] of seriesDatasets.entries()) {
      const own = batch.flatMap((record) => (datasetOf(record) === dataset && 'series' in record ? record.series : []));
      const fetched = own.reduce((sum, { rows }) => sum + rows.t.length + 1, 0);
      const accepted = after[d]! - before[d]!;
      const counts = readSeriesCounts(db, runId, dataset);
      expect(counts).toMatchObject({ fetched, quarantined: own.length, accepted, recovered: 0 });
      expect(findSeriesCountErrors(archive, dataset)).toEqual([]);
    }
  }
  expect(db.one('select count(*) as n from journal')).toEqual({ n: 0 });
  await checkFiles(archive);
  archive.close();
  if (parts === 1) return rowHashes(root, '{ticks,orderbooks,quotes,trades,coverage}/**/*.parquet');
  const names = ['orderbooks', 'quotes', 'trades', 'coverage'] as const;
  return [publishedTicks(root), ...names.map((name) => publishedRows(root, name).map(String))].map((rows) =>
    rows.sort(),
  );
}

/** Each key is there once, in order and in the file of its day and symbol; coverage counts the rows in its windows. */
async function checkFiles(archive: Archive): Promise<void> {
  const { root } = archive.layout;
  const expectUnique = (keys: readonly unknown[][]) =>
    expect(new Set(keys.map((key) => JSON.stringify(key))).size).toBe(keys.length);
  for (const dataset of seriesDatasets) {
    const rows = publishedRows(root, dataset);
    expectUnique(rows.map(([symbol, t, id]) => [symbol, dataset === 'quotes' ? t : id]));
    for (const [i, row] of rows.entries()) {
      const last = rows[i - 1];
      const isRepeat = last?.[0] === row[0] && last?.[1] === row[1];
      if (dataset === 'trades') expect(row[seqColumn]).toBe(isRepeat ? (last![seqColumn] as number) + 1 : 0);
    }
    const conflicts = publishedRows(root, conflictDatasets[dataset]);
    expectUnique(conflicts.map((row) => row.slice(0, 4)));
    expectUnique(conflicts.map((row) => row.toSpliced(3, 1)));
    for (const path of globSync(`${dataset}/**/*.parquet`, { cwd: root })) {
      const { symbols: names, offsets, t } = decodeSeries(dataset, readFileSync(join(root, path)));
      expect(names).toEqual([...new Set(names)].sort(compareUtf8));
      names.forEach((symbol, i) => {
        for (const time of t.subarray(offsets[i]!, offsets[i + 1]!))
          expect(pathOfSymbol(archive, dataset, symbol, floorToDay(time))).toBe(path);
      });
    }
    for (const [of, symbol, from, to, count] of publishedRows(root, 'coverage'))
      if (of === dataset)
        expect(count).toBe(rows.filter(([one, t]) => one === symbol && from! <= t! && t! < to!).length);
  }
  expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
}

test('any records give the same rows for any batching and order, the same bytes in equal parts, and counts that add up', async () => {
  const cases = fc.array(fc.tuple(anyRecord, fc.integer({ min: 0, max: 3 }), fc.nat()), { minLength: 1, maxLength: 8 });
  await checkAsyncProperty([cases], share * 20, async (drawn) => {
    const parts = 1 + (drawn.length % 3);
    const publishAll = (all: readonly (readonly AnyRecord[])[]): Promise<object> => publishBatches(all, parts);
    const atOnce = await publishAll([drawn.map(([record]) => record)]);
    const shuffled = drawn.toSorted(([, , a], [, , b]) => a - b);
    const grouped = [...Map.groupBy(shuffled, ([, batch]) => batch).values()];
    expect(await publishAll(grouped.map((group) => group.map(([record]) => record)))).toEqual(atOnce);
    // Dataset after dataset.
    const byDataset = [...Map.groupBy(shuffled, ([record]) => datasetOf(record)).values()];
    expect(await publishAll(byDataset.map((group) => group.map(([record]) => record)))).toEqual(atOnce);
  });
});

/** The cells of a row in the order of the file, without symbol and seq. */
function readCells({ dataset, rows }: SeriesRecord, i: number): CellValue[] {
  const numbers = rows.values.map((column) => (Number.isNaN(column[i]!) ? null : column[i]! + 0));
  if (dataset === 'quotes') return [rows.t[i]!, ...numbers];
  const [price, size, block] = numbers as [number, number, number | null];
  const [id, aggressor, ...rest] = rows.texts.map((column) => readText(column, i)) as [string, ...(string | null)[]];
  return [rows.t[i]!, id, price, size, aggressor!, block === null ? null : block === 1, ...rest];
}

test.each(seriesDatasets)(
  '%s are those of a plain model: the greatest rank, time of observation and content of each key; all others are conflicts',
  async (dataset) => {
    const any = dataset === 'quotes' ? anyQuotes : anyTrades;
    await checkAsyncProperty(
      [fc.array(fc.tuple(any, fc.nat(2)), { minLength: 1, maxLength: 8 })],
      share * 20,
      async (drawn) => {
        const root = scratchFolder();
        const archive = opened({ root, parts: 3 });
        for (const batch of [0, 1, 2]) {
          appendQuotes(archive, ...drawn.filter(([, of]) => of === batch).map(([record]) => record));
          await publishNow(archive, now, 'run', { candles: [] });
        }
        archive.close();
        const seen = drawn.flatMap(([record]) => {
          const rows = Array.from(record.rows.t, (_, i) => createRow(dataset, record.symbol, readCells(record, i)));
          const counted = listCounted(dataset, rows);
          const { rank, observedAt } = record;
          return [...keyRows(dataset, rows)].map(([key, row]) => {
            const text = JSON.stringify([row.symbol, ...row.cells]);
            return { key, rank, observedAt, row, text, record: 0, counts: counted.has(row) };
          });
        });
        const kept = [...Map.groupBy(seen, ({ key }) => key).values()].map((of) => pickWinningRow(dataset, of).text);
        const published = publishedRows(root, dataset).map((row) => {
          const { symbol, cells } = toSeriesRow(dataset, row);
          return JSON.stringify([symbol, ...cells]);
        });
        expect(published.toSorted()).toEqual(kept.toSorted());
        const dropped = publishedRows(root, conflictDatasets[dataset]).map(([symbol, t, , , ...facts]) =>
          JSON.stringify([symbol, t, ...facts]),
        );
        for (const { text } of seen) if (!kept.includes(text)) expect(dropped).toContain(text);
      },
    );
  },
);

test('publishes that are stopped, and records that are journaled meanwhile, give the files of one publish', async () => {
  const files = '{quotes,trades,coverage,candles_1h}/**/*.parquet';
  const records = [...fc.sample(anyQuotes, { seed, numRuns: 10 }), ...fc.sample(anyTrades, { seed, numRuns: 6 })];
  const once = opened({ parts: 1 });
  appendQuotes(once, ...records);
  await publishNow(once);
  const root = scratchFolder();
  const archive = opened({ root, parts: 1 });
  startRun(archive.state.db, 'run', 'test', process.pid, now);
  let stopped = 0;
  for (const [turns, record] of records.entries()) {
    appendQuotes(archive, record);
    const stop = new AbortController();
    const publishing = publishNow(archive, now, 'run', { signal: stop.signal }).catch(() => stopped++);
    for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
    // It counts as seen a second time, in this publish or in the next one.
    appendQuotes(archive, record);
    if (turns % 3 > 0) stop.abort(new Error('stopped'));
    await publishing;
    for (const dataset of seriesDatasets) expect(findSeriesCountErrors(archive, dataset)).toEqual([]);
  }
  expect(stopped).toBeGreaterThan(2);
  await publishNow(archive);
  expect(rowHashes(root, files)).toEqual(rowHashes(once.layout.root, files));
  expect(globSync('.oddslake/staging/**/*.parquet', { cwd: root })).toEqual([]);
  expect(archive.state.db.one('select count(*) as n from journal')).toEqual({ n: 0 });
});
