import type { DuckDBConnection } from '@duckdb/node-api';
import type { CellValue } from './convert-values.ts';
import { buildStartSettings, quoteLiteral } from './views.ts';

/** A file of rows and how it is to be read; what a CSV's header says is found out by whoever opens it. */
export type RowFile = {
  /** Columns that are read under another name: pairs of that name and the file's own. */
  readonly renames?: readonly ColumnRename[];
  /** Columns that have such a name already, and give way. */
  readonly replaced?: readonly string[];
} & (
  | { readonly format: 'parquet'; readonly path: string }
  | {
      readonly format: 'csv';
      readonly path: string;
      readonly compression: 'none' | 'gzip' | 'zstd';
      readonly delimiter: string;
      /** As in its first line, each once. */
      readonly names: readonly string[];
    }
);

export type ColumnRename = readonly [name: string, own: string];

export interface RowColumn {
  readonly name: string;
  /** DuckDB's name of its type. */
  readonly type: string;
}

/** Some thousand rows of symbol, t, p as columns of equal length; null is NULL. */
export interface RawTickColumns {
  readonly symbol: readonly unknown[];
  /** Milliseconds as numbers, not whole where the file's time is finer; or text. */
  readonly t: readonly unknown[];
  /** The text of a `t` that is not a whole number of milliseconds. */
  readonly tText: readonly unknown[];
  /** Numbers, or text. */
  readonly p: readonly unknown[];
}

/** A line of a CSV that does not fit its header, or is not UTF-8. */
export interface BadLine {
  readonly reason: string;
  readonly text: string;
}

/** What numbers that are times count since the epoch. */
export type EpochUnit = 's' | 'ms' | 'us' | 'ns';

/** Rows of files, streamed: memory does not grow with them. Methods throw DuckDB's own errors for a broken file. */
export interface RowReader {
  readColumns(file: RowFile): Promise<RowColumn[]>;
  /** Rows whose columns symbol, t and p are there; `columns` as told by the method above. */
  readTicks(
    file: RowFile,
    columns: readonly RowColumn[],
    unit: EpochUnit,
  ): AsyncGenerator<RawTickColumns, void, undefined>;
  /** Rows as objects; times are epoch ms, or wall-clock ms in a column without a zone. */
  readRecords(file: RowFile): AsyncGenerator<Record<string, CellValue>[], void, undefined>;
  /** The lines that the last `ticks` or `records` left out. */
  readBadLines(): AsyncGenerator<BadLine, void, undefined>;
  close(): Promise<void>;
}

const memoryBytesMax = 1024 ** 3;

