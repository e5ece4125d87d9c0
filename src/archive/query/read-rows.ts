import type { DuckDBConnection, DuckDBDataChunk, DuckDBInstance } from '@duckdb/node-api';
import type { CellValue } from './convert-values.ts';
import { readNumberVector, readTextVector } from './read-vectors.ts';
import { buildStartSettings, quoteIdentifier, quoteLiteral } from './views.ts';

/** A file of rows and how to read it. The caller has parsed the header of a CSV file. */
export type RowFile = {
  /** Renamed columns: pairs of the new name and the file's own name. */
  readonly renames?: readonly ColumnRename[];
  /** Columns that already have one of the new names and are dropped. */
  readonly replaced?: readonly string[];
  /** Only rows that match all of these are read. They name the file's own columns. */
  readonly filters?: readonly ColumnFilter[];
} & (
  | { readonly format: 'parquet'; readonly path: string }
  | {
      readonly format: 'csv';
      readonly path: string;
      readonly compression: 'none' | 'gzip' | 'zstd';
      readonly delimiter: string;
      /** Column names from the first line, without duplicates. */
      readonly names: readonly string[];
    }
);

export type ColumnRename = readonly [name: string, own: string];

/** Selects the rows whose column has this value, as text. */
export interface ColumnFilter {
  readonly column: string;
  readonly value: string;
}

export interface RowColumn {
  readonly name: string;
  /** DuckDB's name for the type. */
  readonly type: string;
}

/** A few thousand rows of symbol, t and numbers as columns of equal length; null for NULL. */
interface RawSeriesColumns {
  readonly symbol: readonly unknown[];
  /** Milliseconds, with a fraction if the file's times are finer; or text. */
  readonly t: readonly unknown[];
  /** Original text of each `t` that is not a whole number of milliseconds. */
  readonly tText: readonly unknown[];
  /** Numbers, or text, by column. */
  readonly values: Readonly<Record<string, readonly unknown[]>>;
}

/** A CSV line that does not match the header or is not UTF-8. */
interface BadLine {
  readonly reason: string;
  readonly text: string;
}

export type EpochUnit = 's' | 'ms' | 'us' | 'ns';

/** The unit of the numeric timestamps of a file. `auto`: the caller decides for each number, which is read as text. */
export type TimeUnit = EpochUnit | 'auto';

const memoryBytesMax = 1024 ** 3;

/** What is loaded on demand: imports of saved pages do not need DuckDB. */
interface Loaded {
  readonly duckdb: typeof import('@duckdb/node-api');
  readonly toCellValue: typeof import('./convert-values.ts').toCellValue;
}

/** Opens DuckDB for reading files of rows; `scratch` is a folder for spilled data. */
export async function openRowReader(scratch: string): Promise<RowReader> {
  const [duckdb, { toCellValue }] = await Promise.all([import('@duckdb/node-api'), import('./convert-values.ts')]);
  const settings = buildStartSettings({ threads: 2, memoryBytesMax, scratch });
  const instance = await duckdb.DuckDBInstance.create(':memory:', { ...settings, temp_directory: scratch });
  return new DuckDbRowReader(instance, { duckdb, toCellValue });
}

/** Streams the rows of files in bounded memory. Methods throw DuckDB's own errors for a broken file. */
export type RowReader = Pick<DuckDbRowReader, keyof DuckDbRowReader>;

class DuckDbRowReader {
  readonly #instance: DuckDBInstance;
  readonly #loaded: Loaded;
  #connection: DuckDBConnection | undefined;

  constructor(instance: DuckDBInstance, loaded: Loaded) {
    this.#instance = instance;
    this.#loaded = loaded;
  }

  async readColumns(file: RowFile): Promise<RowColumn[]> {
    await this.#reconnect();
    const rows = await this.#getRows(`DESCRIBE SELECT * FROM ${buildSourceSql(file)}`);
    const columns = rows.map(([name, type]) => ({ name: String(name), type: String(type) }));
    const names = columns.map(({ name }) => name);
    const wideTypes = file.format === 'parquet' ? await this.#findWideDecimals(file, names) : new Map<string, string>();
    return columns.map(({ name, type }) => ({ name, type: wideTypes.get(name) ?? type }));
  }

