import { join } from 'node:path';
import { type Archive, readCheckedManifest } from '../../archive/archive.ts';
import { type DatasetName, datasets, isDated } from '../../archive/format/datasets.ts';
import type { Manifest, PublishedFile } from '../../archive/format/manifest.ts';
import { listViewDefinitions } from '../../archive/publish/views-sql.ts';
import { openQueryEngine } from '../../archive/query/open-query.ts';
import type { ChunkValue, Query, QueryEngine } from '../../archive/query/query.ts';
import {
  buildColumnsSql,
  buildFromWhere,
  buildRowsSql,
  type DatasetSlice,
  toSqlTimestamp,
} from '../../archive/query/slice-query.ts';
import type { ManifestWatcher } from '../../archive/read/manifest-watcher.ts';
import type { VerifiedFiles } from '../../archive/read/verified-files.ts';
import { DamageError } from '../../base/errors.ts';
import type { Random } from '../../base/ports.ts';
import { generateRandomId } from '../workspace/tables.ts';
import { isListed, PinPool, type PooledPin, ReplacedError, smallFileBytesMax } from './pin-pool.ts';

/** A generation that is open for reading. The caller must close its queries. */
export interface GenerationReader {
  readonly manifest: Manifest;
  /**
   * Opens a query over files of datasets and over the views in `defined`. Calls on it must be sequential. Its `close`
   * throws DamageError if a file was modified during the query, as the rows may then be inconsistent.
   * @param defined CREATE OR REPLACE statements; macros that need no dataset are already defined
   * @throws ReplacedError, which `read` handles; DamageError if a file is not as published
   */
  openQuery(
    files: ReadonlyMap<DatasetName, readonly PublishedFile[]>,
    defined: readonly string[],
    signal: AbortSignal,
  ): Promise<Query>;
  /**
   * Runs `work` with a function that pins a file and returns a reader of its verified bytes.
   * @throws ReplacedError and DamageError as `openQuery` and its `close` do
   */
  readFiles<T>(work: (pin: PinFile) => Promise<T>, signal: AbortSignal): Promise<T>;
}

/** Pins a file of the generation until the work ends. The returned function reads the whole file into memory. */
export type PinFile = (file: PublishedFile) => Promise<() => Promise<Uint8Array>>;

/** Memory limit of DuckDB for all queries; larger sorts spill to disk. */
const memoryBytesMax = 1024 ** 3;

const threadsCount = 2;

/** Maximum number of publishes during one read. After that, missing files are treated as damage. */
const attemptsMax = 20;

/** Runs concurrent queries over published data. Each reads the verified files of one generation. */
export type HistoryReader = ReturnType<typeof openHistory>;

/** Opens the pin pool on first use, and DuckDB for the first query. */
export function openHistory(archive: Archive, current: ManifestWatcher, files: VerifiedFiles, random: Random) {
  const id = generateRandomId(random);
  let pool: PinPool | undefined;
  let openedEngine: Promise<QueryEngine> | undefined;
  const reading = new Set<Promise<void>>();

  function openEngine({ folder }: PinPool): Promise<QueryEngine> {
    const macros = listViewDefinitions(false).filter(({ needs }) => needs.length === 0);
    const scratch = join(folder, 'scratch');
    const options = { threads: threadsCount, memoryBytesMax, scratch, definitions: macros.map(({ sql }) => sql) };
    openedEngine ??= openQueryEngine(folder, options).catch((error: unknown) => {
      openedEngine = undefined;
      throw error;
    });
    return openedEngine;
  }

  return {
    /** Runs `work` on the current generation; repeats it on a newer one if a file was replaced before it was pinned. */
    async read<T>(work: (generation: GenerationReader) => Promise<T>): Promise<T> {
      pool ??= new PinPool(archive, id);
      const openedPool = pool;
      for (let attempt = 1; ; attempt++) {
        // The watcher's manifest may be slightly old: the second attempt reads it from the archive.
        const manifest = attempt === 1 ? current.getManifest() : readCheckedManifest(archive);
        openedPool.releaseStale(manifest);
        try {
          return await work({
            manifest,
            openQuery: createQueryOpener(openedPool, () => openEngine(openedPool), reading),
            readFiles: createFileReader(archive, openedPool, files, reading),
          });
        } catch (error) {
          if (!(error instanceof ReplacedError)) throw error;
          if (attempt < attemptsMax) continue;
          throw new DamageError(
            `Some files that the manifest of ${archive.layout.root} lists are missing. Run oddslake verify.`,
            {
              cause: error,
            },
          );
        }
      }
    },
    /** Waits for open queries, then closes. */
    async close() {
      // DuckDB must not be closed during a query. Readers have been aborted and are about to end.
      while (reading.size > 0) await Promise.all(reading);
      await (await openedEngine)?.close();
      pool?.close();
    },
  };
}