/** Opens DuckDB for reading files of rows; `scratch` is a folder for what does not fit in memory. */
export async function openRowReader(scratch: string): Promise<RowReader> {
  // Loaded where it is wanted: saved pages are read without it.
  const [{ DuckDBInstance }, { toCellValue }] = await Promise.all([
    import('@duckdb/node-api'),
    import('./convert-values.ts'),
  ]);
  const settings = buildStartSettings({ threads: 2, memoryBytesMax, scratch });
  const instance = await DuckDBInstance.create(':memory:', { ...settings, temp_directory: scratch });
  let connection: DuckDBConnection | undefined;
  /** A connection for each file: lines that were left out are its own. */
  const renewed = async (): Promise<DuckDBConnection> => {
    connection?.closeSync();
    connection = await instance.connect();
    await connection.run("SET TimeZone = 'UTC'");
    return connection;
  };
  async function* chunks(sql: string) {
    const result = await (connection ?? (await renewed())).stream(sql);
    for (let chunk = await result.fetchChunk(); chunk !== null && chunk.rowCount > 0; chunk = await result.fetchChunk())
      yield { chunk, names: result.columnNames() };
  }
  /**
   * The symbols of a Parquet file, for their numbers to be read in place of them: a string decoded for each row would take
   * half of the time, and Parquet can be read twice cheaply.
   */
  async function symbolNames(file: RowFile): Promise<readonly string[]> {
    const distinct = `SELECT DISTINCT CAST("symbol" AS VARCHAR) FROM ${buildSourceSql(file)} WHERE "symbol" IS NOT NULL`;
    if ((await connection!.runAndReadAll(`${distinct} LIMIT 1`)).currentRowCount === 0) return [];
    await connection!.run(`CREATE OR REPLACE TEMP TYPE symbol_name AS ENUM (${distinct})`);
    const rows = await connection!.runAndReadAll('SELECT unnest(enum_range(NULL::symbol_name))::VARCHAR');
    return rows.getRows().map(([name]) => String(name));
  }
  /** Decimals that DuckDB has no type for, and reads as wrong numbers: what they are called here is a type of nothing. */
  async function wideDecimals({ path }: RowFile & { format: 'parquet' }): Promise<Map<string, string>> {
    const sql = `SELECT name, precision FROM parquet_schema(${quotePath({ path })}) WHERE precision > 38`;
    const rows = await connection!.runAndReadAll(sql);
    return new Map(rows.getRows().map(([name, digits]) => [String(name), `a decimal of ${digits} digits`]));
  }
  return {
    async readColumns(file) {
      const reader = await (await renewed()).runAndReadAll(`DESCRIBE SELECT * FROM ${buildSourceSql(file)}`);
      const wide = file.format === 'parquet' ? await wideDecimals(file) : new Map<string, string>();
      const columns = reader.getRows().map(([name, type]) => ({ name: String(name), type: String(type) }));
      return columns.map(({ name, type }) => ({ name, type: wide.get(name) ?? type }));
    },
    async *readTicks(file, columns, unit) {
      await renewed();
      const type = (name: string): string => columns.find((column) => column.name === name)?.type ?? '';
      const t = buildMillisecondsSql(type('t'), unit);
      const text = isTextTime(type('t'), unit)
        ? 'NULL'
        : `CASE WHEN (${t}) IS NULL OR (${t}) % 1 <> 0 THEN CAST("t" AS VARCHAR) END`;
      const p = buildPriceSql(type('p'));
      const names = file.format === 'parquet' ? await symbolNames(file) : [];
      const symbol =
        names.length === 0 ? 'CAST("symbol" AS VARCHAR)' : 'enum_code(CAST(CAST("symbol" AS VARCHAR) AS symbol_name))';
      const sql = `SELECT ${symbol}, ${t}, ${text}, ${p} FROM ${buildSourceSql(file)}`;
      for await (const { chunk } of chunks(sql)) {
        const [read, time, tText, price] = [0, 1, 2, 3].map((column) => chunk.getColumnValues(column));
        const named = names.length === 0 ? read! : read!.map((code) => (code === null ? null : names[Number(code)]!));
        yield { symbol: named, t: time!, tText: tText!, p: price! };
      }
    },
    async *readRecords(file) {
      await renewed();
      for await (const { chunk, names } of chunks(`SELECT * FROM ${buildSourceSql(file)}`)) {
        yield chunk
          .getRows()
          .map((row) => Object.fromEntries(row.map((value, c) => [names[c]!, toCellValue(value)] as const)));
      }
    },
    async *readBadLines() {
      const has = "SELECT 1 FROM duckdb_tables() WHERE table_name = 'reject_errors'";
      if (connection === undefined || (await connection.runAndReadAll(has)).currentRowCount === 0) return;
      // A line with two faults stands there twice.
      const sql = `SELECT any_value(csv_line), min(error_message) FROM reject_errors GROUP BY line ORDER BY line`;
      for await (const { chunk } of chunks(sql)) {
        for (const [text, reason] of chunk.getRows())
          yield { text: String(text ?? '').replace(/^[\r\n]+|[\r\n]+$/g, ''), reason: String(reason) };
      }
    },
    async close() {
      connection?.closeSync();
      instance.closeSync();
    },
  };
}

/** Types of `t` that are wall-clock times of some zone. */
export const isLocalTime = (type: string): boolean => /^(TIMESTAMP(_S|_MS|_NS)?|DATETIME|DATE)$/.test(type);

/** Types that a `t` may have, and a `p`. */
export const canBeTime = (type: string): boolean =>
  isLocalTime(type) || /^(TIMESTAMP WITH TIME ZONE|VARCHAR)$/.test(type) || isNumber(type);
export const canBeSymbol = (type: string): boolean => /^(VARCHAR|ENUM\(.*\)|UUID)$/s.test(type) || isInteger(type);
export const canBePrice = (type: string): boolean => type === 'VARCHAR' || isNumber(type);

