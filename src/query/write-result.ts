import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type DuckDBConnection, type DuckDBPreparedStatement, StatementType } from '@duckdb/node-api';
import { UsageError } from '../core/errors.ts';
import { prepareRead } from './statement.ts';
import { formatResults, type TextFormat } from './text-formats.ts';
import { quoteLiteral } from './views.ts';

/** Streams the result as text: nothing of it is kept, and a reader that stops stops the query. */
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
    // Waits for a chunk that is still being computed: the connection must not be closed under it.
    await pieces.return();
  }
}

/** Parquet needs its end before its beginning is sure: DuckDB writes a file in our own folder, which is then sent. */
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
 * Puts a statement, already found to be one that only reads, into a COPY. What may end a statement may not end it
 * there: semicolons are blanked from the end on until DuckDB's parser takes the rest, as comments may hold some too.
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
  throw new UsageError('This statement cannot be written as Parquet; csv and json can hold it.');
}
