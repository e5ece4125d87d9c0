import { generator } from '../core/random.ts';
import type { BookLevel, orderBook } from './order-book.ts';

/**
 * How the order book of a symbol is told; the service documents no shape, and venues differ.
 * - `objects`: bids and asks of `{price, quantity}`, best first · `arrays`: of `[price, quantity]` · `text`: numbers as text
 * - `short`: buys and sells of `{p, q}`, under `book` · `shuffled`: levels in any order, under `data`
 * - `list`: two snapshots, the older one empty · `map`: from price to quantity, under `orderbook`, the time in ISO-8601
 * - `outcomes`: bids of YES and of NO, no asks · `dollars`: the same in dollars and in cents, under `orderbook`
 * - `no-time`: neither the book nor the answer says when it is from
 * - `cents`: bids of both outcomes in cents alone, which nobody can know to be cents
 */
export const bookShapes = [
  ...(['objects', 'arrays', 'text', 'short', 'shuffled', 'list', 'map', 'outcomes', 'dollars', 'no-time'] as const),
  'cents',
] as const;

export type BookShape = (typeof bookShapes)[number];

interface Told {
  readonly symbol: string;
  readonly nowMs: number;
  readonly book: ReturnType<typeof orderBook>;
}

/** The age of the older snapshot of a list, in ms. */
export const olderByMs = 60_000;

/** The body of an answer in one of the shapes. */
export function bookText(shape: BookShape, { symbol, nowMs, book }: Told): string {
  return JSON.stringify(bodyOf(shape, { symbol, nowMs, book }));
}

function bodyOf(shape: BookShape, { symbol, nowMs, book: { bids, asks } }: Told): object {
  const around = { symbol, generated_at: nowMs };
  const noBids = asks.map(({ price, quantity }) => ({ price: rest(price), quantity }));
  const cents = (levels: readonly BookLevel[]) => levels.map(({ price, quantity }) => [hundredfold(price), quantity]);
  switch (shape) {
    case 'objects':
      return { ...around, t: nowMs, bids, asks };
    case 'arrays':
      return { ...around, timestamp: nowMs, bids: pairs(bids), asks: pairs(asks) };
    case 'text':
      return { ...around, timestamp: String(nowMs), bids: texts(bids), asks: texts(asks) };
    case 'short':
      return { ...around, book: { time: nowMs, buys: short(bids), sells: short(asks) } };
    case 'shuffled':
      return { ...around, data: { t: nowMs, bids: shuffled(bids, nowMs), asks: shuffled(asks, nowMs + 1) } };
    case 'list': {
      const older = { symbol, t: nowMs - olderByMs, bids: [], asks: [] };
      return [{ symbol, t: nowMs, bids, asks }, older];
    }
    case 'map':
      return { ...around, orderbook: { t: new Date(nowMs).toISOString(), bids: mapOf(bids), asks: mapOf(asks) } };
    case 'outcomes':
      return { ...around, t: nowMs, yes: pairs(bids), no: pairs(noBids) };
    case 'dollars': {
      const dollars = { yes_dollars: texts(bids).map(both), no_dollars: texts(noBids).map(both) };
      return { ...around, orderbook: { t: nowMs, yes: cents(bids), no: cents(noBids), ...dollars } };
    }
    case 'no-time':
      return { symbol, bids, asks };
    case 'cents':
      return { ...around, t: nowMs, yes: cents(bids), no: cents(noBids) };
  }
}

/** What a price of thousandths leaves of 1. */
const rest = (price: number): number => (1000 - Math.round(price * 1000)) / 1000;
const hundredfold = (price: number): number => Math.round(price * 1000) / 10;

const pairs = (levels: readonly BookLevel[]) => levels.map(({ price, quantity }) => [price, quantity]);
const short = (levels: readonly BookLevel[]) => levels.map(({ price, quantity }) => ({ p: price, q: quantity }));
const texts = (levels: readonly BookLevel[]) =>
  levels.map(({ price, quantity }) => ({ price: price.toFixed(4), size: quantity.toFixed(2) }));
const both = ({ price, size }: { price: string; size: string }) => [price, size];
const mapOf = (levels: readonly BookLevel[]) =>
  Object.fromEntries(levels.map(({ price, quantity }) => [price.toFixed(3), quantity]));

function shuffled(levels: readonly BookLevel[], seed: number): BookLevel[] {
  const random = generator(seed);
  return levels
    .map((level) => ({ level, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ level }) => level);
}
