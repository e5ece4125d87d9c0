import { createHash } from 'node:crypto';
import type { TSchema } from 'typebox';
import type { Fault } from '../../backtest/strategy/json-validator.ts';
import { CreatedHeaders, pageMax } from '../../contract/strategies.ts';
import { decodeObjectCursor, encodeObjectCursor } from '../history/page-cursor.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { PageRequest, RowPage } from '../workspace/tables.ts';

// Functions shared by the routes of users' objects.

/** SHA-256 of a JSON body in hex, independent of the order of object members. */
export const hashBody = (body: unknown): string =>
  createHash('sha256').update(JSON.stringify(body, sortMembers), 'utf8').digest('hex');

const sortMembers = (_name: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : value;

/** 400 with the invalid fields. */
export const createInvalidBodyError = (errors: readonly Fault[]): ProblemError =>
  new ProblemError(400, 'The body is invalid.', {
    errors: errors.map(({ name, reason }) => ({ name: name === '' ? 'body' : name, reason })),
  });

export const createIdempotencyConflictError = (): ProblemError =>
  new ProblemError(422, 'This Idempotency-Key was used with another body. Send a new one.');

export const createQuotaError = (what: string, max: number): ProblemError =>
  new ProblemError(409, `This user has ${max} ${what} in this workspace, which is the maximum. Remove some first.`);

const pageSizeDefault = 20;

/**
 * A page of a user's list, and the cursor of the next page.
 * @param list name of the list in cursors; a cursor of another list is rejected
 */
export async function readListPage<Row, Told>(
  list: string,
  { limit = pageSizeDefault, cursor }: { readonly limit?: number; readonly cursor?: string },
  load: (page: PageRequest) => Promise<RowPage<Row>>,
  toItem: (row: Row) => Told,
): Promise<{ objects: Told[]; count: number; next_cursor: string | null }> {
  const { rows, next } = await load({ limit: Math.min(limit, pageMax), before: decodeObjectCursor(list, cursor) });
  const next_cursor = next === null ? null : encodeObjectCursor(list, next);
  return { objects: rows.map(toItem), count: rows.length, next_cursor };
}

/** The documentation of a 201 response. */
export const describeCreatedResponse = <S extends TSchema>(schema: S) => ({
  description: 'The object was created, now or by an earlier request with this Idempotency-Key.',
  headers: CreatedHeaders,
  content: { 'application/json': { schema } },
});
