import { type DuckDBConnection, type DuckDBPreparedStatement, StatementType } from '@duckdb/node-api';
import { UsageError } from '../../base/errors.ts';

export interface ReadStatement {
  /** What was checked is what runs. */
  readonly prepared: DuckDBPreparedStatement;
  readonly isExplain: boolean;
}

const acceptedStatements = 'SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE, and EXPLAIN of these';

/**
 * Prepares the one statement of `sql`, which must only read: DuckDB's own parser and binder say what it is.
 * @throws UsageError for any other statement, none, and more than one; DuckDB's errors for bad SQL
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
  throw new UsageError(`The archive is only read here: ${acceptedStatements} are accepted, this is ${kind}.`);
}

/**
 * EXPLAIN ANALYZE runs what it explains, and DuckDB does not say what that is: so the explained text is checked by
 * itself, and EXPLAIN put in front of it again.
 */
async function prepareExplain(connection: DuckDBConnection, sql: string): Promise<DuckDBPreparedStatement> {
  const [, analyze, inner] = /^\s*explain\s+(analyze\s+)?(\S[\s\S]*)$/i.exec(sql) ?? [];
  const explained = inner === undefined ? undefined : await prepareSingle(connection, inner);
  if (inner === undefined || explained?.statementType !== StatementType.SELECT) {
    throw new UsageError('The archive is only read here: EXPLAIN and EXPLAIN ANALYZE are accepted of a query only.');
  }
  await requireReadOnly(connection, inner);
  return await prepareSingle(connection, `EXPLAIN ${analyze === undefined ? '' : 'ANALYZE '}${inner}`);
}

async function prepareSingle(connection: DuckDBConnection, sql: string): Promise<DuckDBPreparedStatement> {
  const statements = await connection.extractStatements(sql).catch((error: unknown) => {
    // The only answer for a text without any statement is one without a reason.
    if (error instanceof Error && /native callback/.test(error.message))
      throw new UsageError('There is no SQL to run.');
    throw error;
  });
  if (statements.count === 1) return await statements.prepare(0);
  const hint = /\bpivot\b/i.test(sql) ? ' A PIVOT must name its values: ON column IN (…).' : '';
  throw new UsageError(`One statement at a time is accepted, these are ${statements.count}.${hint}`);
}

/** Functions that change DuckDB's own state, or write logs and profiles, though SELECT can call them. */
const actingOperators = /^(ENABLE|DISABLE|TRUNCATE)_|CHECKPOINT|^JSON_EXECUTE_SERIALIZED_SQL$/;

/** Only a text with one of these can call such a function: by its name, or by SQL put together from strings. */
const suspectWords = /enable|disable|truncate|checkpoint|query|serialized/i;

interface PlanNode {
  readonly name?: string;
  readonly children?: readonly PlanNode[];
}

/** Looks for acting functions where none can hide: in the plan. A second binding costs time with thousands of files. */
async function requireReadOnly(connection: DuckDBConnection, sql: string): Promise<void> {
  if (!suspectWords.test(sql)) return;
  const explained = await prepareSingle(connection, `EXPLAIN (FORMAT json) ${sql}`);
  const parameters = Array.from({ length: explained.parameterCount }, () => null);
  if (parameters.length > 0) explained.bind(parameters);
  const plan = (await explained.runAndReadAll()).getRows().at(0)?.at(-1);
  const nodes: PlanNode[] = typeof plan === 'string' ? JSON.parse(plan) : [];
  for (let node = nodes.pop(); node !== undefined; node = nodes.pop()) {
    if (node.name !== undefined && actingOperators.test(node.name)) {
      throw new UsageError(`The archive is only read here: ${node.name.toLowerCase()} is not accepted.`);
    }
    nodes.push(...(node.children ?? []));
  }
}
