import { type DuckDBConnection, DuckDBDoubleVector, DuckDBListValue, type DuckDBValue } from '@duckdb/node-api';
import { prepareRead } from './statement.ts';
import { type TextFormat, textPieces } from './text-formats.ts';
import type { Parameter } from './values.ts';

/** A value of a chunk: integers of 64 bits and times do not occur, the statement casts them. */
export type ChunkValue = string | number | boolean | null | readonly string[];

/** About 2,048 rows: for each column its values. */
export type Chunk = readonly (readonly ChunkValue[])[];

/** The rows of statements one after another, some at a time. */
export async function* chunksOf(
  connection: DuckDBConnection,
  statements: readonly string[],
  values: readonly Parameter[],
): AsyncGenerator<Chunk> {
  for (const sql of statements) {
    const result = await streamOf(connection, sql, values);
    for (let chunk = await result.fetchChunk(); chunk !== null && chunk.rowCount > 0; chunk = await result.fetchChunk())
      yield Array.from({ length: result.columnCount }, (_, c) => chunk!.getColumnValues(c).map(plain));
  }
}

function plain(value: DuckDBValue): ChunkValue {
  if (value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
    return value;
  if (value instanceof DuckDBListValue) return value.items as string[];
  throw new TypeError(`a value of a type that a chunk does not hold: ${value}`);
}

/** Columns of doubles as such: to make a list of values of each costs more than all that is done with them. */
export async function* doublesOf(
  connection: DuckDBConnection,
  sql: string,
  values: readonly Parameter[],
): AsyncGenerator<readonly Float64Array[]> {
  const result = await streamOf(connection, sql, values);
  let room = Array.from({ length: result.columnCount }, () => new Float64Array(0));
  for (let chunk = await result.fetchChunk(); chunk !== null && chunk.rowCount > 0; chunk = await result.fetchChunk()) {
    const rows = chunk.rowCount;
    if (rows > room[0]!.length) room = room.map(() => new Float64Array(rows));
    for (const [c, column] of room.entries()) {
      const vector = chunk.getColumnVector(c);
      if (!(vector instanceof DuckDBDoubleVector)) throw new TypeError(`a column that holds no doubles: ${sql}`);
      for (let row = 0; row < rows; row++) {
        const value = vector.getItem(row);
        if (value === null) throw new TypeError(`a column of doubles that holds a null: ${sql}`);
        column[row] = value;
      }
    }
    yield room.map((column) => column.subarray(0, rows));
  }
}

/** The same as text. */
export async function* textsOf(
  connection: DuckDBConnection,
  statements: readonly string[],
  format: TextFormat,
  values: readonly Parameter[],
): AsyncGenerator<string> {
  async function* results() {
    for (const sql of statements) yield await streamOf(connection, sql, values);
  }
  yield* textPieces(results(), format);
}

async function streamOf(connection: DuckDBConnection, sql: string, values: readonly Parameter[]) {
  const { prepared } = await prepareRead(connection, sql);
  if (values.length > 0) prepared.bind([...values]);
  return await prepared.stream();
}
