import { join } from 'node:path';
import { type DatasetName, datasets } from '../../archive/format/datasets.ts';
import type { Manifest, PublishedFile } from '../../archive/format/manifest.ts';
import { type Archive, readCheckedManifest } from '../../archive/open-archive.ts';
import { listViewDefinitions } from '../../archive/publish/views-sql.ts';
import type { QueryEngine } from '../../archive/query/database.ts';
import { openQueryEngine, type Query } from '../../archive/query/query.ts';
import type { ChunkValue } from '../../archive/query/results.ts';
import {
  buildColumnsSql,
  buildFromWhere,
  buildRowsSql,
  type DatasetSlice,
  toSqlTimestamp,
} from '../../archive/query/slice-query.ts';
import type { ManifestWatcher } from '../../archive/read/manifest-watcher.ts';
import { DamageError } from '../../base/errors.ts';
import type { Random } from '../../base/ports.ts';
import { openPinPool, type PinPool, type PooledPin, ReplacedError } from './pin-pool.ts';

/** Queries over what is published, many at once, each over one generation whose files were checked. */
export interface HistoryReader {
  /** Runs `work` over the current generation; over a newer one where a file of it was replaced before it could be had. */
  read<T>(work: (generation: GenerationReader) => Promise<T>): Promise<T>;
  /** Waits for queries that are still open. */
  close(): Promise<void>;
}

/** One generation while it is read; whoever reads closes it. */
export interface GenerationReader {
  readonly manifest: Manifest;
  /**
   * Opens a query over some files of datasets, and `defined` over those. Its calls come one after another; its `close`
   * throws DamageError where a file was written into meanwhile: what was read may be a mixture.
   * @param defined CREATE OR REPLACE statements; macros that need no dataset are there already
   * @throws ReplacedError, for `reading`; DamageError where a file is not as published
   */
  openQuery(
    files: ReadonlyMap<DatasetName, readonly PublishedFile[]>,
    defined: readonly string[],
    signal: AbortSignal,
  ): Promise<Query>;
}

/** What DuckDB may hold in memory, all queries together; what needs more is sorted on disk. */
const memoryBytesMax = 1024 ** 3;

const threadsCount = 2;

/** Publishes that may go on beside one reading, before missing files are taken for damage. */
const attemptsMax = 20;

/** Opens DuckDB and the shelf on first use. */
export function openHistory(archive: Archive, current: ManifestWatcher, random: Random): HistoryReader {
  const id = Math.floor(random() * 36 ** 8).toString(36);
  let opened: Promise<{ shelf: PinPool; engine: QueryEngine }> | undefined;
  const reading = new Set<Promise<void>>();

  async function open() {
    const shelf = openPinPool(archive, id);
    const macros = listViewDefinitions(false).filter(({ needs }) => needs.length === 0);
    const scratch = join(shelf.folder, 'scratch');
    const options = { threads: threadsCount, memoryBytesMax, scratch, definitions: macros.map(({ sql }) => sql) };
    return { shelf, engine: await openQueryEngine(shelf.folder, options) };
  }

  return {
    async read(work) {
      opened ??= open().catch((error: unknown) => {
        opened = undefined;
        throw error;
      });
      const { shelf, engine } = await opened;
      for (let attempt = 1; ; attempt++) {
        // What is remembered may be a moment old: a second look goes to the archive itself.
        const manifest = attempt === 1 ? current.getManifest() : readCheckedManifest(archive);
        shelf.releaseStale(manifest);
        try {
          return await work(createGenerationReader(manifest, shelf, engine, reading));
        } catch (error) {
          if (!(error instanceof ReplacedError)) throw error;
          if (attempt < attemptsMax) continue;
          throw new DamageError(`${archive.layout.root} lacks files that its manifest lists. Run oddslake verify.`, {
            cause: error,
          });
        }
      }
    },
    async close() {
      if (opened === undefined) return;
      const { shelf, engine } = await opened;
      // DuckDB must not be closed under a query: whoever reads has been told to stop, and is about to.
      while (reading.size > 0) await Promise.all(reading);
      await engine.close();
      shelf.close();
    },
  };
}

