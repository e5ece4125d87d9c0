import type { Level } from '../core/book.ts';

/** Why a book cannot be kept; `message` is a clause for the reason. */
export class NotUnderstood extends Error {}

/** Names of a level's fields; venues differ. */
const priceNames = ['price', 'p', 'px'];
const quantityNames = ['quantity', 'qty', 'q', 'size', 'sz', 'amount', 'volume'];

/**
 * Reads one side: a list of `[price, quantity]` or of objects, or an object from price to quantity; numbers or their
 * text. Levels without quantity are no levels: that is how feeds say that a price is gone.
 * @throws NotUnderstood for anything else: a book with a part of its levels would be another book
 */
export function readSide(value: unknown): Level[] {
  if (value === null || value === undefined) return [];
  if (Array.isArray(value)) return value.map(readLevel);
  if (typeof value !== 'object') throw new NotUnderstood('a side is not a list');
  return Object.entries(value).map(([price, quantity]) => levelOf(price, quantity));
}

function readLevel(value: unknown): Level {
  if (Array.isArray(value)) {
    // A third number may be a count, an amount or a time, and then the second may be no quantity either.
    if (value.length !== 2) throw new NotUnderstood(`a level has ${value.length} values, not price and quantity`);
    return levelOf(value[0], value[1]);
  }
  if (typeof value !== 'object' || value === null) throw new NotUnderstood('a level is neither a list nor an object');
  return levelOf(fieldOf(value, priceNames), fieldOf(value, quantityNames));
}

/** The one field among several names; of two that differ nobody knows which one is meant. */
function fieldOf(level: object, names: readonly string[]): unknown {
  const found = names.filter((name) => Object.hasOwn(level, name));
  const values = found.map((name) => (level as Record<string, unknown>)[name]);
  if (values.length === 0) throw new NotUnderstood(`a level has no ${names[0]}`);
  if (values.some((value) => decimal(value) !== decimal(values[0])))
    throw new NotUnderstood(`a level has both ${found[0]} and ${found[1]}`);
  return values[0];
}

function levelOf(price: unknown, quantity: unknown): Level {
  const level = { price: decimal(price), quantity: decimal(quantity) };
  if (!Number.isFinite(level.price)) throw new NotUnderstood(`price ${quoted(price)} is not a number`);
  // Cents are not taken for fractions: a hundredth of a wrong guess is a wrong price.
  if (level.price < 0 || level.price > 1) throw new NotUnderstood(`price ${quoted(price)} is outside 0 to 1`);
  if (!Number.isFinite(level.quantity)) throw new NotUnderstood(`quantity ${quoted(quantity)} is not a number`);
  if (level.quantity < 0) throw new NotUnderstood(`quantity ${quoted(quantity)} is negative`);
  return level;
}

/** A number or the text of one; NaN for anything else. */
function decimal(value: unknown): number {
  if (typeof value === 'number') return value;
  const isText = typeof value === 'string' && /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i.test(value);
  return isText ? Number(value) : Number.NaN;
}

const quoted = (value: unknown): string => (JSON.stringify(value) ?? 'undefined').slice(0, 40);

/**
 * Refuses levels that may be in cents though all of them lie between 0 and 1: one cent is written 1. A price in between
 * proves fractions.
 * @throws NotUnderstood
 */
export function requireFractions(levels: readonly Level[]): void {
  if (levels.some(({ price }) => price === 1) && !levels.some(({ price }) => price > 0 && price < 1))
    throw new NotUnderstood('price 1 and none between 0 and 1: one, or one cent');
}

/**
 * What `price` leaves of 1, as decimal numbers have it: 0.58 for 0.42, where 1 - 0.42 in doubles is 0.5800000000000001.
 * Exact up to 15 decimals; longer ones are subtracted as doubles.
 */
export function complement(price: number): number {
  const match = /^\d(?:\.(\d{1,15}))?$/.exec(String(price));
  if (match === null) return 1 - price;
  const scale = 10 ** (match[1]?.length ?? 0);
  return (scale - Math.round(price * scale)) / scale;
}
