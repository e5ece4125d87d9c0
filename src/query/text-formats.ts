import type { DuckDBResult, DuckDBValue } from '@duckdb/node-api';
import { toJson, toText } from './convert-values.ts';

export type TextFormat = 'csv' | 'json' | 'ndjson';

interface RowFormatter {
  readonly head: string;
  prefix(isFirst: boolean): string;
  row(values: readonly DuckDBValue[]): string;
  tail(isEmpty: boolean): string;
}

/**
 * Whole results of one shape as one text, the rows of one after those of another; at least one. A piece for each of
 * DuckDB's chunks of about 2,048 rows.
 */
export async function* formatResults(
  results: AsyncIterable<DuckDBResult> | Iterable<DuckDBResult>,
  format: TextFormat,
): AsyncGenerator<string, void, undefined> {
  let shape: RowFormatter | undefined;
  let isEmpty = true;
  let text = '';
  for await (const result of results) {
    if (shape === undefined) {
      const names = result.deduplicatedColumnNames();
      shape = format === 'csv' ? createCsvFormatter(names) : createJsonFormatter(names, format === 'json');
      text = shape.head;
    }
    for await (const rows of readRowBatches(result)) {
      for (const values of rows) {
        text += shape.prefix(isEmpty) + shape.row(values);
        isEmpty = false;
      }
      yield text;
      text = '';
    }
  }
  yield text + (shape?.tail(isEmpty) ?? '');
}

/** The rows of a result, a chunk at a time. The array of a row is used again for the next. */
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

/** RFC 4180 with bare newlines: NULL is empty, an empty string is `""`. */
function createCsvFormatter(names: readonly string[]): RowFormatter {
  const line = (texts: readonly (string | null)[]): string => `${texts.map(toCsvField).join(',')}\n`;
  return {
    head: line(names),
    prefix: () => '',
    row: (values) => line(values.map(toText)),
    tail: () => '',
  };
}

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
