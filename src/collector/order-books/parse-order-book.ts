import {
  compareSnapshots,
  type OrderBookSnapshot,
  type PriceLevel,
  toBookSide,
} from '../../archive/format/order-book.ts';
import { findTimeFlaw } from '../paging/observation.ts';

/** The content of a response of the order-book route. */
interface ParsedBooks {
  /** One per time, in chronological order. */
  readonly snapshots: readonly OrderBookSnapshot[];
  /** Why parts of the response, or all of it, could not be parsed. One clause each. */
  readonly flaws: readonly string[];
}

interface BookParseContext {
  readonly symbol: string;
  /**
   * Time for snapshots that state none, epoch ms: when the response was generated or, if it does not state that, when
   * it was requested.
   */
  readonly observedAt: number;
  /** Latest time accepted, epoch ms. */
  readonly futureMs: number;
}

type JsonFields = Readonly<Record<string, unknown>>;

/** Fields of the objects around a book. They apply to the book unless its own fields override them. */
interface EnclosingFields {
  readonly time: unknown;
  readonly symbol: unknown;
  readonly outcome: unknown;
}

const noEnclosingFields: EnclosingFields = { time: undefined, symbol: undefined, outcome: undefined };

const timeNames = ['t', 'timestamp', 'time', 'ts'];
const wrapperNames = ['orderbook', 'order_book', 'book', 'orderbook_fp', 'data', 'result'];
const listNames = ['orderbooks', 'order_books', 'books', 'snapshots', 'snapshot'];

/** Maximum nesting depth of objects around a book. */
const depthMax = 5;

/**
 * Parses the snapshots of a response, in any of the shapes that venues use; see `parseSide` for levels. Asks for YES
 * may be stated as bids for NO. Values are never guessed: a snapshot that cannot be parsed is a flaw, and no part of it
 * is kept.
 */
export function parseOrderBooks(body: unknown, request: BookParseContext): ParsedBooks {
  const flaws: string[] = [];
  const byTime = new Map<number, OrderBookSnapshot>();
  const doubtful = new Set<number>();
  const otherSymbolFlaws: string[] = [];
  const addBook = (book: JsonFields, enclosing: EnclosingFields): void => {
    if (typeof enclosing.symbol === 'string' && enclosing.symbol !== request.symbol) {
      otherSymbolFlaws.push(`the book names another symbol: ${JSON.stringify(enclosing.symbol.slice(0, 80))}`);
      return;
    }
    const snapshot = parseBook(book, enclosing, request);
    const existing = byTime.get(snapshot.t);
    if (existing !== undefined && compareSnapshots(existing, snapshot) !== 0) doubtful.add(snapshot.t);
    byTime.set(snapshot.t, snapshot);
  };
  const walk = (value: unknown, enclosing: EnclosingFields, depth: number): void => {
    try {
      if (Array.isArray(value) && depth < depthMax) {
        const joined = joinOutcomes(value);
        for (const item of joined === null ? value : [joined]) walk(item, enclosing, depth + 1);
        return;
      }
      const fields = requireObject(value);
      const inherited = readEnclosingFields(fields, enclosing);
      const content = unwrapBook(fields, request.symbol);
      if (hasSides(fields)) addBook(fields, inherited);
      else if (content === undefined || depth >= depthMax) throw new BookParseError('no bids or asks');
      // Null: the service knows the symbol and has no book for it.
      else if (content !== null) walk(content, inherited, depth + 1);
    } catch (error) {
      if (!(error instanceof BookParseError)) throw error;
      flaws.push(error.message);
    }
  };
  walk(body, noEnclosingFields, 0);
  // Books of other symbols are ignored if the response contains the requested one.
  for (const flaw of byTime.size === 0 ? otherSymbolFlaws : []) flaws.push(flaw);
  for (const t of doubtful) {
    byTime.delete(t);
    flaws.push(`two different order books at ${new Date(t).toISOString()}`);
  }
  return { snapshots: [...byTime.values()].sort((a, b) => a.t - b.t), flaws };
}

