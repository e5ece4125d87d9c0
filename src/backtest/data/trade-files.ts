import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import type { Column } from '../../archive/format/datasets.ts';
import { type CellValue, encodeRows } from '../../archive/parquet/rows.ts';
import { openQuery } from '../../archive/query/open-query.ts';
import type { Query } from '../../archive/query/query.ts';
import { quoteIdentifier } from '../../archive/query/views.ts';
import { type Trade, tradeColumns } from '../../contract/trade-fields.ts';
import { memoryBytesMax } from './batches.ts';

// All trades of a run. Each batch writes its trades to temporary files, in the order of its symbols; DuckDB then sorts them,
// on disk if they do not fit in memory.

/** Position of a trade among those of its symbol, which orders the parts of one position. Only in the temporary files. */
const sequenceColumn: Column = { name: 'seq', type: 'int32', nullable: false, meaning: 'order within the symbol' };

/** Rows of one temporary file, which are held in memory. */
const spilledRowsMax = 50_000;

/**
 * Writes trades to temporary files.
 * @param prefix path of the files without their number and extension; the folder is created if needed
 */
export function openTradeSpill(prefix: string, rowsMax = spilledRowsMax) {
  let rows: CellValue[][] = [];
  let files = 0;
  const flush = (): void => {
    if (rows.length === 0) return;
    mkdirSync(dirname(prefix), { recursive: true });
    writeFileSync(`${prefix}-${files++}.parquet`, encodeRows([...tradeColumns, sequenceColumn], rows));
    rows = [];
  };
  return {
    /** Adds all trades of one symbol. */
    add(trades: readonly Trade[]): void {
      for (const [seq, trade] of trades.entries()) {
        rows.push([...tradeColumns.map(({ name }) => trade[name]), seq]);
        if (rows.length >= rowsMax) flush();
      }
    },
    /** Writes what is still in memory. */
    end: flush,
  };
}

/** Formats of WriteFormat. */
export type TradesFormat = 'parquet' | 'csv' | 'csv_safe';

/** The format of a file by its extension; null for an unknown one. */
export function inferTradesFormat(path: string): 'parquet' | 'csv' | null {
  const extension = extname(path).toLowerCase();
  return extension === '.parquet' ? 'parquet' : extension === '.csv' ? 'csv' : null;
}

/** All trades of a run, sorted by fill time, symbol and rule; the parts of a position in the order of their exits. */
export interface SortedTrades {
  readonly count: number;
  /** Encodes the trades as one file. Memory does not grow with their number. */
  encode(format: TradesFormat): AsyncGenerator<Uint8Array>;
}

/**
 * Opens the trades of a folder of temporary files while `work` runs.
 * @param scratch folder of DuckDB's own temporary files
 */
export async function withSortedTrades<T>(
  folder: string,
  scratch: string,
  signal: AbortSignal,
  work: (trades: SortedTrades) => Promise<T>,
): Promise<T> {
  const paths = existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : [];
  const source = { dataset: 'trades', columns: [...tradeColumns, sequenceColumn], dated: false, paths };
  const query = await openQuery([source], { threads: 2, memoryBytesMax, scratch });
  try {
    const [total] = await query.readRows('SELECT count(*)::DOUBLE AS n FROM trades', [], signal);
    return await work({
      count: Number(total!.n),
      encode: (format) =>
        format === 'parquet'
          ? encodeTradeRows(query, buildSortedSql(true), signal)
          : encodeTradeTexts(query, buildSortedSql(false), format, signal),
    });
  } finally {
    await query.close();
  }
}

async function* encodeTradeRows(query: Query, sql: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  // Arrow takes longer to load than all other modules of a thread, and most runs store no trades.
  const { streamParquet } = await import('../../archive/parquet/streaming-writer.ts');
  yield* streamParquet(tradeColumns, query.readChunks([sql], signal), () => ({ deltaColumns: [] }));
}

/** Encodes the rows of a statement of `selectTradesSql` as CSV. */
export async function* encodeTradeTexts(
  query: Query,
  sql: string,
  format: 'csv' | 'csv_safe',
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  for await (const text of query.readTexts([sql], format, signal)) if (text !== '') yield Buffer.from(text, 'utf8');
}

// Qualified: the names alone would be those of the selected columns.
const buildSortedSql = (isNumeric: boolean): string =>
  `${selectTradesSql(isNumeric)} ORDER BY trades.filled_at, trades.symbol, trades."rule", trades.seq`;

/** @param isNumeric whether times are epoch milliseconds, as the Parquet writer takes them */
export function selectTradesSql(isNumeric: boolean): string {
  const columns = tradeColumns.map(({ name, type }) => {
    const quoted = quoteIdentifier(name);
    return isNumeric && type === 'timestamp' ? `epoch_ms(${quoted})::DOUBLE AS ${quoted}` : quoted;
  });
  return `SELECT ${columns.join(', ')} FROM trades`;
}
