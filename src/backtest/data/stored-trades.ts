import { dirname, join } from 'node:path';
import type { Archive } from '../../archive/archive.ts';
import type { Disk } from '../../archive/disk/file-system.ts';
import { openQueryEngine } from '../../archive/query/open-query.ts';
import type { Query, QueryEngine } from '../../archive/query/query.ts';
import { toSqlTimestamp } from '../../archive/query/slice-query.ts';
import { writeFileAtomically } from '../../archive/read/export-file.ts';
import { acquireScratchFolder } from '../../archive/read/pin-generation.ts';
import type { Trade } from '../../contract/trade-fields.ts';
import { tradeColumns } from '../../contract/trade-fields.ts';
import { encodeTradeTexts, type SortedTrades, selectTradesSql } from './trade-files.ts';

// Parquet files with all trades of saved backtests: one file for each, in the order of `SortedTrades`. Files never change.

/** Where the trades of a run are stored. */
export interface TradesTarget {
  /** Absolute path; an existing file is replaced, and a missing folder created. */
  readonly file: string;
  /** Maximum size in bytes, at least 0. A larger file is not written. */
  readonly bytesMax: number;
}

export interface StoredTrades {
  readonly rows: number;
  /** Null if the file would have been too large. */
  readonly file: { readonly bytes: number; readonly sha256: string } | null;
}

/**
 * Stores all trades of a run as a Parquet file, atomically.
 * @param id distinguishes drafts of one process
 */
export async function storeTrades(
  disk: Disk,
  { file, bytesMax }: TradesTarget,
  id: string,
  trades: SortedTrades,
): Promise<StoredTrades> {
  let isTooLarge = false;
  async function* limited() {
    let bytes = 0;
    for await (const chunk of trades.encode('parquet')) {
      bytes += chunk.length;
      isTooLarge = bytes > bytesMax;
      if (isTooLarge) throw new Error(`the file would be larger than ${bytesMax} bytes`);
      yield chunk;
    }
  }
  disk.makeFolder(dirname(file));
  try {
    return { rows: trades.count, file: await writeFileAtomically(disk, file, id, limited()) };
  } catch (error) {
    if (isTooLarge) return { rows: trades.count, file: null };
    throw error;
  }
}

/**
 * A position behind trades of a file: behind all that were filled before `filledAt`, and the first `skip` of those that were
 * filled at it. A page is found by the time, by which the file is sorted, so that the trades before it are not read.
 */
export interface TradePosition {
  /** Epoch milliseconds. */
  readonly filledAt: number;
  readonly skip: number;
}

/** Memory limit of DuckDB. The files are sorted, so that nothing is held. */
const memoryBytesMax = 256 * 1024 ** 2;

export type TradesReader = ReturnType<typeof openTradesReader>;

/**
 * Reads files of trades in one folder. The hash of a file must be checked before. Opens DuckDB on first use.
 * @param folder absolute path of the folder of the files
 * @param id distinguishes scratch folders of one process
 */
export function openTradesReader(archive: Archive, folder: string, id: string) {
  let opening: Promise<{ readonly engine: QueryEngine; release(): void }> | undefined;
  const reading = new Set<Promise<void>>();

  async function openEngine() {
    const { folder: scratch, release } = acquireScratchFolder(archive, id);
    try {
      // One thread keeps rows in the order of the file.
      const options = { threads: 1, memoryBytesMax, scratch: join(scratch, 'scratch') };
      return { engine: await openQueryEngine(folder, options), release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Opens a query over one file, for which `close` waits. */
  async function openFile(file: string): Promise<Query> {
    const { promise: isOver, resolve } = Promise.withResolvers<void>();
    reading.add(isOver);
    const end = (): void => {
      reading.delete(isOver);
      resolve();
    };
    try {
      opening ??= openEngine().catch((error: unknown) => {
        opening = undefined;
        throw error;
      });
      const { engine } = await opening;
      const source = { dataset: 'trades', columns: tradeColumns, dated: false, paths: [file] };
      const query = await engine.openQuery([source], []);
      return { ...query, close: () => query.close().finally(end) };
    } catch (error) {
      end();
      throw error;
    }
  }

  return {
    /** Reads up to `limit` trades; `next` is null if there are no more. */
    async readPage(file: string, after: TradePosition | null, limit: number, signal: AbortSignal) {
      const query = await openFile(file);
      try {
        const sql = `${selectTradesSql(true)}${buildAfterSql(after)} LIMIT ${limit + 1}${after === null ? '' : ` OFFSET ${after.skip}`}`;
        const trades: Trade[] = [];
        for await (const chunk of query.readChunks([sql], signal))
          for (let r = 0; r < chunk[0]!.length; r++)
            trades.push(
              Object.fromEntries(tradeColumns.map(({ name }, c) => [name, chunk[c]![r]!])) as unknown as Trade,
            );
        const page: readonly Trade[] = trades.slice(0, limit);
        return { trades: page, next: trades.length > limit ? findNextPosition(page, after) : null };
      } finally {
        await query.close();
      }
    },
    /** Opens a file as CSV. `close` waits for the chunk that is being computed. */
    async openTexts(file: string, format: 'csv' | 'csv_safe', signal: AbortSignal) {
      const query = await openFile(file);
      const chunks = encodeTradeTexts(query, selectTradesSql(false), format, signal);
      let closing: Promise<void> | undefined;
      const end = async (): Promise<void> => {
        // Nothing may be closed during a computation.
        await chunks.return(undefined).catch(() => {});
        await query.close();
      };
      return { chunks, close: () => (closing ??= end()) };
    },
    /** Waits for what is open, then closes. */
    async close(): Promise<void> {
      while (reading.size > 0) await Promise.all(reading);
      const opened = await opening;
      await opened?.engine.close();
      opened?.release();
    },
  };
}

const buildAfterSql = (after: TradePosition | null): string =>
  after === null ? '' : ` WHERE trades.filled_at >= ${toSqlTimestamp(after.filledAt)}`;

/** The position behind a page, which has at least one trade. */
function findNextPosition(page: readonly Trade[], after: TradePosition | null): TradePosition {
  const filledAt = page.at(-1)!.filled_at;
  const first = page.findIndex((trade) => trade.filled_at === filledAt);
  const skipBefore = first === 0 && after?.filledAt === filledAt ? after.skip : 0;
  return { filledAt, skip: skipBefore + page.length - first };
}
