import { randomUUID } from 'node:crypto';
import { closeSync, mkdirSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Query } from '../../archive/query/query.ts';
import { toSqlTimestamp } from '../../archive/query/slice-query.ts';
import { quoteLiteral } from '../../archive/query/views.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import type { Window } from '../../base/window.ts';
import { quoteAgeMsMax } from '../engine/book-lookup.ts';
import type { Level, OrderBook, OrderBookSeries } from '../engine/symbol-series.ts';

type OrderBookStore = ReturnType<typeof openOrderBookStore>;

interface StoredBookSeries extends OrderBookSeries {
  add(book: OrderBook): void;
}

/** Maximum count of numbers in memory, two per level: 32 MB. */
const numbersInMemoryMax = 4_000_000;

/**
 * Stores the order books and quotes of a batch. The number of levels is not known in advance: beyond a bound, levels are
 * written to a file and read back one book at a time.
 * @param scratch folder of the file, created if needed
 */
export function openOrderBookStore(scratch: string, numbersMax = numbersInMemoryMax) {
  let buffer = new Float64Array(Math.min(numbersMax, 1024));
  /** Numbers in memory, and numbers in the file before them. */
  let [bufferedCount, fileCount] = [0, 0];
  let file: number | null = null;

  function makeRoom(): void {
    if (bufferedCount < buffer.length) return;
    if (buffer.length < numbersMax) {
      const larger = new Float64Array(Math.min(numbersMax, 2 * buffer.length));
      larger.set(buffer);
      buffer = larger;
      return;
    }
    file ??= openUnlinkedFile(scratch);
    const bytes = toBytes(buffer.subarray(0, bufferedCount));
    for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
    fileCount += bufferedCount;
    bufferedCount = 0;
  }

  function put(levels: readonly Level[]): void {
    for (const [price, quantity] of levels) {
      makeRoom();
      buffer[bufferedCount++] = price;
      makeRoom();
      buffer[bufferedCount++] = quantity;
    }
  }

  /** Reads numbers from the file and from memory. */
  function numbers(from: number, to: number): Float64Array {
    const out = new Float64Array(to - from);
    const fileNumbers = Math.max(0, Math.min(to, fileCount) - from);
    if (fileNumbers > 0) readFully(file!, toBytes(out.subarray(0, fileNumbers)), from * Float64Array.BYTES_PER_ELEMENT);
    if (fileNumbers < out.length) out.set(buffer.subarray(from + fileNumbers - fileCount, to - fileCount), fileNumbers);
    return out;
  }

  return {
    /** Creates a series, to which books are added in time order. */
    createSeries(): StoredBookSeries {
      const times: number[] = [];
      // Per book: start of the bids, start of the asks, end of the asks.
      const offsets: number[] = [];
      const levels = (from: number, to: number): Level[] => {
        const values = numbers(from, to);
        return Array.from({ length: values.length / 2 }, (_, i) => [values[2 * i]!, values[2 * i + 1]!]);
      };
      return {
        get length() {
          return times.length;
        },
        add({ t, bids, asks }) {
          times.push(t);
          const from = fileCount + bufferedCount;
          put(bids);
          offsets.push(from, fileCount + bufferedCount);
          put(asks);
          offsets.push(fileCount + bufferedCount);
        },
        at(i) {
          const t = times[i];
          if (t === undefined) return undefined;
          const [bids, asks, end] = [offsets[3 * i]!, offsets[3 * i + 1]!, offsets[3 * i + 2]!];
          // Levels are read lazily, because most books are skipped.
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
    /** Books cannot be read after this. */
    close(): void {
      if (file !== null) closeSync(file);
      file = null;
    },
  };
}

/** Opens a file that disappears when it is closed, even by a crash. */
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
    if (read === 0) throw new Error('the order book file is truncated');
    at += read;
  }
}

const toBytes = ({ buffer, byteOffset, byteLength }: Float64Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** An order book whose levels are still being read. */
interface PartialBook extends OrderBook {
  readonly bids: Level[];
  readonly asks: Level[];
}

/** Which order books or quotes to read: those of the symbols of `ticks`, in and shortly before `span`. */
interface BookSelection {
  /** Tick times by symbol, ascending. */
  readonly ticks: ReadonlyMap<string, Float64Array>;
  readonly span: Window;
  /** Maximum age at a tick. */
  readonly ageMsMax: number;
}

/**
 * Reads the order books that can fill an order: those that are the latest of their symbol, and not too old, at some
 * tick of the window. Skips other books, so that the result has at most as many books as ticks.
 * @param query single-threaded query over the order books, so that rows arrive in file order (within a symbol, sorted
 *   by time)
 */
export async function readOrderBooks(
  query: Query,
  selection: BookSelection,
  store: OrderBookStore,
  signal: AbortSignal,
): Promise<Map<string, OrderBookSeries>> {
  const collectors = createCollectors(selection, store);
  const sql = formatSelect('orderbooks', ['side', 'price', 'quantity'], selection);
  for await (const chunk of query.readChunks([sql], signal)) {
    const [names, moments, sides, prices, quantities] = chunk as readonly [
      ...[names: string[], moments: number[], sides: string[]],
      ...[prices: number[], quantities: number[]],
    ];
    for (let row = 0; row < names.length; row++) {
      const book = collectors.open(names[row]!, moments[row]!);
      const price = prices[row]!;
      // An empty book is one row without a price.
      if (book !== null && Number.isFinite(price))
        book[sides[row] === 'bid' ? 'bids' : 'asks'].push([price, quantities[row]!]);
    }
  }
  return collectors.end();
}

/**
 * Reads the quotes that can fill an order, like `readOrderBooks`, as order books of at most one level per side. A missing bid
 * or ask is an empty side, and a missing size is infinite.
 * @param query single-threaded query over the quotes
 */
export async function readQuotes(
  query: Query,
  selection: Omit<BookSelection, 'ageMsMax'>,
  store: OrderBookStore,
  signal: AbortSignal,
): Promise<Map<string, OrderBookSeries>> {
  const ofQuotes = { ...selection, ageMsMax: quoteAgeMsMax };
  const collectors = createCollectors(ofQuotes, store);
  const sql = formatSelect('quotes', ['bid', 'bid_size', 'ask', 'ask_size'], ofQuotes);
  for await (const chunk of query.readChunks([sql], signal)) {
    const [names, moments, bids, bidSizes, asks, askSizes] = chunk as readonly [
      ...[names: string[], moments: number[]],
      ...[bids: (number | null)[], bidSizes: (number | null)[], asks: (number | null)[], askSizes: (number | null)[]],
    ];
    for (let row = 0; row < names.length; row++) {
      const quote = collectors.open(names[row]!, moments[row]!);
      if (quote === null) continue;
      const [bid, ask] = [bids[row]!, asks[row]!];
      if (bid !== null) quote.bids.push([bid, bidSizes[row] ?? Number.POSITIVE_INFINITY]);
      if (ask !== null) quote.asks.push([ask, askSizes[row] ?? Number.POSITIVE_INFINITY]);
    }
  }
  return collectors.end();
}

function formatSelect(
  dataset: 'orderbooks' | 'quotes',
  columns: readonly string[],
  { ticks, span, ageMsMax }: BookSelection,
): string {
  return `SELECT symbol, epoch_ms(t)::DOUBLE, ${columns.join(', ')} FROM ${dataset}
    WHERE ${formatSymbolCondition([...ticks.keys()])} AND t >= ${toSqlTimestamp(span.from - ageMsMax)} AND t < ${toSqlTimestamp(span.to)}`;
}

/** Maximum number of symbols in a query; with more, the whole range of symbols is read. */
const symbolsInQueryMax = 50;

/** Uses list_contains, because DuckDB turns IN with many names into a join, which does not preserve row order. */
function formatSymbolCondition(symbols: readonly string[]): string {
  const names = symbols.toSorted(compareUtf8).map(quoteLiteral);
  const range = `symbol BETWEEN ${names[0]} AND ${names.at(-1)}`;
  return names.length > symbolsInQueryMax ? range : `${range} AND list_contains([${names.join(', ')}], symbol)`;
}

/** Collects books by symbol, and keeps those that a tick can use. */
function createCollectors({ ticks, span, ageMsMax }: BookSelection, store: OrderBookStore) {
  const collectors = new Map<string, ReturnType<typeof createBookCollector>>();
  return {
    /** The book of a symbol at a time, to which levels are added; null if the symbol is not selected. */
    open(symbol: string, time: number): PartialBook | null {
      const times = ticks.get(symbol);
      if (times === undefined) return null;
      let collector = collectors.get(symbol);
      if (collector === undefined) {
        collector = createBookCollector(symbol, times, span, ageMsMax, store.createSeries());
        collectors.set(symbol, collector);
      }
      return collector.open(time);
    },
    end: (): Map<string, OrderBookSeries> => new Map([...collectors].map(([symbol, { end }]) => [symbol, end()])),
  };
}

/** Collects the books of one symbol. */
function createBookCollector(
  symbol: string,
  t: Float64Array,
  { from, to }: Window,
  ageMsMax: number,
  series: StoredBookSeries,
) {
  let current: PartialBook | null = null;
  let tick = 0;

  /** Keeps the finished book if there is a tick before the next book. */
  function settle(next: number): void {
    if (current === null) return;
    const first = Math.max(current.t, from);
    while (tick < t.length && t[tick]! < first) tick++;
    if (tick < t.length && t[tick]! < next && t[tick]! <= current.t + ageMsMax) series.add(current);
  }

  return {
    open(time: number): PartialBook {
      if (current?.t === time) return current;
      if (current !== null && time < current.t) throw new Error(`the order books of ${symbol} are out of order`);
      settle(time);
      current = { t: time, bids: [], asks: [] };
      return current;
    },
    end(): OrderBookSeries {
      settle(to);
      return series;
    },
  };
}
