import { hash } from 'node:crypto';
import type { TradePosition } from '../../backtest/data/stored-trades.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { RowPosition } from './history.ts';
import type { MarketPosition } from './market-history.ts';

// A cursor is the key of the last row of a page: rows added later do not change its position. Cursors of historical routes
// also contain a digest of their query, because with another query the same position would skip rows.

/**
 * Identifies the rows of a query, whatever the size of its pages.
 * @param selection every value that selects rows, in a fixed order of fields
 */
export const digestQuery = (dataset: string, selection: object): string =>
  hash('sha256', JSON.stringify([dataset, selection]), 'base64url').slice(0, 16);

/** Encodes the position after a row. @param query from `digestQuery` */
export const encodeRowCursor = (query: string, { symbol, t, id }: RowPosition): string =>
  encode(['p', symbol, t, query, ...(id === undefined ? [] : [id])]);

/** Encodes the position after a market. @param query from `digestQuery` */
export const encodeMarketCursor = (query: string, { canonicalId, symbol }: MarketPosition): string =>
  encode(['m', canonicalId, symbol, query]);

/** Encodes the position after an object in a user's list. */
export const encodeObjectCursor = (list: string, ordinal: number): string => encode(['o', list, ordinal]);

/** @throws ProblemError 400 if the text is not a cursor of this list */
export function decodeObjectCursor(list: string, cursor: string | undefined): number | null {
  if (cursor === undefined) return null;
  const [kind, of, ordinal] = decode(cursor);
  if (kind !== 'o' || of !== list || !Number.isSafeInteger(ordinal)) throw createInvalidCursorError();
  return ordinal as number;
}

/** Encodes a position in the trades of a backtest. @param id of the backtest */
export const encodeTradeCursor = (id: string, { filledAt, skip }: TradePosition): string =>
  encode(['b', id, filledAt, skip]);

/** @throws ProblemError 400 if the text is not a cursor of this backtest */
export function decodeTradeCursor(id: string, cursor: string | undefined): TradePosition | null {
  if (cursor === undefined) return null;
  const [kind, of, filledAt, skip] = decode(cursor);
  if (kind !== 'b' || !isCount(filledAt) || filledAt > timeMsMax || !isCount(skip)) throw createInvalidCursorError();
  requireSameQuery(of, id);
  return { filledAt, skip };
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/**
 * @param hasId whether a position of this query has an identifier
 * @throws ProblemError 400 if the text is not a row cursor of this query
 */
export function decodeRowCursor(query: string, cursor: string | undefined, hasId: boolean): RowPosition | null {
  if (cursor === undefined) return null;
  const [kind, symbol, t, of, id] = decode(cursor);
  if (kind !== 'p' || typeof symbol !== 'string' || typeof t !== 'number' || !(t >= 0 && t <= timeMsMax))
    throw createInvalidCursorError();
  if (!Number.isInteger(t)) throw createInvalidCursorError();
  requireSameQuery(of, query);
  if (hasId && typeof id === 'string') return { symbol, t, id };
  if (hasId || id !== undefined) throw createInvalidCursorError();
  return { symbol, t };
}

/** @throws ProblemError 400 if the text is not a market cursor of this query */
export function decodeMarketCursor(query: string, cursor: string | undefined): MarketPosition | null {
  if (cursor === undefined) return null;
  const [kind, canonicalId, symbol, of] = decode(cursor);
  if (kind !== 'm' || typeof canonicalId !== 'string' || typeof symbol !== 'string') throw createInvalidCursorError();
  requireSameQuery(of, query);
  return { canonicalId, symbol };
}

function requireSameQuery(of: unknown, query: string): void {
  if (of === query) return;
  throw new ProblemError(
    400,
    'The cursor belongs to another query. Send it with the parameters of the response it is from, or send no cursor.',
    {
      code: 'invalid_cursor',
      errors: [{ name: 'cursor', reason: 'must be used with the same parameters; only limit may change' }],
    },
  );
}

/** The latest time that an archive may contain: the start of the year 2200. */
export const timeMsMax = Date.UTC(2200, 0, 1);

const encode = (parts: readonly unknown[]): string => Buffer.from(JSON.stringify(parts), 'utf8').toString('base64url');

function decode(cursor: string): readonly unknown[] {
  if (!/^[\w-]+$/.test(cursor)) throw createInvalidCursorError();
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    if (Array.isArray(parts) && hasCursorLength(parts) && parts.every(isWellFormedPart)) return parts;
  } catch {
    // Not JSON: handled like JSON of the wrong shape.
  }
  throw createInvalidCursorError();
}

/** Only the position of a row may have an identifier, its fifth part. */
const hasCursorLength = (parts: readonly unknown[]): boolean =>
  parts.length === 3 || parts.length === 4 || (parts.length === 5 && parts[0] === 'p');

/** Cursors are UTF-8, so a lone surrogate cannot come from the service. */
const isWellFormedPart = (part: unknown): boolean => typeof part !== 'string' || part.isWellFormed();

export const createInvalidCursorError = (): ProblemError =>
  new ProblemError(400, 'The cursor is invalid. Send next_cursor unchanged, or no cursor.', {
    code: 'invalid_cursor',
    errors: [{ name: 'cursor', reason: 'must be the next_cursor of a response of this route' }],
  });