const createGenerationReader = (
  manifest: Manifest,
  shelf: PinPool,
  engine: QueryEngine,
  reading: Set<Promise<void>>,
): GenerationReader => ({
  manifest,
  async openQuery(files, defined, signal) {
    const taken: PooledPin[] = [];
    const { promise: isOver, resolve } = Promise.withResolvers<void>();
    reading.add(isOver);
    const giveAll = (): void => {
      for (const one of taken) one.release();
      reading.delete(isOver);
      resolve();
    };
    try {
      const sources = [];
      for (const [dataset, listed] of files) {
        const paths: string[] = [];
        for (const file of listed) {
          const one = await shelf.acquire(file, signal);
          taken.push(one);
          paths.push(one.path);
        }
        sources.push({ dataset, columns: datasets[dataset], dated: dataset !== 'symbols', paths });
      }
      const query = await engine.openQuery(sources, defined);
      return {
        ...query,
        async close() {
          try {
            await query.close();
            const changed = taken.findIndex((one) => !one.isUnmodified());
            if (changed < 0) return;
            const { path } = [...files.values()].flat()[changed]!;
            throw new DamageError(`${path} was written into while it was read. Run oddslake verify.`);
          } finally {
            giveAll();
          }
        },
      };
    } catch (error) {
      giveAll();
      throw error;
    }
  },
});

/** A row's place in the order of its dataset, which stays where it is as new generations come in. */
export interface RowPosition {
  readonly symbol: string;
  /** Epoch milliseconds. */
  readonly t: number;
}

/** Some rows of a dataset from a place on. Ends of the window are epoch milliseconds, half-open, null where open. */
export interface RowPageRequest {
  /** Null: all of them. */
  readonly symbol: string | null;
  readonly from: number | null;
  readonly to: number | null;
  /** The last row of the page before; null for the first page. */
  readonly after: RowPosition | null;
  /** Rows, at least 1. */
  readonly limit: number;
}

/** A row by its columns' names: times are epoch milliseconds, counts numbers. */
export type HistoryRow = Readonly<Record<string, ChunkValue>>;

export interface HistoryPage<T> {
  readonly rows: readonly T[];
  /** The place of the last row where there are more. */
  readonly next: RowPosition | null;
  readonly manifest: Manifest;
}

/** A part of what a page may hold, all of it before all of the next part's. */
export interface ScanStep {
  readonly files: ReadonlyMap<DatasetName, readonly PublishedFile[]>;
  /** Views and macros over the files. */
  readonly defined: readonly string[];
  readonly slice: DatasetSlice;
}

/**
 * Reads steps one after another until there is a row more than `limit`; what `read` does with a step, it does for the
 * rows that are still wanted, that one included.
 */
export async function readFirstRows<T>(
  generation: GenerationReader,
  steps: Iterable<ScanStep>,
  limit: number,
  read: (query: Query, slice: DatasetSlice, wanted: number) => Promise<readonly T[]>,
  signal: AbortSignal,
): Promise<{ rows: readonly T[]; isMore: boolean }> {
  const rows: T[] = [];
  for (const { files, defined, slice } of steps) {
    const query = await generation.openQuery(files, defined, signal);
    try {
      for (const row of await read(query, slice, limit + 1 - rows.length)) rows.push(row);
    } finally {
      await query.close();
    }
    if (rows.length > limit) return { rows: rows.slice(0, limit), isMore: true };
  }
  return { rows, isMore: false };
}

/** The first rows of a slice, in its order. */
export async function readRows(
  query: Query,
  slice: DatasetSlice,
  wanted: number,
  signal: AbortSignal,
): Promise<HistoryRow[]> {
  const order = slice.keys.map((key) => `"${slice.dataset}"."${key}"`).join(', ');
  const sql = `SELECT ${buildColumnsSql(slice.columns, true)} FROM ${buildFromWhere(slice, null)} ORDER BY ${order} LIMIT ${wanted}`;
  const rows: HistoryRow[] = [];
  for await (const chunk of query.readChunks([sql], signal, slice.condition?.values)) {
    for (let r = 0; r < chunk[0]!.length; r++)
      rows.push(Object.fromEntries(slice.columns.map(({ name }, c) => [name, chunk[c]![r]!])));
  }
  return rows;
}

export interface OrderBookLevel {
  readonly price: number;
  readonly quantity: number;
}

/** A snapshot as it was published; sides best first, empty where there was nothing. */
export interface OrderBookSnapshot {
  readonly symbol: string;
  /** Epoch milliseconds. */
  readonly t: number;
  readonly bids: readonly OrderBookLevel[];
  readonly asks: readonly OrderBookLevel[];
}

/**
 * The first snapshots of a slice of order books, whole ones; `isCut` where they hold so many levels that fewer are
 * told than wanted, at least one.
 */
export async function readSnapshots(
  query: Query,
  slice: DatasetSlice,
  wanted: number,
  levelsMax: number,
  signal: AbortSignal,
): Promise<{ snapshots: readonly OrderBookSnapshot[]; levels: number; isCut: boolean }> {
  const values = slice.condition?.values;
  const counts = `SELECT symbol, epoch_ms(t)::DOUBLE AS t, count(*)::INTEGER AS n FROM ${buildFromWhere(slice, null)}
    GROUP BY ALL ORDER BY 1, 2 LIMIT ${wanted}`;
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
