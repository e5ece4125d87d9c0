import { type DuckDBConnection, type DuckDBPreparedStatement, StatementType } from '@duckdb/node-api';
import { UsageError } from '../../base/errors.ts';

interface ReadStatement {
  /** The checked statement, ready to run. */
  readonly prepared: DuckDBPreparedStatement;
  readonly isExplain: boolean;
}

const readOnlyText =
  'sql is read-only: it accepts SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE, and EXPLAIN of these';

/**
 * Prepares the single statement of `sql`, which must be read-only. DuckDB's own parser and binder determine its type.
 * @throws UsageError for any other statement, and for none or several; DuckDB's errors for invalid SQL
 */
export async function prepareRead(connection: DuckDBConnection, sql: string): Promise<ReadStatement> {
  const prepared = await prepareSingle(connection, sql);
  if (prepared.statementType === StatementType.SELECT) {
    await requireReadOnly(connection, sql);
    return { prepared, isExplain: false };
  }
  if (prepared.statementType === StatementType.EXPLAIN) {
    return { prepared: await prepareExplain(connection, sql), isExplain: true };
  }
  const kind = StatementType[prepared.statementType] ?? 'another statement';
  throw new UsageError(`${readOnlyText}. This is ${kind}.`);
}

/**
 * EXPLAIN ANALYZE runs the statement that follows it, but DuckDB does not report the type of that statement. It is
 * therefore checked on its own, and then EXPLAIN is put in front of it again.
 */
async function prepareExplain(connection: DuckDBConnection, sql: string): Promise<DuckDBPreparedStatement> {
  const [, analyze, inner] = /^\s*explain\s+(analyze\s+)?(\S[\s\S]*)$/i.exec(sql) ?? [];
  const explained = inner === undefined ? undefined : await prepareSingle(connection, inner);
  if (inner === undefined || explained?.statementType !== StatementType.SELECT) {
    throw new UsageError('sql is read-only: EXPLAIN and EXPLAIN ANALYZE must be followed by a query.');
  }
  await requireReadOnly(connection, inner);
  return await prepareSingle(connection, `EXPLAIN ${analyze === undefined ? '' : 'ANALYZE '}${inner}`);
}

async function prepareSingle(connection: DuckDBConnection, sql: string): Promise<DuckDBPreparedStatement> {
  const statements = await connection.extractStatements(sql).catch((error: unknown) => {
    // For a text without a statement DuckDB gives only this error, without a reason.
    if (error instanceof Error && /native callback/.test(error.message))
      throw new UsageError('There is no SQL to run.');
    throw error;
  });
  if (statements.count === 1)
    return await statements.prepare(0).catch((error: unknown) => {
      // The type of a statement is known once it is bound, and a change of a view is not bound.
      if (error instanceof Error && /Can only (delete|update|merge)|is not an table/.test(error.message))
        throw new UsageError(`${readOnlyText}.`);
      throw error;
    });
  const hint = /\bpivot\b/i.test(sql) ? ' A PIVOT must list its values: ON column IN (…).' : '';
  throw new UsageError(`Only one statement is accepted; there are ${statements.count}.${hint}`);
}

/** Plan operators of functions that change DuckDB's state or write logs and profiles, although SELECT can call them. */
const sideEffectOperators = /^(ENABLE|DISABLE|TRUNCATE)_|CHECKPOINT|^JSON_EXECUTE_SERIALIZED_SQL$/;

/** A statement must contain one of these to call such a function, by its name or in SQL built from strings. */
const sideEffectWords = /enable|disable|truncate|checkpoint|query|serialized/i;

interface PlanNode {
  readonly name?: string;
  readonly children?: readonly PlanNode[];
}

/**
 * Rejects functions with side effects by searching the plan, where they cannot be hidden. Done only for suspicious
 * statements, because binding a statement twice is slow with thousands of files.
 */
async function requireReadOnly(connection: DuckDBConnection, sql: string): Promise<void> {
  if (!sideEffectWords.test(sql)) return;
  const explained = await prepareSingle(connection, `EXPLAIN (FORMAT json) ${sql}`);
  const parameters = Array.from({ length: explained.parameterCount }, () => null);
  if (parameters.length > 0) explained.bind(parameters);
  const plan = (await explained.runAndReadAll()).getRows().at(0)?.at(-1);
  const nodes: PlanNode[] = typeof plan === 'string' ? JSON.parse(plan) : [];
  for (let node = nodes.pop(); node !== undefined; node = nodes.pop()) {
    if (node.name !== undefined && sideEffectOperators.test(node.name)) {
      throw new UsageError(`sql is read-only: ${node.name.toLowerCase()} is not allowed.`);
    }
    nodes.push(...(node.children ?? []));
  }
}
