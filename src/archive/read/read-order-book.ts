import { LRUCache } from 'lru-cache';
import { entriesMax } from '../../base/entries-max.ts';
import { parseDayStart } from '../../base/time.ts';
import { dayMs, floorToDay } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import type { Manifest, PublishedFile } from '../format/manifest.ts';
import {
  askSide,
  type BookColumns,
  hasSnapshotPrecedence,
  type ObservedSnapshot,
  type PriceLevel,
} from '../format/order-book.ts';
import { readLatestBookResponseMs, readLatestBooks } from '../journal/journal-books.ts';
import { decodeBooks } from '../parquet/books-file.ts';
import { readCoverageFile } from '../publish/day-tables.ts';
import { createFileFilter } from '../publish/prune-files.ts';
import { dropReplaced } from './drop-replaced.ts';
import { type ManifestWatcher, readConsistently } from './manifest-watcher.ts';
import type { VerifiedFiles } from './verified-files.ts';

/** The latest known order book of a symbol; levels best first. An empty book has no levels on either side. */
interface LatestBook {
  /** Epoch milliseconds. */
  readonly t: number;
  readonly bids: readonly PriceLevel[];
  readonly asks: readonly PriceLevel[];
  /** When the latest response with a snapshot was generated, epoch ms, according to coverage. */
  readonly fetchedAt: number;
}

type Book = Omit<LatestBook, 'fetchedAt'>;

/** Approximate memory for cached files, in bytes. */
const cacheBytesMax = 64 * 1024 ** 2;
const levelBytes = 80;
const symbolBytes = 200;
/** Cache of symbols without a published book. */
const booklessCacheOptions = entriesMax(100_000);

/** Opens a reader for the latest order books. Other processes may write the archive meanwhile. */
export function openOrderBookReader(archive: Archive, watcher: ManifestWatcher, files: VerifiedFiles) {
  // Keyed by file hash.
  const sizeOf = (entries: ReadonlyMap<string, Book | number>): number =>
    [...entries.values()].reduce<number>((sum, entry) => sum + symbolBytes + levelBytes * countLevels(entry), 1);
  const bookCache = new LRUCache<string, ReadonlyMap<string, Book>>({
    maxSize: cacheBytesMax,
    sizeCalculation: sizeOf,
  });
  const fetchTimeCache = new LRUCache<string, ReadonlyMap<string, number>>({
    maxSize: cacheBytesMax / 4,
    sizeCalculation: sizeOf,
  });
  const symbolsWithoutBook = new LRUCache<string, Manifest>(booklessCacheOptions);
  watcher.onNewGeneration(({ hashes }) => {
    dropReplaced(bookCache, hashes);
    dropReplaced(fetchTimeCache, hashes);
    symbolsWithoutBook.clear();
  });

  async function readLatestPublished(manifest: Manifest, symbol: string): Promise<Book | null> {
    if (symbolsWithoutBook.get(symbol) === manifest) return null;
    const mayHave = createFileFilter('orderbooks', [symbol], { from: null, to: null });
    for (const file of sortNewestFirst(manifest.datasets.orderbooks.files.filter(mayHave))) {
      const book = (await getOrRead(bookCache, file, () => findLatestBooks(decodeBooks(files.readBytes(file))))).get(
        symbol,
      );
      if (book !== undefined) return book;
    }
    symbolsWithoutBook.set(symbol, manifest);
    return null;
  }

  /** Finds when the latest response was generated: on the day of its snapshot, or later if the book did not change. */
  async function findFetchedAt(manifest: Manifest, symbol: string, t: number): Promise<number | null> {
    const journaled = readLatestBookResponseMs(archive.state, symbol);
    if (journaled !== null) return journaled;
    const mayHave = createFileFilter('coverage', [symbol], { from: null, to: null });
    for (const file of sortNewestFirst(manifest.datasets.coverage.files.filter(mayHave))) {
      const day = parseDayStart(file.date!);
      // The upstream may date snapshots ahead of its own clock.
      if (day < floorToDay(t) - dayMs) return null;
      const at = (await getOrRead(fetchTimeCache, file, () => findFetchTimes(archive, file))).get(symbol);
      if (at !== undefined) return at;
    }
    return null;
  }

  return {
    /**
     * Reads the latest snapshot of a symbol, published or journaled; null if there is none.
     * @throws DamageError if a file that may contain it is damaged
     */
    readLatest: (symbol: string): Promise<LatestBook | null> =>
      readConsistently(archive, watcher, async (manifest) => {
        const published = await readLatestPublished(manifest, symbol);
        const journaled = readLatestBooks(archive.state, symbol);
        const [first, ...others] = journaled;
        const fresh = first && others.reduce((best, next) => (hasSnapshotPrecedence(next, best) ? next : best), first);
        // A journaled snapshot replaces a published one of the same time as a whole.
        const book = fresh !== undefined && fresh.t >= (published?.t ?? 0) ? toBook(fresh) : published;
        return book === null ? null : { ...book, fetchedAt: (await findFetchedAt(manifest, symbol, book.t)) ?? book.t };
      }),
  };
}

const countLevels = (entry: Book | number): number =>
  typeof entry === 'number' ? 0 : entry.bids.length + entry.asks.length;

const sortNewestFirst = (files: readonly PublishedFile[]): PublishedFile[] =>
  files.toSorted((a, b) => (a.date! < b.date! ? 1 : a.date! > b.date! ? -1 : 0));

async function getOrRead<T extends object>(
  cache: LRUCache<string, T>,
  { sha256 }: PublishedFile,
  read: () => T,
): Promise<T> {
  const cached = cache.get(sha256);
  if (cached !== undefined) return cached;
  // Yield to other requests between files.
  await new Promise((resolve) => setImmediate(resolve));
  const value = read();
  cache.set(sha256, value);
  return value;
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

/** When the latest response with a snapshot that a file of coverage knows was generated, by symbol. */
function findFetchTimes(archive: Archive, file: PublishedFile): Map<string, number> {
  const { orderbooks } = readCoverageFile(archive, file);
  const out = new Map<string, number>();
  // A row covers the milliseconds in which responses were generated. Adjacent rows are joined, and the last millisecond
  // counts.
  for (const [symbol, rows] of orderbooks)
    for (const { ticks, to } of rows) if (ticks > 0) out.set(symbol, Math.max(to - 1, out.get(symbol) ?? to - 1));
  return out;
}

const toBook = ({ t, bids, asks }: ObservedSnapshot): Book => ({
  t,
  bids: [...bids.prices].map((price, i) => ({ price, quantity: bids.quantities[i]! })),
  asks: [...asks.prices].map((price, i) => ({ price, quantity: asks.quantities[i]! })),
});
