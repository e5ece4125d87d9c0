import { basename } from 'node:path/posix';
import { LRUCache } from 'lru-cache';
import { computePartNumber } from '../../base/symbol-name.ts';
import { parseDayStart } from '../../base/time.ts';
import { dayMs, floorToDay } from '../../base/window.ts';
import { toDayPath } from '../format/layout.ts';
import type { Manifest, PublishedFile } from '../format/manifest.ts';
import {
  askSide,
  type BookColumns,
  hasSnapshotPrecedence,
  type ObservedSnapshot,
  type PriceLevel,
} from '../format/order-book.ts';
import { readLatestBookResponseMs, readLatestBooks } from '../journal/journal-books.ts';
import type { Archive } from '../open-archive.ts';
import { decodeBooks } from '../parquet/books-file.ts';
import { readDayCoverage } from '../publish/day-tables.ts';
import { type ManifestWatcher, readConsistently } from './manifest-watcher.ts';
import type { VerifiedFiles } from './verified-files.ts';

/** The order book of a symbol as last had; levels best first, both sides without any in an empty book. */
export interface LatestBook {
  /** Epoch milliseconds. */
  readonly t: number;
  readonly bids: readonly PriceLevel[];
  readonly asks: readonly PriceLevel[];
  /** When the latest answer that brought a snapshot was generated, epoch ms: what the archive's coverage has of it. */
  readonly fetchedAt: number;
}

export interface OrderBookReader {
  /**
   * The latest snapshot of a symbol, published or not; null where none was ever had.
   * @throws DamageError where a file that it may be in is damaged
   */
  readLatest(symbol: string): Promise<LatestBook | null>;
}

type Book = Omit<LatestBook, 'fetchedAt'>;

/** What is kept of files that were looked through, in bytes, roughly. */
const cacheBytesMax = 64 * 1024 ** 2;
const levelBytes = 80;
const symbolBytes = 200;
/** Symbols that are known to have no published book. */
const booklessCacheOptions = { max: 100_000 };

/** The latest order books of an archive, whoever else writes it meanwhile. */
export function openOrderBookReader(archive: Archive, current: ManifestWatcher, files: VerifiedFiles): OrderBookReader {
  // By the hash of a file, so that a replaced one falls out by itself.
  const sizeOf = (entries: ReadonlyMap<string, Book | number>): number =>
    [...entries.values()].reduce<number>((sum, entry) => sum + symbolBytes + levelBytes * countLevels(entry), 1);
  const books = new LRUCache<string, ReadonlyMap<string, Book>>({ maxSize: cacheBytesMax, sizeCalculation: sizeOf });
  const answers = new LRUCache<string, ReadonlyMap<string, number>>({
    maxSize: cacheBytesMax / 4,
    sizeCalculation: sizeOf,
  });
  const none = new LRUCache<string, number>(booklessCacheOptions);

  async function latestPublished(manifest: Manifest, symbol: string): Promise<Book | null> {
    if (none.get(symbol) === manifest.generation) return null;
    const part = computePartNumber(symbol, manifest.parts);
    const ofPart = manifest.datasets.orderbooks.files.filter((file) => file.path.endsWith(toFileName(part)));
    for (const file of sortNewestFirst(ofPart)) {
      const found = (await getOrRead(books, file, () => findLatestBooks(decodeBooks(files.readBytes(file))))).get(
        symbol,
      );
      if (found !== undefined) return found;
    }
    none.set(symbol, manifest.generation);
    return null;
  }

  /** An answer comes on the day of its snapshot or, where the book stood still, later. */
  async function answeredAt(manifest: Manifest, symbol: string, t: number): Promise<number | null> {
    const waiting = readLatestBookResponseMs(archive.state, symbol);
    if (waiting !== null) return waiting;
    for (const file of sortNewestFirst(manifest.datasets.coverage.files)) {
      const day = parseDayStart(file.date!);
      // A service's clock may be ahead of its own books.
      if (day < floorToDay(t) - dayMs) return null;
      const at = (await getOrRead(answers, file, () => findFetchTimes(archive, manifest, day))).get(symbol);
      if (at !== undefined) return at;
    }
    return null;
  }

  return {
    readLatest: (symbol) =>
      readConsistently(archive, current, async (manifest) => {
        const published = await latestPublished(manifest, symbol);
        const waiting = readLatestBooks(archive.state, symbol);
        const [first, ...others] = waiting;
        const fresh = first && others.reduce((best, next) => (hasSnapshotPrecedence(next, best) ? next : best), first);
        // A journaled one replaces a published one of its moment whole.
        const book = fresh !== undefined && fresh.t >= (published?.t ?? 0) ? toBook(fresh) : published;
        return book === null ? null : { ...book, fetchedAt: (await answeredAt(manifest, symbol, book.t)) ?? book.t };
      }),
  };
}

const countLevels = (entry: Book | number): number =>
  typeof entry === 'number' ? 0 : entry.bids.length + entry.asks.length;

/** How the path of a part ends, whatever its day. */
const toFileName = (part: number): string => basename(toDayPath('orderbooks', 0, part));

const sortNewestFirst = (files: readonly PublishedFile[]): PublishedFile[] =>
  files.toSorted((a, b) => (a.date! < b.date! ? 1 : a.date! > b.date! ? -1 : 0));

async function getOrRead<T extends object>(
  kept: LRUCache<string, T>,
  { sha256 }: PublishedFile,
  read: () => T,
): Promise<T> {
  const held = kept.get(sha256);
  if (held !== undefined) return held;
  // Other requests get their turn between files.
  await new Promise((resolve) => setImmediate(resolve));
  const made = read();
  kept.set(sha256, made);
  return made;
}

/** The last snapshot of each symbol of a part. */
function findLatestBooks({ symbols, offsets, t, side, level, price, quantity }: BookColumns): Map<string, Book> {
  return new Map(
    symbols.map((symbol, i) => {
      const last = t[offsets[i + 1]! - 1]!;
      const [bids, asks]: [PriceLevel[], PriceLevel[]] = [[], []];
      for (let row = offsets[i + 1]! - 1; row >= offsets[i]! && t[row] === last; row--)
        if (level[row]! >= 0)
          (side[row] === askSide ? asks : bids).push({ price: price[row]!, quantity: quantity[row]! });
      return [symbol, { t: last, bids: bids.reverse(), asks: asks.reverse() }];
    }),
  );
}

/** When the latest answer of a day that brought a snapshot was generated, by symbol. */
function findFetchTimes(archive: Archive, manifest: Manifest, day: number): Map<string, number> {
  const { orderbooks } = readDayCoverage(archive, manifest, day);
  const out = new Map<string, number>();
  // A row covers the milliseconds in which answers were generated: adjoining ones are joined, and the last counts.
  for (const [symbol, rows] of orderbooks)
    for (const { ticks, to } of rows) if (ticks > 0) out.set(symbol, Math.max(to - 1, out.get(symbol) ?? to - 1));
  return out;
}

const toBook = ({ t, bids, asks }: ObservedSnapshot): Book => ({
  t,
  bids: [...bids.prices].map((price, i) => ({ price, quantity: bids.quantities[i]! })),
  asks: [...asks.prices].map((price, i) => ({ price, quantity: asks.quantities[i]! })),
});
