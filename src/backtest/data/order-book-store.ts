import { randomUUID } from 'node:crypto';
import { closeSync, mkdirSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Query } from '../../archive/query/query.ts';
import { toSqlTimestamp } from '../../archive/query/slice-query.ts';
import { quoteLiteral } from '../../archive/query/views.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import type { Window } from '../../base/window.ts';
import { bookAgeMsMax } from '../engine/simulate.ts';
import type { Level, OrderBook, OrderBookSeries } from '../engine/symbol-series.ts';

/**
 * Where the order books of a batch are kept: how many levels they have nobody knows beforehand, so that beyond a bound those
 * are in a file, and read from there one book at a time.
 */
export interface OrderBookStore {
  /** A row of books that are added one by one, in the order of time. */
  createSeries(): StoredBookSeries;
  /** After that nothing can be read of its books. */
  close(): void;
}

export interface StoredBookSeries extends OrderBookSeries {
  add(book: OrderBook): void;
}

/** Numbers that are held in memory, two a level: 32 MB. */
export const numbersInMemoryMax = 4_000_000;

/** @param scratch a folder for the file, made if need be */
export function openOrderBookStore(scratch: string, numbersMax = numbersInMemoryMax): OrderBookStore {
  let held = new Float64Array(Math.min(numbersMax, 1024));
  /** Numbers that are held, and those that went into the file before them. */
  let [filled, filed] = [0, 0];
  let file: number | null = null;

  function makeRoom(): void {
    if (filled < held.length) return;
    if (held.length < numbersMax) {
      const wider = new Float64Array(Math.min(numbersMax, 2 * held.length));
      wider.set(held);
      held = wider;
      return;
    }
    file ??= openUnlinkedFile(scratch);
    const bytes = toBytes(held.subarray(0, filled));
    for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
    filed += filled;
    filled = 0;
  }

  function put(levels: readonly Level[]): void {
    for (const [price, quantity] of levels) {
      makeRoom();
      held[filled++] = price;
      makeRoom();
      held[filled++] = quantity;
    }
  }

  /** A book's levels may lie in both. */
  function numbers(from: number, to: number): Float64Array {
    const out = new Float64Array(to - from);
    const inFile = Math.max(0, Math.min(to, filed) - from);
    if (inFile > 0) readFully(file!, toBytes(out.subarray(0, inFile)), from * Float64Array.BYTES_PER_ELEMENT);
    if (inFile < out.length) out.set(held.subarray(from + inFile - filed, to - filed), inFile);
    return out;
  }

  return {
    createSeries() {
      const times: number[] = [];
      // Where the bids of each begin and its asks, and where these end.
      const places: number[] = [];
      const levels = (from: number, to: number): Level[] => {
        const flat = numbers(from, to);
        return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i]!, flat[2 * i + 1]!]);
      };
      return {
        get length() {
          return times.length;
        },
        add({ t, bids, asks }) {
          times.push(t);
          const from = filed + filled;
          put(bids);
          places.push(from, filed + filled);
          put(asks);
          places.push(filed + filled);
        },
        at(i) {
          const t = times[i];
          if (t === undefined) return undefined;
          const [bids, asks, end] = [places[3 * i]!, places[3 * i + 1]!, places[3 * i + 2]!];
          // Most are passed over: what is in them is looked up for those that an order meets.
          return {
            t,
            get bids() {
              return levels(bids, asks);
            },
            get asks() {
              return levels(asks, end);
            },
          };
        },
      };
    },
    close() {
      if (file !== null) closeSync(file);
      file = null;
    },
  };
}

/** A file that is gone once it is closed, however that comes. */
function openUnlinkedFile(folder: string): number {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `books-${randomUUID()}`);
  const file = openSync(path, 'wx+');
  rmSync(path);
  return file;
}

function readFully(file: number, into: Uint8Array, position: number): void {
  for (let at = 0; at < into.length; ) {
    const read = readSync(file, into, at, into.length - at, position + at);
    if (read === 0) throw new Error('a file of order books ends too early');
    at += read;
  }
}

const toBytes = ({ buffer, byteOffset, byteLength }: Float64Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** Another order book of a symbol, whose levels are still to come. */
interface PartialBook extends OrderBook {
  readonly bids: Level[];
  readonly asks: Level[];
}

/**
 * The order books that an order of a run may meet: at some tick of its span they are the latest of their symbol, and not too
 * old. Others are read past, so that however many there are, no more are kept than there are ticks.
 * @param query over the order books, with one thread, so that rows come in the order of files: a symbol's by time
 * @param ticks times by symbol, ascending
 */
export async function readOrderBooks(
  query: Query,
  ticks: ReadonlyMap<string, Float64Array>,
  span: Window,
  shelf: OrderBookStore,
  signal: AbortSignal,
): Promise<Map<string, OrderBookSeries>> {
  const sql = `SELECT symbol, epoch_ms(t)::DOUBLE, side, price, quantity FROM orderbooks
    WHERE ${formatSymbolCondition([...ticks.keys()])} AND t >= ${toSqlTimestamp(span.from - bookAgeMsMax)} AND t < ${toSqlTimestamp(span.to)}`;
  const found = new Map<string, ReturnType<typeof createBookCollector>>();
  for await (const chunk of query.readChunks([sql], signal)) {
    const [names, moments, sides, prices, quantities] = chunk as readonly [
      ...[names: string[], moments: number[], sides: string[]],
      ...[prices: number[], quantities: number[]],
    ];
    for (let row = 0; row < names.length; row++) {
      const symbol = names[row]!;
      const times = ticks.get(symbol);
      if (times === undefined) continue;
      let of = found.get(symbol);
      if (of === undefined) {
        of = createBookCollector(symbol, times, span, shelf.createSeries());
        found.set(symbol, of);
      }
      of.row(moments[row]!, sides[row]!, prices[row]!, quantities[row]!);
    }
  }
  return new Map([...found].map(([symbol, { end }]) => [symbol, end()]));
}

/** With more symbols than these, rows of those between them are read, too. */
const symbolsInQueryMax = 50;

/** A condition that is looked at row by row: of IN and many names DuckDB makes a join, after which rows come in any order. */
function formatSymbolCondition(symbols: readonly string[]): string {
  const names = symbols.toSorted(compareUtf8).map(quoteLiteral);
  const range = `symbol BETWEEN ${names[0]} AND ${names.at(-1)}`;
  return names.length > symbolsInQueryMax ? range : `${range} AND list_contains([${names.join(', ')}], symbol)`;
}

/** Takes the rows of one symbol, and keeps of its books those that a tick may meet. */
function createBookCollector(symbol: string, t: Float64Array, { from, to }: Window, kept: StoredBookSeries) {
  let coming: PartialBook | null = null;
  let tick = 0;

  /** Keeps the one whose rows are over, where there is a tick before the next one. */
  function settle(next: number): void {
    if (coming === null) return;
    const first = Math.max(coming.t, from);
    while (tick < t.length && t[tick]! < first) tick++;
    if (tick < t.length && t[tick]! < next && t[tick]! <= coming.t + bookAgeMsMax) kept.add(coming);
  }

  return {
    row(time: number, side: string, price: number, quantity: number): void {
      if (coming?.t !== time) {
        if (coming !== null && time < coming.t) throw new Error(`the order books of ${symbol} are out of order`);
        settle(time);
        coming = { t: time, bids: [], asks: [] };
      }
      // An empty book is one row of nothing.
      if (Number.isFinite(price)) coming[side === 'bid' ? 'bids' : 'asks'].push([price, quantity]);
    },
    end(): OrderBookSeries {
      settle(to);
      return kept;
    },
  };
}