/** Joins a list of one YES book and one NO book into one book. Null if the list has no NO book. */
function joinOutcomes(items: readonly unknown[]): JsonFields | null {
  const named = (outcome: RegExp): JsonFields[] =>
    items.filter((item): item is JsonFields => {
      const name = (item as JsonFields | null)?.outcome;
      return typeof name === 'string' && outcome.test(name);
    });
  const no = named(/^no$/i);
  if (no.length === 0) return null;
  const yes = named(/^yes$/i);
  if (items.length !== 2 || yes.length !== 1) throw new BookParseError('expected one book for YES and one for NO');
  const { time, symbol } = readEnclosingFields(yes[0]!, noEnclosingFields);
  if (readEnclosingFields(no[0]!, noEnclosingFields).time !== time)
    throw new BookParseError('the books for YES and NO have different times');
  return { t: time, symbol, yes: yes[0], no: no[0] };
}

function requireObject(value: unknown): JsonFields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new BookParseError('not an object');
  return value as JsonFields;
}

function readEnclosingFields(fields: JsonFields, outer: EnclosingFields): EnclosingFields {
  const timeName = timeNames.find((name) => (fields[name] ?? null) !== null && Object.hasOwn(fields, name));
  return {
    time: timeName === undefined ? outer.time : fields[timeName],
    symbol: fields.symbol ?? outer.symbol,
    outcome: fields.outcome ?? outer.outcome,
  };
}

/** The content of an object without sides. Undefined if no known wrapper field is present. */
function unwrapBook(fields: JsonFields, symbol: string): unknown {
  const name = [...wrapperNames, ...listNames, symbol].find(
    (known) => Object.hasOwn(fields, known) && typeof fields[known] === 'object',
  );
  return name === undefined ? undefined : fields[name];
}

function parseBook(
  fields: JsonFields,
  enclosing: EnclosingFields,
  { observedAt, futureMs }: BookParseContext,
): OrderBookSnapshot {
  if (typeof enclosing.outcome === 'string' && /^no$/i.test(enclosing.outcome))
    throw new BookParseError('the book is for the outcome NO');
  const t = enclosing.time === undefined ? observedAt : parseBookTime(enclosing.time);
  const flaw = findTimeFlaw(t, futureMs);
  if (flaw !== undefined) throw new BookParseError(flaw);
  const { bids, asks } = parseSides(fields);
  const kept = (levels: readonly PriceLevel[]): PriceLevel[] => levels.filter(({ quantity }) => quantity > 0);
  return { t, bids: toBookSide(kept(bids), 'highest'), asks: toBookSide(kept(asks), 'lowest') };
}

/** Parses epoch milliseconds, as a number or its digits, or an ISO-8601 time with a zone. NaN for anything else. */
function parseBookTime(value: unknown): number {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string') return Number.NaN;
  if (/^\d{1,16}$/.test(value)) return Number(value);
  return /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*(Z|[+-]\d\d:?\d\d)$/.test(value) ? Date.parse(value) : Number.NaN;
}

const bidNames = ['bids', 'bid', 'buys', 'buy'];
const askNames = ['asks', 'ask', 'offers', 'offer', 'sells', 'sell'];
// Prices in dollars are fractions of 1. They take precedence over the prices in cents that venues put beside them.
const yesNames = ['yes_dollars', 'yes', 'YES', 'Yes'];
const noNames = ['no_dollars', 'no', 'NO', 'No'];

/**
 * Returns the name of a field that may hold levels: a list, an object, or null for none. A number may be only the best
 * price.
 */
const pickFieldName = (fields: JsonFields, names: readonly string[]): string | undefined =>
  names.find((name) => Object.hasOwn(fields, name) && typeof fields[name] === 'object');

/** Whether an object is a book, and not a wrapper around one. */
const hasSides = (fields: JsonFields): boolean =>
  [bidNames, askNames, yesNames, noNames].some((names) => pickFieldName(fields, names) !== undefined);

