import type { OrderBookSnapshot } from '../../archive/format/order-book.ts';
import { UsageError } from '../../base/errors.ts';
import { formatIsoUtc } from '../../base/time.ts';
import { parseOrderBooks } from '../order-books/parse-order-book.ts';
import { explainSymbol, isUsableSymbol, parseTimeText, type TickRowRules } from './import-rows.ts';

/** A row of order books, as text: one snapshot, whose sides are lists of levels. */
export interface BookRow {
  readonly symbol: string | null;
  readonly t: string | null;
  readonly bids: string | null;
  readonly asks: string | null;
  /** Why the row cannot be used. Null, or absent, if it can. */
  readonly fault?: string | null;
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
  const { symbol, fault = null } = row;
  if (fault !== null) return { reason: fault };
  if (!isUsableSymbol(symbol)) return { reason: explainSymbol(symbol) };
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

function scaleLevel(level: Level, { priceScale, hasDecimalComma }: TickRowRules): Level {
  const read = (value: unknown): unknown =>
    hasDecimalComma && typeof value === 'string' ? value.replace(',', '.') : value;
  const [price, quantity] = [read(level.price), read(level.quantity)];
  const number = typeof price === 'string' && price.trim() !== '' ? Number(price) : price;
  if (priceScale === null || typeof number !== 'number') return { price, quantity };
  return { price: (number * priceScale.factor) / priceScale.divisor, quantity };
}

/** A row of order books with one level each, as text. */
interface LevelRow {
  readonly symbol: string | null;
  readonly t: string | null;
  readonly side: string | null;
  readonly level: string | null;
  readonly price: string | null;
  readonly quantity: string | null;
}

interface JoinedBook {
  readonly row: LevelRow;
  readonly bids: unknown[];
  readonly asks: unknown[];
  /** Sides with the number of each level, or its price. */
  readonly levels: Set<string>;
  fault: string | null;
}

/**
 * Joins rows that have the same symbol and the same text of a time, and follow one another, into rows of order books.
 * @throws UsageError from `add` if a level cannot be assigned to an order book, or if the time of an order book is written in
 * two ways: then each part of an order book would be taken for all of it
 */
export function joinLevels(rules: TickRowRules, describeFile: string) {
  let current: JoinedBook | null = null;
  /** The times of the current symbol, and whether they are whole milliseconds. */
  const times = new Map<number, boolean>();
  const toBook = (): BookRow | null => {
    if (current === null) return null;
    const { row, bids, asks, fault } = current;
    return { symbol: row.symbol, t: row.t, bids: JSON.stringify(bids), asks: JSON.stringify(asks), fault };
  };
  const checkTime = (symbol: string, text: string): void => {
    const t = parseTimeText(text, rules);
    if (typeof t !== 'number') return;
    // Several order books of one millisecond differ once their times are truncated.
    const isWhole = typeof parseTimeText(text, { ...rules, truncates: false }) === 'number';
    if (isWhole && times.get(t) === true)
      throw new UsageError(
        `${describeFile}: the time ${formatIsoUtc(t)} of ${symbol} is written in two ways: the levels of its order book are apart.`,
      );
    times.set(t, isWhole);
  };
  return {
    /** Adds a row; returns the order book that ended before it. The rows of a symbol follow one another. */
    add(row: LevelRow): BookRow | null {
      const { symbol, t } = row;
      if (symbol === null || symbol === '' || t === null || t.trim() === '')
        throw new UsageError(
          `${describeFile}: a level has no ${symbol === null || symbol === '' ? 'symbol' : 't'}: its order book is unknown, and would be incomplete.`,
        );
      const isSame = current !== null && current.row.symbol === symbol && current.row.t === t;
      const ended = isSame ? null : toBook();
      if (!isSame) {
        if (current?.row.symbol !== symbol) times.clear();
        checkTime(symbol, t);
        current = { row, bids: [], asks: [], levels: new Set(), fault: null };
      }
      addLevel(current!, row);
      return ended;
    },
    /** Returns the last order book. */
    end: toBook,
  };
}

function addLevel(book: JoinedBook, { side, level, price, quantity }: LevelRow): void {
  const name = (side ?? '').trim().toLowerCase();
  // The one row of an empty order book.
  if (/^nan$/i.test(price ?? '') && Number(quantity) === 0) return;
  const isBid = /^(bid|bids|buy)$/.test(name);
  // Not a level: the whole order book is rejected.
  if (!isBid && !/^(ask|asks|offer|sell)$/.test(name)) {
    book.fault ??= `side is ${JSON.stringify(side)}, expected bid or ask`;
    return;
  }
  const key = `${isBid ? 'bid' : 'ask'} ${level === null || level === '' ? `price ${price}` : `level ${level}`}`;
  if (book.levels.has(key)) book.fault ??= `${key} is there twice`;
  book.levels.add(key);
  (isBid ? book.bids : book.asks).push([price, quantity]);
}
