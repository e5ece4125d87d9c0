import { ProblemError } from '../http/problem-details.ts';
import type { RowPosition } from './history.ts';
import type { MarketPosition } from './market-history.ts';

// A cursor is the key of the last row told: rows that come in later change nothing about where it stands.

/** The cursor behind a row. */
export const encodeRowCursor = ({ symbol, t }: RowPosition): string => encode(['p', symbol, t]);

/** The cursor behind a market. */
export const encodeMarketCursor = ({ canonicalId, symbol }: MarketPosition): string =>
  encode(['m', canonicalId, symbol]);

/** The cursor behind an object in a list of a user's. */
export const encodeObjectCursor = (list: string, ordinal: number): string => encode(['o', list, ordinal]);

/** @throws ProblemError 400 for what is no cursor of this kind */
export function decodeObjectCursor(list: string, cursor: string | undefined): number | null {
  if (cursor === undefined) return null;
  const [kind, of, ordinal] = decode(cursor);
  if (kind !== 'o' || of !== list || !Number.isSafeInteger(ordinal)) throw createInvalidCursorError();
  return ordinal as number;
}

/** @throws ProblemError 400 for what is no cursor of this kind */
export function decodeRowCursor(cursor: string | undefined): RowPosition | null {
  if (cursor === undefined) return null;
  const [kind, symbol, t] = decode(cursor);
  if (kind !== 'p' || typeof symbol !== 'string' || typeof t !== 'number' || !(t >= 0 && t <= timeMsMax))
    throw createInvalidCursorError();
  if (!Number.isInteger(t)) throw createInvalidCursorError();
  return { symbol, t };
}

/** @throws ProblemError 400 for what is no cursor of this kind */
export function decodeMarketCursor(cursor: string | undefined): MarketPosition | null {
  if (cursor === undefined) return null;
  const [kind, canonicalId, symbol] = decode(cursor);
  if (kind !== 'm' || typeof canonicalId !== 'string' || typeof symbol !== 'string') throw createInvalidCursorError();
  return { canonicalId, symbol };
}

/** No time in an archive is later: the year 2200. */
export const timeMsMax = Date.UTC(2200, 0, 1);

const encode = (parts: readonly unknown[]): string => Buffer.from(JSON.stringify(parts), 'utf8').toString('base64url');

function decode(cursor: string): readonly unknown[] {
  if (!/^[\w-]+$/.test(cursor)) throw createInvalidCursorError();
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    if (Array.isArray(parts) && parts.length === 3 && parts.every(isWellFormedPart)) return parts;
  } catch {
    // Not JSON: as bad as JSON that says something else.
  }
  throw createInvalidCursorError();
}

/** What is told is UTF-8: half a surrogate pair is in none of it. */
const isWellFormedPart = (part: unknown): boolean => typeof part !== 'string' || part.isWellFormed();

const createInvalidCursorError = (): ProblemError =>
  new ProblemError(400, 'The cursor is none that was given out here. Send next_cursor as it was, or none.', {
    errors: [{ name: 'cursor', reason: 'must be the next_cursor of an answer of this route' }],
  });