interface BookSides {
  readonly bids: readonly PriceLevel[];
  readonly asks: readonly PriceLevel[];
}

/**
 * Parses the levels of an object with sides, in the order received.
 * @throws BookParseError
 */
function parseSides(fields: JsonFields): BookSides {
  const bidName = pickFieldName(fields, bidNames);
  const askName = pickFieldName(fields, askNames);
  if (bidName === undefined && askName === undefined) return parseOutcomeSides(fields);
  const bidLevels = fields[bidName ?? ''];
  const askLevels = fields[askName ?? ''];
  const byOutcome = splitByOutcome(bidLevels);
  if (byOutcome !== null || splitByOutcome(askLevels) !== null) {
    if (byOutcome === null || parseSide(askLevels).length > 0)
      throw new BookParseError('both asks and levels for the outcome NO');
    return parseOutcomeSides(byOutcome);
  }
  requireBothSides(fields, bidName, askName);
  const bids = parseSide(bidLevels);
  const asks = parseSide(askLevels);
  requireFractions([...bids, ...asks]);
  return { bids, asks };
}

/** The levels of both outcomes, if a side contains levels of NO. Otherwise null. */
function splitByOutcome(side: unknown): JsonFields | null {
  if (typeof side !== 'object' || side === null) return null;
  if (!Array.isArray(side))
    return pickFieldName(side as JsonFields, [...yesNames, ...noNames]) === undefined ? null : (side as JsonFields);
  const no = side.filter(isNoOutcome);
  return no.length === 0 ? null : { yes: side.filter((level) => !isNoOutcome(level)), no };
}

function isNoOutcome(level: unknown): boolean {
  if (typeof level !== 'object' || level === null) return false;
  return ['outcome', 'side'].some((name) => {
    const outcome = (level as JsonFields)[name];
    return typeof outcome === 'string' && /^no$/i.test(outcome);
  });
}

/** Parses levels by outcome. A bid for NO at a price is an ask for YES at 1 minus that price. */
function parseOutcomeSides(fields: JsonFields): BookSides {
  const yesName = pickFieldName(fields, yesNames);
  const noName = pickFieldName(fields, noNames);
  const yes = fields[yesName ?? ''];
  const no = fields[noName ?? ''];
  // If the YES book has asks, it is complete: the NO book states the same levels from the other side.
  if (isBook(yes) && parseSide(yes[pickFieldName(yes, askNames) ?? '']).length > 0) return parseSides(yes);
  requireBothSides(fields, yesName, noName);
  if (isBook(no) && pickFieldName(no, bidNames) === undefined)
    throw new BookParseError('the book for the outcome NO has no bids');
  const bids = parseSide(getBids(yes));
  const noBids = parseSide(getBids(no));
  requireFractions([...bids, ...noBids]);
  return { bids, asks: noBids.map(({ price, quantity }) => ({ price: computeComplement(price), quantity })) };
}

const isBook = (value: unknown): value is JsonFields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && hasSides(value as JsonFields);

const getBids = (value: unknown): unknown => (isBook(value) ? value[pickFieldName(value, bidNames) ?? ''] : value);

/** Rejects a book with one side if another field may hold the other side. A side may be absent only if no such field exists. */
function requireBothSides(fields: JsonFields, oneName: string | undefined, otherName: string | undefined): void {
  if (oneName !== undefined && otherName !== undefined) return;
  const present = oneName ?? otherName;
  const unknownField = Object.entries(fields).find(
    ([name, value]) => name !== present && typeof value === 'object' && value !== null,
  );
  if (unknownField !== undefined)
    throw new BookParseError(
      `only one side, ${present}; unknown field ${JSON.stringify(unknownField[0].slice(0, 40))}`,
    );
}

/** Why a book cannot be kept. `message` is one clause. */
class BookParseError extends Error {}

