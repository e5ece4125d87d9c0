import type { OrderBookSnapshot } from '../../archive/format/order-book.ts';
import { UsageError } from '../../base/errors.ts';
import { isSymbolName } from '../../base/symbol-name.ts';
import { parseOrderBooks } from '../order-books/parse-order-book.ts';
import { parseTimeText, type TickRowRules } from './import-rows.ts';

/** A row of order books, as text: one snapshot, whose sides are lists of levels. */
export interface BookRow {
  readonly symbol: string | null;
  readonly t: string | null;
  readonly bids: string | null;
  readonly asks: string | null;
}

interface Level {
  readonly price: unknown;
  readonly quantity: unknown;
}

/** Field names of a level, as for polled order books. */
const priceNames = ['price', 'p', 'px'];
const quantityNames = ['quantity', 'qty', 'q', 'size', 'sz', 'amount', 'volume'];

/**
 * Parses the levels of one side: a list of `[price, quantity]` or of objects with a price and a quantity, or an object that
 * maps prices to quantities, as JSON or as Python and DuckDB print it (`[(0.45, 100)]`, `[{'price': 0.45, 'size': 100}]`).
 * Null if the text is anything else.
 */
export function parseLevels(text: string): Level[] | null {
  const value = parseListText(text);
  if (typeof value !== 'object' || value === null) return null;
  if (!Array.isArray(value)) return Object.entries(value).map(([price, quantity]) => ({ price, quantity }));
  const levels = value.map(toLevel);
  return levels.every((level) => level !== null) ? levels : null;
}

function toLevel(value: unknown): Level | null {
  if (Array.isArray(value)) return value.length === 2 ? { price: value[0], quantity: value[1] } : null;
  if (typeof value !== 'object' || value === null) return null;
  const pick = (names: readonly string[]): string | undefined => names.find((name) => Object.hasOwn(value, name));
  const [price, quantity] = [pick(priceNames), pick(quantityNames)];
  if (price === undefined || quantity === undefined) return null;
  const fields = value as Readonly<Record<string, unknown>>;
  return { price: fields[price], quantity: fields[quantity] };
}

function parseListText(text: string): unknown {
  const trimmed = text.trim();
  if (!/^[[({]/.test(trimmed)) return null;
  try {
    return JSON.parse(trimmed);
  } catch {}
  // Only text of numbers and names, in which these characters can have no other meaning.
  if (!/^[\w\s.,:=+'()[\]{}-]*$/.test(trimmed)) return null;
  const json = trimmed
    .replaceAll("'", '"')
    .replaceAll('(', '[')
    .replaceAll(')', ']')
    .replace(/,\s*\]/g, ']')
    // A dict of Python and a map of DuckDB have numbers as keys.
    .replace(/([{,]\s*)(\d[\w.+-]*)\s*[:=]/g, '$1"$2":');
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}

/**
 * Reads a row into a snapshot, or the reason why that is not possible. A side that is missing is empty; a row without both
 * sides is rejected.
 * @param futureMs latest time accepted, epoch ms
 */
export function readBookRow(
  row: BookRow,
  rules: TickRowRules,
  futureMs: number,
): { readonly symbol: string; readonly snapshot: OrderBookSnapshot } | { readonly reason: string } {
  const { symbol } = row;
  if (symbol === null || symbol === '') return { reason: 'symbol is missing' };
  if (!isSymbolName(symbol)) return { reason: 'symbol is not text' };
  const t = row.t === null || row.t.trim() === '' ? { reason: 'is missing' } : parseTimeText(row.t, rules);
  if (typeof t !== 'number') return { reason: `t ${t.reason}` };
  if ((row.bids ?? '') === '' && (row.asks ?? '') === '') return { reason: 'bids and asks are missing' };
  const sides: { bids: Level[]; asks: Level[] } = { bids: [], asks: [] };
  for (const side of ['bids', 'asks'] as const) {
    const text = row[side];
    if (text === null || text === '') continue;
    const levels = parseLevels(text);
    if (levels === null) return { reason: `${side} is not a list of levels` };
    sides[side] = levels.map((level) => scaleLevel(level, rules));
  }
  const { snapshots, flaws } = parseOrderBooks({ ...sides, t }, { symbol, observedAt: t, futureMs });
  const [snapshot] = snapshots;
  if (snapshot === undefined || flaws.length > 0) return { reason: flaws[0] ?? 'no order book' };
  return { symbol, snapshot };
}

function scaleLevel({ price, quantity }: Level, { priceScale }: TickRowRules): Level {
  const number = typeof price === 'string' && price.trim() !== '' ? Number(price) : price;
  if (priceScale === null || typeof number !== 'number') return { price, quantity };
  return { price: (number * priceScale.factor) / priceScale.divisor, quantity };
}

/** A row of order books with one level each, as text. */
export interface LevelRow {
  readonly symbol: string | null;
  readonly t: string | null;
  readonly side: string | null;
  readonly price: string | null;
  readonly quantity: string | null;
}

/** Joins rows that have the same symbol and the same text of a time, and follow one another, into rows of order books. */
export interface LevelJoiner {
  /** Adds a row; returns the order book that ended before it. */
  add(row: LevelRow): BookRow | null;
  /** Returns the last order book. */
  end(): BookRow | null;
}

/**
 * @throws UsageError from `add` if levels of one symbol are not in the order of time: then the levels of an order book may be
 * apart, and each part of it would be taken for all of it
 */
export function joinLevels(rules: TickRowRules, describeFile: string): LevelJoiner {
  let current: { readonly row: LevelRow; readonly bids: unknown[]; readonly asks: unknown[] } | null = null;
  const lastTimes = new Map<string, number>();
  const toBook = (): BookRow | null =>
    current === null
      ? null
      : {
          symbol: current.row.symbol,
          t: current.row.t,
          bids: JSON.stringify(current.bids),
          asks: JSON.stringify(current.asks),
        };
  return {
    add(row) {
      const isSame = current !== null && current.row.symbol === row.symbol && current.row.t === row.t;
      const ended = isSame ? null : toBook();
      if (!isSame) {
        const t = parseTimeText(row.t ?? '', rules);
        if (typeof t === 'number' && row.symbol !== null) {
          if (t <= (lastTimes.get(row.symbol) ?? Number.NEGATIVE_INFINITY))
            throw new UsageError(
              `${describeFile}: the levels of ${row.symbol} are not in the order of time. Sort the file by symbol and t.`,
            );
          lastTimes.set(row.symbol, t);
        }
        current = { row, bids: [], asks: [] };
      }
      addLevel(current!, row);
      return ended;
    },
    end: toBook,
  };
}

function addLevel({ bids, asks }: { bids: unknown[]; asks: unknown[] }, { side, price, quantity }: LevelRow): void {
  const name = (side ?? '').trim().toLowerCase();
  // The one row of an empty order book.
  if (/^nan$/i.test(price ?? '') && Number(quantity) === 0) return;
  const level = [price, quantity];
  if (/^(bid|bids|buy)$/.test(name)) bids.push(level);
  else if (/^(ask|asks|offer|sell)$/.test(name)) asks.push(level);
  // Not a level: the whole order book is rejected.
  else bids.push(side);
}
