import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  type DuckDBConnection,
  DuckDBDecimalValue,
  DuckDBListValue,
  type DuckDBPreparedStatement,
  type DuckDBResult,
  type DuckDBResultReader,
  DuckDBTypeId,
  DuckDBUnionValue,
  type DuckDBValue,
  StatementType,
} from '@duckdb/node-api';
import { UsageError } from '../../base/errors.ts';
import { type QueryParameter, toJson, toText } from './convert-values.ts';
import type { Chunk, ChunkValue, ResultTable } from './query.ts';
import { prepareRead } from './statement.ts';
import { quoteLiteral } from './views.ts';

/** Streams the rows of statements, in order. */
export async function* streamChunks(
  connection: DuckDBConnection,
  statements: readonly string[],
  values: readonly QueryParameter[],
): AsyncGenerator<Chunk> {
  for (const sql of statements) {
    const result = await runStreaming(connection, sql, values);
    for (let chunk = await result.fetchChunk(); chunk !== null && chunk.rowCount > 0; chunk = await result.fetchChunk())
      yield Array.from({ length: result.columnCount }, (_, c) => chunk!.getColumnValues(c).map(toChunkValue));
  }
}

function toChunkValue(value: DuckDBValue): ChunkValue {
  if (value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
    return value;
  if (value instanceof DuckDBListValue) return value.items as string[];
  throw new TypeError(`a value of a type that chunks do not support: ${value}`);
}

export async function* streamTexts(
  connection: DuckDBConnection,
  statements: readonly string[],
  format: TextFormat,
  values: readonly QueryParameter[],
): AsyncGenerator<string> {
  async function* results() {
    for (const sql of statements) yield await runStreaming(connection, sql, values);
  }
  yield* formatResults(results(), format);
}

async function runStreaming(connection: DuckDBConnection, sql: string, values: readonly QueryParameter[]) {
  const { prepared } = await prepareRead(connection, sql);
  if (values.length > 0) prepared.bind([...values]);
  return await prepared.stream();
}

/** Reads the first rows of a result, at most `rowsMax`, as text for display. Computes no more rows than needed. */
export async function readFirstRows(connection: DuckDBConnection, sql: string, rowsMax: number): Promise<ResultTable> {
  const { prepared, isExplain } = await prepareRead(connection, sql);
  const reader = await prepared.streamAndReadUntil(rowsMax + 1);
  const count = Math.min(rowsMax, reader.currentRowCount);
  const names = reader.deduplicatedColumnNames();
  const columns = names.map((_, c) => trimColumn(Array.from({ length: count }, (_, r) => toText(reader.value(c, r)))));
  return {
    columns: names.map((name, c) => ({ name, kind: getColumnKind(reader, c) })),
    rows: Array.from({ length: count }, (_, r) => columns.map((column) => column[r]!)),
    isComplete: reader.currentRowCount <= rowsMax,
    plan: isExplain ? columns.at(-1)!.join('\n') : null,
  };
}

const numberTypes: ReadonlySet<DuckDBTypeId> = new Set([
  DuckDBTypeId.TINYINT,
  DuckDBTypeId.SMALLINT,
  DuckDBTypeId.INTEGER,
  DuckDBTypeId.BIGINT,
  DuckDBTypeId.HUGEINT,
  DuckDBTypeId.UTINYINT,
  DuckDBTypeId.USMALLINT,
  DuckDBTypeId.UINTEGER,
  DuckDBTypeId.UBIGINT,
  DuckDBTypeId.UHUGEINT,
  DuckDBTypeId.FLOAT,
  DuckDBTypeId.DOUBLE,
  DuckDBTypeId.DECIMAL,
  DuckDBTypeId.BIGNUM,
]);

const textTypes: ReadonlySet<DuckDBTypeId> = new Set([
  DuckDBTypeId.VARCHAR,
  DuckDBTypeId.BLOB,
  DuckDBTypeId.LIST,
  DuckDBTypeId.ARRAY,
  DuckDBTypeId.STRUCT,
  DuckDBTypeId.MAP,
  DuckDBTypeId.UNION,
]);

function getColumnKind(reader: DuckDBResultReader, column: number): 'number' | 'text' | 'fixed' {
  const type = reader.columnTypeId(column);
  if (numberTypes.has(type)) return 'number';
  return textTypes.has(type) ? 'text' : 'fixed';
}

/** Removes `.000` from a column of times in whole seconds, for readability. */
function trimColumn(column: readonly (string | null)[]): readonly (string | null)[] {
  const wholeSeconds = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000(Z?)$/;
  if (!column.every((text) => text === null || wholeSeconds.test(text))) return column;
  return column.map((text) => text?.replace(/\.000(Z?)$/, '$1') ?? null);
}

type TextFormat = 'csv' | 'csv_safe' | 'json' | 'ndjson';

interface RowFormatter {
  readonly head: string;
  prefix(isFirst: boolean): string;
  row(values: readonly DuckDBValue[]): string;
  tail(isEmpty: boolean): string;
}

/**
 * Formats at least one result, all with the same columns, as one text. Yields one piece per DuckDB chunk of about 2,048
 * rows.
 */
async function* formatResults(
  results: AsyncIterable<DuckDBResult> | Iterable<DuckDBResult>,
  format: TextFormat,
): AsyncGenerator<string, void, undefined> {
  let formatter: RowFormatter | undefined;
  let isEmpty = true;
  let text = '';
  for await (const result of results) {
    if (formatter === undefined) {
      const names = result.deduplicatedColumnNames();
      formatter =
        format === 'csv' || format === 'csv_safe'
          ? createCsvFormatter(names, format === 'csv_safe')
          : createJsonFormatter(names, format === 'json');
      text = formatter.head;
    }
    for await (const rows of readRowBatches(result)) {
      for (const values of rows) {
        text += formatter.prefix(isEmpty) + formatter.row(values);
        isEmpty = false;
      }
      yield text;
      text = '';
    }
  }
  yield text + (formatter?.tail(isEmpty) ?? '');
}

/** Reads the rows of a result, one chunk at a time. The array of a row is reused for the next row. */
async function* readRowBatches(
  result: DuckDBResult,
): AsyncGenerator<Iterable<readonly DuckDBValue[]>, void, undefined> {
  const columns = result.columnCount;
  for (;;) {
    const chunk = await result.fetchChunk();
    if (chunk === null || chunk.rowCount === 0) return;
    const count = chunk.rowCount;
    const vectors = Array.from({ length: columns }, (_, c) => chunk.getColumnVector(c));
    const values = new Array<DuckDBValue>(columns);
    yield (function* () {
      for (let r = 0; r < count; r++) {
        for (let c = 0; c < columns; c++) values[c] = vectors[c]!.getItem(r);
        yield values;
      }
    })();
  }
}

/**
 * RFC 4180 with LF line endings. NULL is empty, an empty string is `""`.
 * @param isSafe whether spreadsheets must not evaluate any field as a formula
 */
function createCsvFormatter(names: readonly string[], isSafe: boolean): RowFormatter {
  const line = (texts: readonly (string | null)[]): string => `${texts.map(toCsvField).join(',')}\n`;
  const toCell = isSafe ? toSafeText : toText;
  return {
    head: line(names.map(toCell)),
    prefix: () => '',
    row: (values) => line(values.map(toCell)),
    tail: () => '',
  };
}

/**
 * The text of a value; unless it is a number, with an apostrophe if a spreadsheet would take it for a formula.
 * https://owasp.org/www-community/attacks/CSV_Injection
 */
function toSafeText(value: DuckDBValue): string | null {
  const text = toText(value);
  return text !== null && /^[=+\-@\t\r\n]/.test(text) && !isNumeric(value) ? `'${text}` : text;
}

const isNumeric = (value: DuckDBValue): boolean =>
  typeof value === 'number' ||
  typeof value === 'bigint' ||
  value instanceof DuckDBDecimalValue ||
  (value instanceof DuckDBUnionValue && isNumeric(value.value));

function toCsvField(text: string | null): string {
  if (text === null) return '';
  return text === '' || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function createJsonFormatter(names: readonly string[], isArray: boolean): RowFormatter {
  const keys = names.map((name) => `${JSON.stringify(name)}:`);
  const object = (values: readonly DuckDBValue[]): string =>
    `{${values.map((value, c) => keys[c] + toJson(value)).join(',')}}`;
  return isArray
    ? {
        head: '',
        prefix: (isFirst) => (isFirst ? '[\n' : ',\n'),
        row: object,
        tail: (isEmpty) => (isEmpty ? '[]\n' : '\n]\n'),
      }
    : { head: '', prefix: () => '', row: (values) => `${object(values)}\n`, tail: () => '' };
}

/** Streams the result as text, without buffering it. Closing `out` stops the query. */
export async function writeText(
  connection: DuckDBConnection,
  sql: string,
  format: TextFormat,
  out: Writable,
  signal: AbortSignal,
): Promise<void> {
  const { prepared } = await prepareRead(connection, sql);
  signal.throwIfAborted();
  const pieces = formatResults([await prepared.stream()], format);
  try {
    await pipeline(Readable.from(pieces, { highWaterMark: 2 }), out, { end: false, signal });
  } catch (error) {
    connection.interrupt();
    throw error;
  } finally {
    // Waits for the current chunk: the connection must not be closed while it is being computed.
    await pieces.return();
  }
}

/**
 * Writes the result as Parquet. DuckDB cannot stream Parquet, so it writes a file in our own folder, which is then
 * sent.
 */
export async function writeParquet(
  connection: DuckDBConnection,
  sql: string,
  ownFolder: string,
  out: Writable,
  signal: AbortSignal,
): Promise<void> {
  const { isExplain } = await prepareRead(connection, sql);
  if (isExplain) throw new UsageError('EXPLAIN has no rows to write as Parquet.');
  const file = join(ownFolder, `${randomUUID()}.parquet`);
  const copy = await prepareCopy(connection, sql, `TO ${quoteLiteral(file)} (FORMAT parquet, COMPRESSION zstd)`);
  await mkdir(ownFolder, { recursive: true });
  try {
    signal.throwIfAborted();
    await copy.run();
    await pipeline(createReadStream(file), out, { end: false, signal });
  } finally {
    await rm(file, { force: true });
  }
}

const endsMax = 20;

/**
 * Wraps a checked read-only statement in a COPY. A trailing semicolon is not allowed there, so semicolons are blanked
 * from the end until DuckDB's parser accepts the statement; those in comments may have to be blanked too.
 */
async function prepareCopy(connection: DuckDBConnection, sql: string, to: string): Promise<DuckDBPreparedStatement> {
  let body = sql;
  for (let ends = 0; ends <= endsMax; ends++) {
    // DESCRIBE, SHOW and SUMMARIZE can be copied from a subquery only; others directly, to keep their order.
    for (const source of [`(\n${body}\n)`, `(FROM (\n${body}\n))`]) {
      const statements = await connection.extractStatements(`COPY ${source} ${to}`).catch(() => undefined);
      if (statements?.count !== 1) continue;
      const prepared = await statements.prepare(0);
      if (prepared.statementType === StatementType.COPY) return prepared;
    }
    const end = body.lastIndexOf(';');
    if (end < 0) break;
    body = `${body.slice(0, end)} ${body.slice(end + 1)}`;
  }
  throw new UsageError('This statement cannot be written as Parquet. Use csv or json.');
}
