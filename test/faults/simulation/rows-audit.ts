import type { DatasetName } from '../../../src/archive/format/datasets.ts';
import type { Database } from '../../../src/archive/journal/database.ts';
import type { CellValue } from '../../../src/archive/parquet/rows.ts';
import { floorToDay } from '../../../src/base/window.ts';
import { type AcceptedRows, bookText, keyOf, type Listing } from './accepted-rows.ts';
import type { Oracle } from './oracle.ts';

type RowsOf = (name: DatasetName) => readonly (readonly CellValue[])[];
type Prices = ReadonlyMap<string, ReadonlyMap<number, number>>;

/** An incorrect or missing row; `key` is the same in every audit. */
interface RowError {
  readonly dataset: DatasetName;
  readonly key: string;
  readonly sentence: string;
}

interface RowsAudit {
  /** Errors in markets, order books and conflicts, as sentences. */
  wrongs(rowsOf: RowsOf, ticks: Prices, db: Database): Generator<string>;
  /** Rows of these datasets were damaged: missing rows are lost and not an error. */
  forgive(damaged: ReadonlySet<DatasetName>, rowsOf: RowsOf, ticks: Prices, db: Database): void;
}

export function startRowsAudit(oracle: Oracle, acceptedRows: AcceptedRows): RowsAudit {
  const forgiven = new Set<string>();

  const waitingIn = (db: Database, table: string): Set<number> =>
    new Set(db.all<{ id: number }>(`select record_id as id from ${table}`).map(({ id }) => id));

  /** The last row of a day for a market is from the last poll of the day that named it. */
  function* markets(rowsOf: RowsOf, db: Database): Generator<RowError> {
    const lastRows = new Map<string, readonly CellValue[]>();
    for (const row of rowsOf('markets')) {
      const key = keyOf(floorToDay(row[11] as number), row[0] as string, row[1] as string);
      if ((lastRows.get(key)?.[12] ?? 0) < row[12]!) lastRows.set(key, row);
    }
    const waiting = waitingIn(db, 'journal_markets');
    for (const [day, ofDay] of acceptedRows.listings) {
      for (const [market, listings] of ofDay) {
        const key = keyOf(day, market);
        const row = lastRows.get(key);
        const lastRow = row && JSON.stringify([row[6], row[8], row[9], row[10]]);
        const saysAsRow = ({ reported: { isActive, closesAt, resolvedAt, outcome } }: Listing): boolean =>
          lastRow === JSON.stringify([isActive, closesAt, resolvedAt, outcome]);
        // A poll that repeats what is published is dropped while a later one that repeats it too is journaled.
        const journaled = listings.filter((one) => waiting.has(one.record) && saysAsRow(one));
        const repeatedTo = Math.max(...journaled.map((one) => one.observedAt));
        const merged = listings.filter(
          (one) =>
            !waiting.has(one.record) &&
            !(saysAsRow(one) && one.observedAt > (row![12] as number) && one.observedAt <= repeatedTo),
        );
        if (merged.length === 0) continue;
        const observedAt = Math.max(...merged.map((one) => one.observedAt));
        const correct = merged.filter((one) => one.observedAt === observedAt).some(saysAsRow);
        if (row?.[12] === observedAt && correct) continue;
        const sentence = `markets: ${JSON.stringify(key)} was last observed at ${observedAt}, and the day has ${row}`;
        yield { dataset: 'markets', key, sentence };
      }
    }
  }

  function* books(rowsOf: RowsOf, db: Database): Generator<RowError> {
    const sides = new Map<string, [bids: number[][], asks: number[][]]>();
    for (const [symbol, t, side, level, price, quantity] of rowsOf('orderbooks')) {
      const key = keyOf(symbol as string, t as number);
      const both = sides.get(key) ?? [[], []];
      sides.set(key, both);
      if ((level as number) >= 0) both[side === 'bid' ? 0 : 1].push([price as number, quantity as number]);
    }
    const waiting = waitingIn(db, 'journal_books');
    for (const [key, list] of acceptedRows.books) {
      const merged = list.filter(({ record }) => !waiting.has(record));
      const both = sides.get(key);
      const text = both && bookText(...both);
      if (merged.length === 0 || merged.some((book) => book.text === text)) continue;
      const sentence = `orderbooks: ${JSON.stringify(key)} is ${text}, of ${JSON.stringify(merged)}`;
      yield { dataset: 'orderbooks', key, sentence };
    }
    for (const key of sides.keys())
      if (!acceptedRows.books.has(key))
        yield { dataset: 'orderbooks', key, sentence: `orderbooks: ${JSON.stringify(key)} was never accepted` };
  }

  /** Each observed price is published or is in the conflicts. */
  function* conflicts(rowsOf: RowsOf, ticks: Prices, db: Database): Generator<RowError> {
    const dataset = 'conflicts';
    const dropped = new Map<string, Set<number>>();
    for (const row of rowsOf('conflicts')) {
      const [symbol, t, kept, p, seenAt] = row as [string, number, number, number, number];
      const key = keyOf(symbol, t);
      dropped.set(key, (dropped.get(key) ?? new Set()).add(p));
      const observed = oracle.ever(symbol, t);
      const isReported = [kept, p].every((price) => observed.some((one) => one.p === price));
      if (kept === p || !isReported || !observed.some(({ observedAt }) => observedAt === seenAt))
        yield { dataset, key: keyOf(key, p), sentence: `conflicts: ${row}, of ${JSON.stringify(observed)}` };
    }
    const waiting = new Set(
      db
        .all<{ record_id: number; symbol: string; day: number }>('select record_id, symbol, day from journal_ticks')
        .map(({ record_id, symbol, day }) => keyOf(record_id, symbol, day)),
    );
    for (const [symbol, times] of oracle.seen) {
      for (const [t, observations] of times) {
        if (observations.length < 2 || oracle.isLoose(symbol, t)) continue;
        const p = ticks.get(symbol)?.get(t);
        for (const one of observations) {
          if (one.p === p || dropped.get(keyOf(symbol, t))?.has(one.p)) continue;
          if (waiting.has(keyOf(one.record, symbol, floorToDay(t)))) continue;
          const sentence = `conflicts: ${symbol} at ${t} is ${p}, and no conflict has ${JSON.stringify(one)}`;
          yield { dataset, key: keyOf(symbol, t, one.p), sentence };
        }
      }
    }
  }

  function* all(rowsOf: RowsOf, ticks: Prices, db: Database): Generator<RowError> {
    yield* markets(rowsOf, db);
    yield* books(rowsOf, db);
    yield* conflicts(rowsOf, ticks, db);
  }

  return {
    *wrongs(rowsOf, ticks, db) {
      for (const { dataset, key, sentence } of all(rowsOf, ticks, db))
        if (!forgiven.has(`${dataset} ${key}`)) yield sentence;
    },
    forgive(damaged, rowsOf, ticks, db) {
      for (const { dataset, key } of all(rowsOf, ticks, db))
        if (damaged.has(dataset)) forgiven.add(`${dataset} ${key}`);
    },
  };
}