/** The pins of one reader. The history is not closed before they are released. */
function openPinSet(pool: PinPool, reading: Set<Promise<void>>) {
  const pins: { readonly path: string; readonly pin: PooledPin }[] = [];
  const { promise: isOver, resolve } = Promise.withResolvers<void>();
  reading.add(isOver);
  return {
    async acquire(file: PublishedFile, signal: AbortSignal): Promise<PooledPin> {
      const pin = await pool.acquire(file, signal);
      pins.push({ path: file.path, pin });
      return pin;
    },
    /** @throws DamageError if a file was modified since it was pinned, as what was read may then be inconsistent */
    requireUnmodified(): void {
      const changed = pins.find(({ pin }) => !pin.isUnmodified());
      if (changed === undefined) return;
      throw new DamageError(`${changed.path} was modified while it was read. Run oddslake verify.`);
    },
    release(): void {
      for (const { pin } of pins) pin.release();
      reading.delete(isOver);
      resolve();
    },
  };
}

const createFileReader =
  (archive: Archive, pool: PinPool, files: VerifiedFiles, reading: Set<Promise<void>>): GenerationReader['readFiles'] =>
  async (work, signal) => {
    const pins = openPinSet(pool, reading);
    const pinned = new Map<PublishedFile, Promise<PooledPin>>();
    try {
      const result = await work(async (file) => {
        signal.throwIfAborted();
        const pin = pinned.get(file) ?? pins.acquire(file, signal);
        pinned.set(file, pin);
        await pin;
        return () => readBytes(archive, files, file);
      });
      pins.requireUnmodified();
      return result;
    } finally {
      pins.release();
    }
  };

/** Reads a whole file. @throws ReplacedError if a publish has replaced it meanwhile; DamageError if it differs */
async function readBytes(archive: Archive, files: VerifiedFiles, file: PublishedFile): Promise<Uint8Array> {
  const rethrow = (error: unknown): never => {
    if (error instanceof DamageError && !isListed(archive.readManifest(), file)) throw new ReplacedError(file.path);
    throw error;
  };
  if (file.bytes <= smallFileBytesMax) {
    try {
      return files.readBytes(file);
    } catch (error) {
      return rethrow(error);
    }
  }
  const opened = await files.open(file).catch(rethrow);
  try {
    if (opened.bytes !== null) return opened.bytes;
    const bytes = new Uint8Array(file.bytes);
    for (let at = 0; at < bytes.length; ) at += await opened.read(bytes.subarray(at), at);
    return bytes;
  } finally {
    opened.close();
  }
}

const createQueryOpener =
  (pool: PinPool, openEngine: () => Promise<QueryEngine>, reading: Set<Promise<void>>): GenerationReader['openQuery'] =>
  async (files, defined, signal) => {
    const pins = openPinSet(pool, reading);
    try {
      const engine = await openEngine();
      const sources = [];
      for (const [dataset, listed] of files) {
        const paths: string[] = [];
        for (const file of listed) {
          paths.push((await pins.acquire(file, signal)).path);
        }
        sources.push({ dataset, columns: datasets[dataset].columns, dated: isDated(dataset), paths });
      }
      const query = await engine.openQuery(sources, defined);
      return {
        ...query,
        async close() {
          try {
            await query.close();
            pins.requireUnmodified();
          } finally {
            pins.release();
          }
        },
      };
    } catch (error) {
      pins.release();
      throw error;
    }
  };

/** A position in the sort order of a dataset. New generations do not change it. */
export interface RowPosition {
  readonly symbol: string;
  /** Epoch milliseconds. */
  readonly t: number;
  /** Identifier of the row, in a dataset where several rows of a symbol may have one time (`findIdColumn`). */
  readonly id?: string;
}

/** A page of rows of a dataset. The window is half-open, in epoch milliseconds; null ends are open. */
export interface RowPageRequest {
  /** Sorted by UTF-8 bytes, each once; empty for all symbols. */
  readonly symbols: readonly string[];
  readonly from: number | null;
  readonly to: number | null;
  /** The last row of the previous page; null for the first page. */
  readonly after: RowPosition | null;
  /** Number of rows, at least 1. */
  readonly limit: number;
}

/** A row by column name; times are epoch milliseconds, counts are numbers. */
export type HistoryRow = Readonly<Record<string, ChunkValue>>;

/** A part of the rows of a page; all of its rows sort before those of the next step. */
export interface ScanStep {
  readonly files: ReadonlyMap<DatasetName, readonly PublishedFile[]>;
  /** SQL statements that define views and macros over the files. */
  readonly defined: readonly string[];
  readonly slice: DatasetSlice;
}

/**
 * Reads the first rows of a slice, at most `rowsMax`. `isCut` is true if the page must end with this result, although
 * it has fewer rows than requested.
 */
export type ReadSlice<Row> = (
  query: Query,
  slice: DatasetSlice,
  rowsMax: number,
) => Promise<{ readonly rows: readonly Row[]; readonly isCut: boolean }>;