  /**
   * Reads the columns symbol, t and those of `wanted`, which must exist; `columns` is the result of `readColumns`. `unit` is that
   * of numeric times.
   */
  async *readSeries(
    file: RowFile,
    columns: readonly RowColumn[],
    unit: TimeUnit,
    wanted: { readonly numbers: readonly string[]; readonly texts: readonly string[] },
  ): AsyncGenerator<RawSeriesColumns, void, undefined> {
    await this.#reconnect();
    const type = (name: string): string => columns.find((column) => column.name === name)?.type ?? '';
    const t = buildMillisecondsSql(type('t'), unit);
    const text = isTextTime(type('t'), unit)
      ? 'NULL'
      : `CASE WHEN (${t}) IS NULL OR (${t}) % 1 <> 0 THEN CAST("t" AS VARCHAR) END`;
    const valueNames = [...wanted.numbers, ...wanted.texts];
    const valuesSql = [
      ...wanted.numbers.map((name) => `, ${buildNumberSql(name, type(name))}`),
      ...wanted.texts.map((name) => `, ${buildTextSql({ name, type: type(name) })}`),
    ].join('');
    const names = file.format === 'parquet' ? await this.#readSymbolNames(file) : [];
    const symbol =
      names.length === 0 ? 'CAST("symbol" AS VARCHAR)' : 'enum_code(CAST(CAST("symbol" AS VARCHAR) AS symbol_name))';
    const sql = `SELECT ${symbol}, ${t}, ${text}${valuesSql} FROM ${buildSourceSql(file)}`;
    for await (const { chunk } of this.#chunks(sql)) {
      const [time, tText] = [1, 2].map((column) => this.#readColumn(chunk, column));
      const named =
        names.length === 0
          ? chunk.getColumnValues(0)
          : readNumberVector(chunk.getColumnVector(0)).map((code) => (code === null ? null : names[code]!));
      const values = valueNames.map((name, i) => [name, this.#readColumn(chunk, 3 + i)] as const);
      yield { symbol: named, t: time!, tText: tText!, values: Object.fromEntries(values) };
    }
  }

  /**
   * Reads columns as text, one array for each column, in chunks of a few thousand rows: at most `limit`, sorted by `sortedBy`,
   * otherwise in the order of the file.
   */
  async *readTexts(
    file: RowFile,
    columns: readonly RowColumn[],
    { limit, sortedBy = [] }: { readonly limit?: number; readonly sortedBy?: readonly string[] } = {},
  ): AsyncGenerator<(string | null)[][], void, undefined> {
    await this.#reconnect();
    const texts = columns.map(buildTextSql).join(', ');
    const order = sortedBy.length === 0 ? '' : ` ORDER BY ${sortedBy.map(quoteIdentifier).join(', ')}`;
    const limitSql = limit === undefined ? '' : ` LIMIT ${limit}`;
    const sql = `SELECT ${texts} FROM ${buildSourceSql(file)}${order}${limitSql}`;
    for await (const { chunk } of this.#chunks(sql))
      yield columns.map((_, c) => chunk.getColumnValues(c) as (string | null)[]);
  }

  /** The number of rows that the footer of a Parquet file states, before filters. */
  async countParquetRows({ path }: RowFile): Promise<number> {
    await this.#reconnect();
    const sql = `SELECT sum(num_rows)::DOUBLE FROM parquet_file_metadata(${quotePath({ path })})`;
    return Number((await this.#getRows(sql))[0]?.[0] ?? 0);
  }

  /** Reads rows as objects. Times are epoch ms, or wall-clock ms in columns without a zone. */
  async *readRecords(file: RowFile): AsyncGenerator<Record<string, CellValue>[], void, undefined> {
    await this.#reconnect();
    const { toCellValue } = this.#loaded;
    for await (const { chunk, names } of this.#chunks(`SELECT * FROM ${buildSourceSql(file)}`))
      yield chunk
        .getRows()
        .map((row) => Object.fromEntries(row.map((value, c) => [names[c]!, toCellValue(value)] as const)));
  }

  /** The lines that the last read skipped. */
  async *readBadLines(): AsyncGenerator<BadLine, void, undefined> {
    const hasErrorsSql = "SELECT 1 FROM duckdb_tables() WHERE table_name = 'reject_errors'";
    if (this.#connection === undefined || (await this.#getRows(hasErrorsSql)).length === 0) return;
    // A line with two faults is in the table twice.
    const sql = `SELECT any_value(csv_line), min(error_message) FROM reject_errors GROUP BY line ORDER BY line`;
    for await (const { chunk } of this.#chunks(sql))
      for (const [text, reason] of chunk.getRows())
        yield { text: String(text ?? '').replace(/^[\r\n]+|[\r\n]+$/g, ''), reason: String(reason) };
  }

  async close(): Promise<void> {
    this.#connection?.closeSync();
    this.#instance.closeSync();
  }

  /** Opens a new connection for each file, because DuckDB stores rejected lines per connection. */
  async #reconnect(): Promise<void> {
    this.#connection?.closeSync();
    this.#connection = await this.#instance.connect();
    await this.#connection.run("SET TimeZone = 'UTC'");
  }

  /** The rows of a small result. A file has been connected to. */
  async #getRows(sql: string) {
    return (await this.#connection!.runAndReadAll(sql)).getRows();
  }

  async *#chunks(sql: string) {
    const result = await this.#connection!.stream(sql);
    const names = result.columnNames();
    let next = result.fetchChunk();
    try {
      for (;;) {
        const chunk = await next;
        if (chunk === null || chunk.rowCount === 0) return;
        // DuckDB computes it while the caller uses this chunk.
        next = result.fetchChunk();
        // Its error is thrown when it is awaited.
        next.catch(() => {});
        yield { chunk, names };
      }
    } finally {
      // The connection must not be closed before.
      await next.catch(() => {});
    }
  }

  /** Not for texts that are kept, such as symbols: see `readTextVector`. */
  #readColumn(chunk: DuckDBDataChunk, column: number): readonly unknown[] {
    const { DuckDBDoubleVector, DuckDBVarCharVector } = this.#loaded.duckdb;
    const vector = chunk.getColumnVector(column);
    if (vector instanceof DuckDBDoubleVector) return readNumberVector(vector);
    return vector instanceof DuckDBVarCharVector ? readTextVector(vector) : chunk.getColumnValues(column);
  }

  /**
   * Reads the distinct symbols of a Parquet file, so that rows can be read with symbol numbers: decoding a string per
   * row would take half the time, and reading Parquet twice is cheap.
   */
  async #readSymbolNames(file: RowFile): Promise<readonly string[]> {
    const distinct = `SELECT DISTINCT CAST("symbol" AS VARCHAR) FROM ${buildSourceSql(file)} WHERE "symbol" IS NOT NULL`;
    if ((await this.#getRows(`${distinct} LIMIT 1`)).length === 0) return [];
    await this.#connection!.run(`CREATE OR REPLACE TEMP TYPE symbol_name AS ENUM (${distinct})`);
    const rows = await this.#getRows('SELECT unnest(enum_range(NULL::symbol_name))::VARCHAR');
    return rows.map(([name]) => String(name));
  }

  /**
   * Finds decimals that are too wide for DuckDB, which reads them as wrong numbers. The returned type names are not
   * accepted for any column.
   * @throws Error if the names of two columns differ only in case, of which DuckDB renames one
   */
  async #findWideDecimals(file: RowFile & { format: 'parquet' }, names: readonly string[]) {
    const rows = await this.#getRows(`SELECT name, precision FROM parquet_schema(${quotePath(file)})`);
    const own = new Set(rows.map(([name]) => String(name).toLowerCase()));
    const isRenamed = (name: string): boolean =>
      !own.has(name.toLowerCase()) && own.has(name.toLowerCase().replace(/_\d+$/, ''));
    const renamed = file.renames === undefined ? names.find(isRenamed) : undefined;
    if (renamed !== undefined)
      throw new Error(`two columns are named ${renamed.replace(/_\d+$/, '')}, or their names differ only in case`);
    const wide = rows.filter(([, digits]) => Number(digits ?? 0) > 38);
    return new Map(wide.map(([name, digits]) => [String(name), `a decimal of ${digits} digits`]));
  }
}

/** Whether a type is a wall-clock time without a zone. */
export const isLocalTime = (type: string): boolean => /^(TIMESTAMP(_S|_MS|_NS)?|DATETIME|DATE)$/.test(type);

/** Whether a column of this type can be `t`, `symbol`, or a price or size. A FLOAT holds current times in seconds to two minutes. */
export const canBeTime = (type: string): boolean =>
  isLocalTime(type) || /^(TIMESTAMP WITH TIME ZONE|VARCHAR)$/.test(type) || (isNumber(type) && type !== 'FLOAT');
export const canBeSymbol = (type: string): boolean => /^(VARCHAR|ENUM\(.*\)|UUID)$/s.test(type) || isInteger(type);
export const canBeNumber = (type: string): boolean => type === 'VARCHAR' || isNumber(type);

const isInteger = (type: string): boolean => /^U?(TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)$/.test(type);
const isNumber = (type: string): boolean => isInteger(type) || /^(FLOAT|DOUBLE|DECIMAL\(.*\))$/.test(type);

/**
 * Whether `t` is read as text. Decimals in units other than ms are scaled as text, because a double has too few digits.
 */
const isTextTime = (type: string, unit: TimeUnit): boolean =>
  type === 'VARCHAR' || (unit !== 'ms' && type.startsWith('DECIMAL')) || (unit === 'auto' && isNumber(type));

/** Milliseconds per unit (s), or units per millisecond (us, ns). */
const unitFactor = { s: 1000, ms: 1, us: 1000, ns: 1_000_000 } as const;

/**
 * Slightly more than half the distance, in ms, between adjacent doubles for current times in seconds or nanoseconds.
 */
const doubleErrorMs = 3e-4;

/**
 * SQL that converts column `t` from a type to milliseconds, with a fraction if it is finer; text stays text. `unit`
 * applies to numbers only, because time types have their own.
 */
function buildMillisecondsSql(type: string, unit: TimeUnit): string {
  if (isTextTime(type, unit)) return buildTextSql({ name: 't', type });
  if (type === 'TIMESTAMP_NS') return buildHalfDivisionSql('epoch_ns("t")', unitFactor.ns);
  if (type === 'TIMESTAMP WITH TIME ZONE') return 'CAST(epoch_us("t") AS DOUBLE) / 1000';
  if (isLocalTime(type)) return 'CAST(epoch_us(CAST("t" AS TIMESTAMP)) AS DOUBLE) / 1000';
  const isWhole = /INT/.test(type);
  if (isWhole && (unit === 'us' || unit === 'ns')) return buildHalfDivisionSql('"t"', unitFactor[unit]);
  const value = isWhole
    ? 'CASE WHEN "t" BETWEEN -9007199254740991 AND 9007199254740991 THEN CAST("t" AS DOUBLE) END'
    : 'CAST("t" AS DOUBLE)';
  if (unit === 'ms' || unit === 'auto') return value;
  const ms = unit === 's' ? `(${value}) * ${unitFactor.s}` : `(${value}) / ${unitFactor[unit]}`;
  return `CASE WHEN abs(${ms} - round(${ms})) <= ${doubleErrorMs} THEN round(${ms}) ELSE ${ms} END`;
}

/**
 * SQL for a column as text. Large floating-point numbers get all digits instead of an exponent, so that a time in
 * nanoseconds reads as a whole number.
 */
function buildTextSql({ name, type }: RowColumn): string {
  const column = quoteIdentifier(name);
  const text = `CAST(${column} AS VARCHAR)`;
  if (type !== 'DOUBLE' && type !== 'FLOAT') return text;
  return `CASE WHEN abs(${column}) BETWEEN 1e15 AND 1e21 THEN printf('%.0f', ${column}) ELSE ${text} END`;
}

/** SQL for an integer division: exact if there is no remainder, else the quotient plus 0.5. */
const buildHalfDivisionSql = (value: string, divisor: number): string =>
  `CAST(${value} // ${divisor} AS DOUBLE) + CASE WHEN ${value} % ${divisor} = 0 THEN 0 ELSE 0.5 END`;

/** SQL for a column with numbers of a type; text stays text. */
function buildNumberSql(name: string, type: string): string {
  const column = quoteIdentifier(name);
  if (type === 'VARCHAR') return column;
  // Converted through text, because dividing a long integer would round twice.
  return type.startsWith('DECIMAL') ? `CAST(CAST(${column} AS VARCHAR) AS DOUBLE)` : `CAST(${column} AS DOUBLE)`;
}

function buildSourceSql(file: RowFile): string {
  const source = buildFileSql(file);
  const { renames = [], replaced = [], filters = [] } = file;
  const conditions = filters.map(
    ({ column, value }) => `CAST(${quoteIdentifier(column)} AS VARCHAR) = ${quoteLiteral(value)}`,
  );
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
  if (renames.length === 0) return where === '' ? source : `(SELECT * FROM ${source}${where})`;
  // One column may have several names.
  const exclude = [...new Set([...replaced, ...renames.map(([, column]) => column)])].map(quoteIdentifier).join(', ');
  const renamed = renames.map(([name, column]) => `${quoteIdentifier(column)} AS ${quoteIdentifier(name)}`).join(', ');
  return `(SELECT * EXCLUDE (${exclude}), ${renamed} FROM ${source}${where})`;
}

function buildFileSql(file: RowFile): string {
  if (file.format === 'parquet') return `read_parquet(${quotePath(file)}, hive_partitioning = false)`;
  const columns = file.names.map((name) => `${quoteLiteral(name)}: 'VARCHAR'`).join(', ');
  const optionsSql = `auto_detect = false, header = true, delim = ${quoteLiteral(file.delimiter)}, quote = '"', escape = '"'`;
  return `read_csv(${quotePath(file)}, ${optionsSql}, columns = {${columns}}, compression = '${file.compression}', store_rejects = true, hive_partitioning = false)`;
}

/** Quotes a path and escapes its glob characters, which DuckDB would expand. */
const quotePath = ({ path }: Pick<RowFile, 'path'>): string => quoteLiteral(path.replace(/[*?[]/g, '[$&]'));
