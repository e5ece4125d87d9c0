import type { PriceLevel } from '../core/book.ts';

/** Why a book cannot be kept; `message` is a clause for the reason. */
export class BookParseError extends Error {}

/** Names of a level's fields; venues differ. */
const priceNames = ['price', 'p', 'px'];
const quantityNames = ['quantity', 'qty', 'q', 'size', 'sz', 'amount', 'volume'];

/**
 * Reads one side: a list of `[price, quantity]` or of objects, or an object from price to quantity; numbers or their
 * text. Levels without quantity are no levels: that is how feeds say that a price is gone.
 * @throws NotUnderstood for anything else: a book with a part of its levels would be another book
 */
export function parseSide(value: unknown): PriceLevel[] {
  if (value === null || value === undefined) return [];
  if (Array.isArray(value)) return value.map(parseLevel);
  if (typeof value !== 'object') throw new BookParseError('a side is not a list');
  return Object.entries(value).map(([price, quantity]) => toLevel(price, quantity));
}

function parseLevel(value: unknown): PriceLevel {
  if (Array.isArray(value)) {
    // A third number may be a count, an amount or a time, and then the second may be no quantity either.
    if (value.length !== 2) throw new BookParseError(`a level has ${value.length} values, not price and quantity`);
    return toLevel(value[0], value[1]);
  }
  if (typeof value !== 'object' || value === null) throw new BookParseError('a level is neither a list nor an object');
  return toLevel(getField(value, priceNames), getField(value, quantityNames));
}

/** The one field among several names; of two that differ nobody knows which one is meant. */
function getField(level: object, names: readonly string[]): unknown {
  const found = names.filter((name) => Object.hasOwn(level, name));
  const values = found.map((name) => (level as Record<string, unknown>)[name]);
  if (values.length === 0) throw new BookParseError(`a level has no ${names[0]}`);
  if (values.some((value) => parseDecimal(value) !== parseDecimal(values[0])))
    throw new BookParseError(`a level has both ${found[0]} and ${found[1]}`);
  return values[0];
}

function toLevel(price: unknown, quantity: unknown): PriceLevel {
  const level = { price: parseDecimal(price), quantity: parseDecimal(quantity) };
  if (!Number.isFinite(level.price)) throw new BookParseError(`price ${formatQuoted(price)} is not a number`);
  // Cents are not taken for fractions: a hundredth of a wrong guess is a wrong price.
  if (level.price < 0 || level.price > 1) throw new BookParseError(`price ${formatQuoted(price)} is outside 0 to 1`);
  if (!Number.isFinite(level.quantity)) throw new BookParseError(`quantity ${formatQuoted(quantity)} is not a number`);
  if (level.quantity < 0) throw new BookParseError(`quantity ${formatQuoted(quantity)} is negative`);
  return level;
}

/** A number or the text of one; NaN for anything else. */
function parseDecimal(value: unknown): number {
  if (typeof value === 'number') return value;
  const isText = typeof value === 'string' && /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i.test(value);
  return isText ? Number(value) : Number.NaN;
}

const formatQuoted = (value: unknown): string => (JSON.stringify(value) ?? 'undefined').slice(0, 40);

/**
 * Refuses levels that may be in cents though all of them lie between 0 and 1: one cent is written 1. A price in between
 * proves fractions.
 * @throws NotUnderstood
 */
export function requireFractions(levels: readonly PriceLevel[]): void {
  if (levels.some(({ price }) => price === 1) && !levels.some(({ price }) => price > 0 && price < 1))
    throw new BookParseError('price 1 and none between 0 and 1: one, or one cent');
}

/**
 * What `price` leaves of 1, as decimal numbers have it: 0.58 for 0.42, where 1 - 0.42 in doubles is 0.5800000000000001.
 * Exact up to 15 decimals; longer ones are subtracted as doubles.
 */
export function computeComplement(price: number): number {
  const match = /^\d(?:\.(\d{1,15}))?$/.exec(String(price));
  if (match === null) return 1 - price;
  const scale = 10 ** (match[1]?.length ?? 0);
  return (scale - Math.round(price * scale)) / scale;
}