const isInteger = (type: string): boolean => /^U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)$/.test(type);
const isNumber = (type: string): boolean => isInteger(type) || /^(FLOAT|DOUBLE|DECIMAL\(.*\))$/.test(type);

/** Whether a `t` is read as text: decimals of other units by their digits, since a double has too few of them. */
const isTextTime = (type: string, unit: EpochUnit): boolean =>
  type === 'VARCHAR' || (unit !== 'ms' && type.startsWith('DECIMAL'));

/** Milliseconds in a unit, or units in a millisecond. */
const unitFactor = { s: 1000, ms: 1, us: 1000, ns: 1_000_000 } as const;

/** Half of the distance between doubles that count seconds or nanoseconds of these years, and some, in ms. */
const doubleErrorMs = 3e-4;

/**
 * SQL for a column `t` of some type in milliseconds, not whole where it is finer; text stays text. `unit`: of numbers. Times
 * of a wall clock or an instant have their own.
 */
function buildMillisecondsSql(type: string, unit: EpochUnit): string {
  if (isTextTime(type, unit)) return 'CAST("t" AS VARCHAR)';
  if (type === 'TIMESTAMP_NS') return buildHalfDivisionSql('epoch_ns("t")', unitFactor.ns);
  if (type === 'TIMESTAMP WITH TIME ZONE') return 'CAST(epoch_us("t") AS DOUBLE) / 1000';
  if (isLocalTime(type)) return 'CAST(epoch_us(CAST("t" AS TIMESTAMP)) AS DOUBLE) / 1000';
  const isWhole = /INT/.test(type);
  if (isWhole && (unit === 'us' || unit === 'ns')) return buildHalfDivisionSql('"t"', unitFactor[unit]);
  const value = isWhole
    ? 'CASE WHEN "t" BETWEEN -9007199254740991 AND 9007199254740991 THEN CAST("t" AS DOUBLE) END'
    : 'CAST("t" AS DOUBLE)';
  if (unit === 'ms') return value;
  const ms = unit === 's' ? `(${value}) * ${unitFactor.s}` : `(${value}) / ${unitFactor[unit]}`;
  return `CASE WHEN abs(${ms} - round(${ms})) <= ${doubleErrorMs} THEN round(${ms}) ELSE ${ms} END`;
}

/** SQL for an integer divided: exact where it is whole, and a half more where it is not. */
const buildHalfDivisionSql = (value: string, by: number): string =>
  `CAST(${value} // ${by} AS DOUBLE) + CASE WHEN ${value} % ${by} = 0 THEN 0 ELSE 0.5 END`;

/** SQL for a column `p` of some type; text stays text. */
function buildPriceSql(type: string): string {
  if (type === 'VARCHAR') return '"p"';
  // By its digits: a division of a long integer would round twice.
  return type.startsWith('DECIMAL') ? 'CAST(CAST("p" AS VARCHAR) AS DOUBLE)' : 'CAST("p" AS DOUBLE)';
}

function buildSourceSql(file: RowFile): string {
  const own = buildFileSql(file);
  const { renames = [], replaced = [] } = file;
  if (renames.length === 0) return own;
  const exclude = replaced.length === 0 ? '' : ` EXCLUDE (${replaced.map(quoteColumnName).join(', ')})`;
  const rename = renames.map(([name, column]) => `${quoteColumnName(column)} AS ${quoteColumnName(name)}`).join(', ');
  return `(SELECT *${exclude} RENAME (${rename}) FROM ${own})`;
}

const quoteColumnName = (name: string): string => `"${name.replaceAll('"', '""')}"`;

function buildFileSql(file: RowFile): string {
  if (file.format === 'parquet') return `read_parquet(${quotePath(file)}, hive_partitioning = false)`;
  const columns = file.names.map((name) => `${quoteLiteral(name)}: 'VARCHAR'`).join(', ');
  const how = `auto_detect = false, header = true, delim = ${quoteLiteral(file.delimiter)}, quote = '"', escape = '"'`;
  return `read_csv(${quotePath(file)}, ${how}, columns = {${columns}}, compression = '${file.compression}', store_rejects = true, hive_partitioning = false)`;
}

/** The file of just this name: DuckDB takes what a shell would take for a pattern for one. */
const quotePath = ({ path }: Pick<RowFile, 'path'>): string => quoteLiteral(path.replace(/[*?[]/g, '[$&]'));
