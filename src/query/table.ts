import { type DuckDBConnection, type DuckDBResultReader, DuckDBTypeId } from '@duckdb/node-api';
import { toText } from './convert-values.ts';
import type { ResultTable } from './query.ts';
import { prepareRead } from './statement.ts';

/** The first rows of a result, at most `rowsMax`, as text for people; no more is computed than is needed for them. */
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

/** A column of whole seconds is easier to read without its `.000`. */
function trimColumn(column: readonly (string | null)[]): readonly (string | null)[] {
  const whole = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000(Z?)$/;
  if (!column.every((text) => text === null || whole.test(text))) return column;
  return column.map((text) => text?.replace(/\.000(Z?)$/, '$1') ?? null);
}