/** The rows of a page, at most `limit`, and whether there are rows after them. */
export interface FirstRows<Row> {
  readonly rows: readonly Row[];
  readonly isMore: boolean;
}

/** Reads steps in order until there is one more row than `limit`. */
export async function readFirstRows<T>(
  generation: GenerationReader,
  steps: Iterable<ScanStep>,
  limit: number,
  read: ReadSlice<T>,
  signal: AbortSignal,
): Promise<FirstRows<T>> {
  const rows: T[] = [];
  for (const { files, defined, slice } of steps) {
    const query = await generation.openQuery(files, defined, signal);
    let isCut: boolean;
    try {
      const part = await read(query, slice, limit + 1 - rows.length);
      for (const row of part.rows) rows.push(row);
      isCut = part.isCut;
    } finally {
      await query.close();
    }
    if (isCut || rows.length > limit) return { rows: rows.slice(0, limit), isMore: true };
  }
  return { rows, isMore: false };
}

/** The first rows of a slice in its sort order. */
export async function readRows(
  query: Query,
  slice: DatasetSlice,
  rowsMax: number,
  signal: AbortSignal,
): Promise<HistoryRow[]> {
  const order = slice.keys.map((key) => `"${slice.dataset}"."${key}"`).join(', ');
  const sql = `SELECT ${buildColumnsSql(slice.columns, true)} FROM ${buildFromWhere(slice, null)} ORDER BY ${order} LIMIT ${rowsMax}`;
  const rows: HistoryRow[] = [];
  for await (const chunk of query.readChunks([sql], signal, slice.condition?.values)) {
    for (let r = 0; r < chunk[0]!.length; r++)
      rows.push(Object.fromEntries(slice.columns.map(({ name }, c) => [name, chunk[c]![r]!])));
  }
  return rows;
}

interface OrderBookLevel {
  readonly price: number;
  readonly quantity: number;
}

/** A published order book snapshot. Sides are sorted best first, and may be empty. */
export interface OrderBookSnapshot {
  readonly symbol: string;
  /** Epoch milliseconds. */
  readonly t: number;
  readonly bids: readonly OrderBookLevel[];
  readonly asks: readonly OrderBookLevel[];
}

/**
 * The first complete snapshots of a slice of order books, and the number of their levels. `isCut` is true if there are
 * fewer than requested because of `levelsMax`; at least one snapshot is read.
 */
export async function readSnapshots(
  query: Query,
  slice: DatasetSlice,
  rowsMax: number,
  levelsMax: number,
  signal: AbortSignal,
): Promise<{ snapshots: readonly OrderBookSnapshot[]; levels: number; isCut: boolean }> {
  const values = slice.condition?.values;
  const counts = `SELECT symbol, epoch_ms(t)::DOUBLE AS t, count(*)::INTEGER AS n FROM ${buildFromWhere(slice, null)}
    GROUP BY ALL ORDER BY 1, 2 LIMIT ${rowsMax}`;
  let chosen: { symbol: string; t: number } | undefined;
  let levels = 0;
  let isCut = false;
  for await (const [symbols, times, sizes] of query.readChunks([counts], signal, values)) {
    for (let i = 0; i < symbols!.length && !isCut; i++) {
      if (chosen !== undefined && levels + (sizes![i] as number) > levelsMax) isCut = true;
      else {
        levels += sizes![i] as number;
        chosen = { symbol: symbols![i] as string, t: times![i] as number };
      }
    }
  }
  if (chosen === undefined) return { snapshots: [], levels, isCut };
  const last = `$${(values?.length ?? 0) + 1}`;
  const upTo = `symbol <= ${last} AND (symbol < ${last} OR t <= ${toSqlTimestamp(chosen.t)})`;
  const condition = {
    sql: slice.condition === undefined ? upTo : `(${slice.condition.sql}) AND ${upTo}`,
    values: [...(values ?? []), chosen.symbol],
  };
  const snapshots: { symbol: string; t: number; bids: OrderBookLevel[]; asks: OrderBookLevel[] }[] = [];
  const chunks = query.readChunks([buildRowsSql({ ...slice, condition }, null, true)], signal, condition.values);
  for await (const [symbols, times, sides, ranks, prices, quantities] of chunks) {
    for (let i = 0; i < symbols!.length; i++) {
      let book = snapshots.at(-1);
      if (book === undefined || book.t !== times![i] || book.symbol !== symbols![i]) {
        book = { symbol: symbols![i] as string, t: times![i] as number, bids: [], asks: [] };
        snapshots.push(book);
      }
      // An empty book is a row of level -1.
      if ((ranks![i] as number) < 0) continue;
      const level = { price: prices![i] as number, quantity: quantities![i] as number };
      (sides![i] === 'bid' ? book.bids : book.asks).push(level);
    }
  }
  return { snapshots, levels, isCut };
}
