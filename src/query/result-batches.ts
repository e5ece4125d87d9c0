import { type DuckDBConnection, DuckDBDoubleVector, DuckDBListValue, type DuckDBValue } from '@duckdb/node-api';
import type { QueryParameter } from './convert-values.ts';
import { prepareRead } from './statement.ts';
import { formatResults, type TextFormat } from './text-formats.ts';

/** A value of a chunk: integers of 64 bits and times do not occur, the statement casts them. */
export type ChunkValue = string | number | boolean | null | readonly string[];

/** About 2,048 rows: for each column its values. */
export type Chunk = readonly (readonly ChunkValue[])[];

/** The rows of statements one after another, some at a time. */
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
  throw new TypeError(`a value of a type that a chunk does not hold: ${value}`);
}

/**
 * Columns of doubles as such: to make a list of values of each costs more than all that is done with them. The whole result
 * is made first: to wait for every two thousand rows costs a fifth of the time.
 */
export async function* streamDoubles(
  connection: DuckDBConnection,
  sql: string,
  values: readonly QueryParameter[],
): AsyncGenerator<readonly Float64Array[]> {
  const { prepared } = await prepareRead(connection, sql);
  if (values.length > 0) prepared.bind([...values]);
  const result = await prepared.run();
  const columns = Array.from({ length: result.columnCount }, (_, c) => c);
  for (let i = 0; i < result.chunkCount; i++) {
    const chunk = result.getChunk(i);
    const vectors = columns.map((c) => chunk.getColumnVector(c));
    yield vectors.map((vector) => {
      if (!(vector instanceof DuckDBDoubleVector)) throw new TypeError(`a column that holds no doubles: ${sql}`);
      return readVectorItems(vector) ?? copyVectorItems(vector, sql);
    });
  }
}

/** What a vector of the library is made of, and shows one by one only: five times as slow as to read them here. */
interface VectorInternals {
  readonly items?: unknown;
  readonly validity?: { readonly data?: BigUint64Array | null };
}

/** The values of a vector, where they can be had at once and none is null. */
export function readVectorItems(vector: DuckDBDoubleVector): Float64Array | null {
  const { items, validity } = vector as unknown as VectorInternals;
  if (!(items instanceof Float64Array) || validity === undefined) return null;
  return validity.data === null ? items : null;
}

export function copyVectorItems(vector: DuckDBDoubleVector, sql: string): Float64Array {
  return Float64Array.from({ length: vector.itemCount }, (_, row) => {
    const value = vector.getItem(row);
    if (value === null) throw new TypeError(`a column of doubles that holds a null: ${sql}`);
    return value;
  });
}

/** The same as text. */
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
