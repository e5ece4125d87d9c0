import { createHash } from 'node:crypto';
import type { TSchema } from 'typebox';
import type { Fault } from '../../backtest/strategy/json-validator.ts';
import { CreatedHeaders, pageMax } from '../../contract/strategies.ts';
import { decodeObjectCursor, encodeObjectCursor } from '../history/page-cursor.ts';
import type { ServiceContext } from '../http/context.ts';
import { ProblemError } from '../http/problem-details.ts';
import { generateRandomId } from '../jobs/export-folder.ts';
import type { PageRequest, RowPage } from '../workspace/tables.ts';

// What the routes of users' objects have in common.

/** A name for a new one. */
export const createObjectId = ({ clock, random }: ServiceContext): string =>
  `${clock.nowMs().toString(36)}${generateRandomId(random)}`;

/** sha256 of a body that was JSON, in hex; the order of an object's members is no part of it. */
export const hashBody = (body: unknown): string =>
  createHash('sha256').update(JSON.stringify(body, sortMembers), 'utf8').digest('hex');

const sortMembers = (_name: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    : value;

/** 400, with what is wrong by field. */
export const createInvalidBodyError = (errors: readonly Fault[]): ProblemError =>
  new ProblemError(400, 'The body is not as documented.', {
    errors: errors.map(({ name, reason }) => ({ name: name === '' ? 'body' : name, reason })),
  });

export const createIdempotencyConflictError = (): ProblemError =>
  new ProblemError(422, 'This Idempotency-Key was sent before with another body. Take a new one.');

export const createQuotaError = (what: string, max: number): ProblemError =>
  new ProblemError(409, `This user has ${max} ${what} in this workspace, and no more are kept: remove some first.`);

const pageSizeDefault = 20;

/**
 * A page of a list of a user's, and the cursor of the next one.
 * @param list names it in cursors: one of another list is refused
 */
export async function readListPage<Row, Told>(
  list: string,
  { limit = pageSizeDefault, cursor }: { readonly limit?: number; readonly cursor?: string },
  load: (page: PageRequest) => Promise<RowPage<Row>>,
  told: (row: Row) => Told,
): Promise<{ objects: Told[]; count: number; next_cursor: string | null }> {
  const { rows, next } = await load({ limit: Math.min(limit, pageMax), before: decodeObjectCursor(list, cursor) });
  const next_cursor = next === null ? null : encodeObjectCursor(list, next);
  return { objects: rows.map(told), count: rows.length, next_cursor };
}

/** What a 201 is documented as. */
export const describeCreatedResponse = <S extends TSchema>(schema: S) => ({
  description: 'It is made, or was made under this Idempotency-Key before.',
  headers: CreatedHeaders,
  content: { 'application/json': { schema } },
});
