import { basename } from 'node:path/posix';
import { LRUCache } from 'lru-cache';
import { readCoverage } from '../archive/generation/day-tables.ts';
import { dayPath } from '../archive/layout.ts';
import type { Manifest, PublishedFile } from '../archive/manifest.ts';
import type { Archive } from '../archive/open-archive.ts';
import { decodeBooks } from '../archive/parquet/books-file.ts';
import type { Level } from '../core/book.ts';
import { askSide, type BookColumns, outranks, type SeenSnapshot } from '../core/merge-books.ts';
import { partOf } from '../core/partition.ts';
import { dayStart } from '../core/time.ts';
import { dayFloor, dayMs } from '../core/window.ts';
import { latestJournaledAnswer, latestJournaledBooks } from '../state/journal-books.ts';
import { readSettled } from './consistent-read.ts';
import type { VerifiedFiles } from './files/verified-files.ts';
import type { Current } from './manifest-watcher.ts';

/** The order book of a symbol as last had; levels best first, both sides without any in an empty book. */
export interface LatestBook {
  /** Epoch milliseconds. */
  readonly t: number;
  readonly bids: readonly Level[];
  readonly asks: readonly Level[];
  /** When the latest answer that brought a snapshot was generated, epoch ms: what the archive's coverage has of it. */
  readonly answeredAt: number;
}

export interface OrderBooks {
  /**
   * The latest snapshot of a symbol, published or not; null where none was ever had.
   * @throws DamageError where a file that it may be in is damaged
   */
  latest(symbol: string): Promise<LatestBook | null>;
}

type Book = Omit<LatestBook, 'answeredAt'>;

/** What is kept of files that were looked through, in bytes, roughly. */
const keptBytesMax = 64 * 1024 ** 2;
const levelBytes = 80;
const symbolBytes = 200;
/** Symbols that are known to have no published book. */
const bookless = { max: 100_000 };

/** The latest order books of an archive, whoever else writes it meanwhile. */
export function openOrderBooks(archive: Archive, current: Current, files: VerifiedFiles): OrderBooks {
  // By the hash of a file, so that a replaced one falls out by itself.
  const sizeOf = (entries: ReadonlyMap<string, Book | number>): number =>
    [...entries.values()].reduce<number>((sum, entry) => sum + symbolBytes + levelBytes * levelsIn(entry), 1);
  const books = new LRUCache<string, ReadonlyMap<string, Book>>({ maxSize: keptBytesMax, sizeCalculation: sizeOf });
  const answers = new LRUCache<string, ReadonlyMap<string, number>>({
    maxSize: keptBytesMax / 4,
    sizeCalculation: sizeOf,
  });
  const none = new LRUCache<string, number>(bookless);

  async function latestPublished(manifest: Manifest, symbol: string): Promise<Book | null> {
    if (none.get(symbol) === manifest.generation) return null;
    const part = partOf(symbol, manifest.parts);
    const ofPart = manifest.datasets.orderbooks.files.filter((file) => file.path.endsWith(fileOf(part)));
    for (const file of newestFirst(ofPart)) {
      const found = (await keptOr(books, file, () => latestIn(decodeBooks(files.bytes(file))))).get(symbol);
      if (found !== undefined) return found;
    }
    none.set(symbol, manifest.generation);
    return null;
  }

  /** An answer comes on the day of its snapshot or, where the book stood still, later. */
  async function answeredAt(manifest: Manifest, symbol: string, t: number): Promise<number | null> {
    const waiting = latestJournaledAnswer(archive.state, symbol);
    if (waiting !== null) return waiting;
    for (const file of newestFirst(manifest.datasets.coverage.files)) {
      const day = dayStart(file.date!);
      // A service's clock may be ahead of its own books.
      if (day < dayFloor(t) - dayMs) return null;
      const at = (await keptOr(answers, file, () => answersIn(archive, manifest, day))).get(symbol);
      if (at !== undefined) return at;
    }
    return null;
  }

  return {
    latest: (symbol) =>
      readSettled(archive, current, async (manifest) => {
        const published = await latestPublished(manifest, symbol);
        const waiting = latestJournaledBooks(archive.state, symbol);
        const [first, ...others] = waiting;
        const fresh = first && others.reduce((best, next) => (outranks(next, best) ? next : best), first);
        // A journaled one replaces a published one of its moment whole.
        const book = fresh !== undefined && fresh.t >= (published?.t ?? 0) ? bookOf(fresh) : published;
        return book === null ? null : { ...book, answeredAt: (await answeredAt(manifest, symbol, book.t)) ?? book.t };
      }),
  };
}

const levelsIn = (entry: Book | number): number =>
  typeof entry === 'number' ? 0 : entry.bids.length + entry.asks.length;

/** How the path of a part ends, whatever its day. */
const fileOf = (part: number): string => basename(dayPath('orderbooks', 0, part));

const newestFirst = (files: readonly PublishedFile[]): PublishedFile[] =>
  files.toSorted((a, b) => (a.date! < b.date! ? 1 : a.date! > b.date! ? -1 : 0));

async function keptOr<T extends object>(
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
function latestIn({ symbols, offsets, t, side, level, price, quantity }: BookColumns): Map<string, Book> {
  return new Map(
    symbols.map((symbol, i) => {
      const last = t[offsets[i + 1]! - 1]!;
      const [bids, asks]: [Level[], Level[]] = [[], []];
      for (let row = offsets[i + 1]! - 1; row >= offsets[i]! && t[row] === last; row--)
        if (level[row]! >= 0)
          (side[row] === askSide ? asks : bids).push({ price: price[row]!, quantity: quantity[row]! });
      return [symbol, { t: last, bids: bids.reverse(), asks: asks.reverse() }];
    }),
  );
}

/** When the latest answer of a day that brought a snapshot was generated, by symbol. */
function answersIn(archive: Archive, manifest: Manifest, day: number): Map<string, number> {
  const { orderbooks } = readCoverage(archive, manifest, day);
  const out = new Map<string, number>();
  // A row covers the milliseconds in which answers were generated: adjoining ones are joined, and the last counts.
  for (const [symbol, rows] of orderbooks)
    for (const { ticks, to } of rows) if (ticks > 0) out.set(symbol, Math.max(to - 1, out.get(symbol) ?? to - 1));
  return out;
}

const bookOf = ({ t, bids, asks }: SeenSnapshot): Book => ({
  t,
  bids: [...bids.prices].map((price, i) => ({ price, quantity: bids.quantities[i]! })),
  asks: [...asks.prices].map((price, i) => ({ price, quantity: asks.quantities[i]! })),
});