/** Field names of a level. Venues differ. */
const priceNames = ['price', 'p', 'px'];
const quantityNames = ['quantity', 'qty', 'q', 'size', 'sz', 'amount', 'volume'];

/**
 * Parses one side: a list of `[price, quantity]` or of objects, or an object that maps prices to quantities, each as
 * numbers or text. A level with quantity 0 means that the price was removed.
 * @throws BookParseError for anything else: a book without some of its levels would be wrong
 */
function parseSide(value: unknown): PriceLevel[] {
  if (value === null || value === undefined) return [];
  if (Array.isArray(value)) return value.map(parseLevel);
  if (typeof value !== 'object') throw new BookParseError('a side is not a list');
  return Object.entries(value).map(([price, quantity]) => toLevel(price, quantity));
}

function parseLevel(value: unknown): PriceLevel {
  if (Array.isArray(value)) {
    // A third number may be a count, an amount or a time. Then the second one may not be a quantity either.
    if (value.length !== 2) throw new BookParseError(`a level has ${value.length} values, expected price and quantity`);
    return toLevel(value[0], value[1]);
  }
  if (typeof value !== 'object' || value === null) throw new BookParseError('a level is neither a list nor an object');
  return toLevel(getField(value, priceNames), getField(value, quantityNames));
}

/** Returns the value of the field that has one of several names. Rejects two such fields with different values. */
function getField(level: object, names: readonly string[]): unknown {
  const presentNames = names.filter((name) => Object.hasOwn(level, name));
  const values = presentNames.map((name) => (level as Record<string, unknown>)[name]);
  if (values.length === 0) throw new BookParseError(`a level has no ${names[0]}`);
  if (values.slice(1).some((value) => parseDecimal(value) !== parseDecimal(values[0])))
    throw new BookParseError(`a level has both ${presentNames[0]} and ${presentNames[1]}`);
  return values[0];
}

function toLevel(price: unknown, quantity: unknown): PriceLevel {
  const level = { price: parseDecimal(price), quantity: parseDecimal(quantity) };
  if (!Number.isFinite(level.price)) throw new BookParseError(`price ${formatQuoted(price)} is not a number`);
  // Cents are not converted to fractions: a wrong guess would be a wrong price.
  if (level.price < 0 || level.price > 1) throw new BookParseError(`price ${formatQuoted(price)} is outside 0 to 1`);
  if (!Number.isFinite(level.quantity)) throw new BookParseError(`quantity ${formatQuoted(quantity)} is not a number`);
  if (level.quantity < 0) throw new BookParseError(`quantity ${formatQuoted(quantity)} is negative`);
  return level;
}

/** Parses a number, or a number as text. NaN for anything else. */
function parseDecimal(value: unknown): number {
  if (typeof value === 'number') return value;
  const isText = typeof value === 'string' && /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$/i.test(value);
  return isText ? Number(value) : Number.NaN;
}

const formatQuoted = (value: unknown): string => (JSON.stringify(value) ?? 'undefined').slice(0, 40);

/**
 * Rejects levels that may be in cents although all prices lie between 0 and 1: one cent is written as 1. A price
 * between 0 and 1 proves that they are fractions.
 * @throws BookParseError
 */
function requireFractions(levels: readonly PriceLevel[]): void {
  if (levels.some(({ price }) => price === 1) && !levels.some(({ price }) => price > 0 && price < 1))
    throw new BookParseError('price 1 is ambiguous without a price between 0 and 1: it may be one cent');
}

/**
 * Computes 1 - `price` in decimal: 0.58 for 0.42, not 0.5800000000000001 as in doubles. Exact up to 15 decimals; longer ones
 * are subtracted as doubles.
 */
export function computeComplement(price: number): number {
  const match = /^\d(?:\.(\d{1,15}))?$/.exec(String(price));
  if (match === null) return 1 - price;
  const scale = 10 ** (match[1]?.length ?? 0);
  return (scale - Math.round(price * scale)) / scale;
}
