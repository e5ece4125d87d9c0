import {
  compareSnapshots,
  type OrderBookSnapshot,
  type PriceLevel,
  toBookSide,
} from '../../archive/format/order-book.ts';
import { findTimeFlaw } from '../paging/observation.ts';

/** What an answer of the order-book route says. */
export interface ParsedBooks {
  /** One for each moment, in order of time. */
  readonly snapshots: readonly OrderBookSnapshot[];
  /** Why parts of the answer, or all of it, could not be understood; one clause each. */
  readonly flaws: readonly string[];
}

export interface BookRequest {
  readonly symbol: string;
  /** When the answer was generated, or asked for where it does not say: the time of a snapshot that has none. */
  readonly observedAt: number;
  /** The latest time that is believed, epoch ms. */
  readonly futureMs: number;
}

type JsonFields = Readonly<Record<string, unknown>>;

/** What stands around a book counts for it, too, unless it says otherwise itself. */
interface EnclosingFields {
  readonly time: unknown;
  readonly symbol: unknown;
  readonly outcome: unknown;
}

const noEnclosingFields: EnclosingFields = { time: undefined, symbol: undefined, outcome: undefined };

const timeNames = ['t', 'timestamp', 'time', 'ts'];
const wrapperNames = ['orderbook', 'order_book', 'book', 'orderbook_fp', 'data', 'result'];
const listNames = ['orderbooks', 'order_books', 'books', 'snapshots', 'snapshot'];

/** Wrappings around a book that are looked through. */
const depthMax = 5;

/**
 * Reads the snapshots of an answer in whatever shape the venue's books come; see `parseSide` for levels. Asks of YES may
 * be told as bids of NO. Nothing is repaired by guessing: what is not understood is a flaw, and no part of that snapshot
 * is kept.
 */
export function parseOrderBooks(body: unknown, question: BookRequest): ParsedBooks {
  const flaws: string[] = [];
  const byTime = new Map<number, OrderBookSnapshot>();
  const doubtful = new Set<number>();
  const others: string[] = [];
  const take = (book: JsonFields, told: EnclosingFields): void => {
    if (typeof told.symbol === 'string' && told.symbol !== question.symbol) {
      others.push(`it names another symbol, ${JSON.stringify(told.symbol.slice(0, 80))}`);
      return;
    }
    const snapshot = parseBook(book, told, question);
    const held = byTime.get(snapshot.t);
    if (held !== undefined && compareSnapshots(held, snapshot) !== 0) doubtful.add(snapshot.t);
    byTime.set(snapshot.t, snapshot);
  };
  const walk = (value: unknown, told: EnclosingFields, depth: number): void => {
    try {
      if (Array.isArray(value) && depth < depthMax) {
        const both = joinOutcomes(value);
        for (const item of both === null ? value : [both]) walk(item, told, depth + 1);
        return;
      }
      const fields = requireObject(value);
      const around = readEnclosingFields(fields, told);
      const inside = unwrapBook(fields, question.symbol);
      if (hasSides(fields)) take(fields, around);
      else if (inside === undefined || depth >= depthMax) throw new BookParseError('no bids and asks in it');
      // The service knows the symbol and has no book of it.
      else if (inside !== null) walk(inside, around, depth + 1);
    } catch (error) {
      if (!(error instanceof BookParseError)) throw error;
      flaws.push(error.message);
    }
  };
  walk(body, noEnclosingFields, 0);
  // Beside the one that was asked for, nobody asked for them: they come with their own question.
  for (const other of byTime.size === 0 ? others : []) flaws.push(other);
  for (const t of doubtful) {
    byTime.delete(t);
    flaws.push(`two different books of ${new Date(t).toISOString()}`);
  }
  return { snapshots: [...byTime.values()].sort((a, b) => a.t - b.t), flaws };
}

/** A list of the books of YES and NO as one book of both; null where it is no such list. */
function joinOutcomes(items: readonly unknown[]): JsonFields | null {
  const named = (outcome: RegExp): JsonFields[] =>
    items.filter((item): item is JsonFields => {
      const name = (item as JsonFields | null)?.outcome;
      return typeof name === 'string' && outcome.test(name);
    });
  const no = named(/^no$/i);
  if (no.length === 0) return null;
  const yes = named(/^yes$/i);
  if (items.length !== 2 || yes.length !== 1)
    throw new BookParseError('books of the outcome NO, not one beside one of YES');
  const { time, symbol } = readEnclosingFields(yes[0]!, noEnclosingFields);
  if (readEnclosingFields(no[0]!, noEnclosingFields).time !== time)
    throw new BookParseError('books of YES and NO of two moments');
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

/** What an object without sides is wrapped around; undefined where that is nothing known. */
function unwrapBook(fields: JsonFields, symbol: string): unknown {
  const name = [...wrapperNames, ...listNames, symbol].find(
    (known) => Object.hasOwn(fields, known) && typeof fields[known] === 'object',
  );
  return name === undefined ? undefined : fields[name];
}

function parseBook(
  fields: JsonFields,
  told: EnclosingFields,
  { observedAt, futureMs }: BookRequest,
): OrderBookSnapshot {
  if (typeof told.outcome === 'string' && /^no$/i.test(told.outcome))
    throw new BookParseError('it is the book of the outcome NO');
  const t = told.time === undefined ? observedAt : parseBookTime(told.time);
  const flaw = findTimeFlaw(t, futureMs);
  if (flaw !== undefined) throw new BookParseError(flaw);
  const { bids, asks } = parseSides(fields);
  const kept = (levels: readonly PriceLevel[]): PriceLevel[] => levels.filter(({ quantity }) => quantity > 0);
  return { t, bids: toBookSide(kept(bids), 'highest'), asks: toBookSide(kept(asks), 'lowest') };
}

/** Epoch milliseconds as a number or its digits, or an ISO-8601 instant with a zone; NaN for anything else. */
function parseBookTime(value: unknown): number {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string') return Number.NaN;
  if (/^\d{1,16}$/.test(value)) return Number(value);
  return /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*(Z|[+-]\d\d:?\d\d)$/.test(value) ? Date.parse(value) : Number.NaN;
}

const bidNames = ['bids', 'bid', 'buys', 'buy'];
const askNames = ['asks', 'ask', 'offers', 'offer', 'sells', 'sell'];
// Dollars are fractions of one; the cents that venues put beside them are not needed then.
const yesNames = ['yes_dollars', 'yes', 'YES', 'Yes'];
const noNames = ['no_dollars', 'no', 'NO', 'No'];

/** A field that may hold levels: a list, an object, or null for none. A number may be just the best price. */
const pickFieldName = (fields: JsonFields, names: readonly string[]): string | undefined =>
  names.find((name) => Object.hasOwn(fields, name) && typeof fields[name] === 'object');

/** Whether an object is a book, rather than wrapped around one. */
export const hasSides = (fields: JsonFields): boolean =>
  [bidNames, askNames, yesNames, noNames].some((names) => pickFieldName(fields, names) !== undefined);

interface BookSides {
  readonly bids: readonly PriceLevel[];
  readonly asks: readonly PriceLevel[];
}

/**
 * The levels of an object that has sides, in the order they came.
 * @throws BookParseError
 */
export function parseSides(fields: JsonFields): BookSides {
  const bidName = pickFieldName(fields, bidNames);
  const askName = pickFieldName(fields, askNames);
  if (bidName === undefined && askName === undefined) return parseOutcomeSides(fields);
  const told = fields[bidName ?? ''];
  const offered = fields[askName ?? ''];
  const byOutcome = splitByOutcome(told);
  if (byOutcome !== null || splitByOutcome(offered) !== null) {
    if (byOutcome === null || parseSide(offered).length > 0)
      throw new BookParseError('it has bids or asks of the outcome NO beside asks');
    return parseOutcomeSides(byOutcome);
  }
  requireBothSides(fields, bidName, askName);
  const bids = parseSide(told);
  const asks = parseSide(offered);
  requireFractions([...bids, ...asks]);
  return { bids, asks };
}

/** The levels of both outcomes, where a side holds those of NO, too; else null. */
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
    const said = (level as JsonFields)[name];
    return typeof said === 'string' && /^no$/i.test(said);
  });
}

/** A bid for NO at a price is an offer of YES at what it leaves of 1. */
function parseOutcomeSides(fields: JsonFields): BookSides {
  const yesName = pickFieldName(fields, yesNames);
  const noName = pickFieldName(fields, noNames);
  const yes = fields[yesName ?? ''];
  const no = fields[noName ?? ''];
  // With asks of its own the book of YES is whole; the one of NO tells the same from the other side.
  if (isBook(yes) && parseSide(yes[pickFieldName(yes, askNames) ?? '']).length > 0) return parseSides(yes);
  requireBothSides(fields, yesName, noName);
  if (isBook(no) && pickFieldName(no, bidNames) === undefined) throw new BookParseError('the outcome NO has no bids');
  const bids = parseSide(getBids(yes));
  const noBids = parseSide(getBids(no));
  requireFractions([...bids, ...noBids]);
  return { bids, asks: noBids.map(({ price, quantity }) => ({ price: computeComplement(price), quantity })) };
}

const isBook = (value: unknown): value is JsonFields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && hasSides(value as JsonFields);

const getBids = (value: unknown): unknown => (isBook(value) ? value[pickFieldName(value, bidNames) ?? ''] : value);

/**
 * Refuses a book of one side where another field may hold the other: only one that has nothing of the kind leaves out
 * an empty side.
 */
function requireBothSides(fields: JsonFields, one: string | undefined, other: string | undefined): void {
  if (one !== undefined && other !== undefined) return;
  const present = one ?? other;
  const strange = Object.entries(fields).find(
    ([name, value]) => name !== present && typeof value === 'object' && value !== null,
  );
  if (strange !== undefined)
    throw new BookParseError(`it has ${present}, and no other side but ${JSON.stringify(strange[0].slice(0, 40))}`);
}

/** Why a book cannot be kept; `message` is a clause for the reason. */
export class BookParseError extends Error {}

/** Names of a level's fields; venues differ. */
const priceNames = ['price', 'p', 'px'];
const quantityNames = ['quantity', 'qty', 'q', 'size', 'sz', 'amount', 'volume'];

/**
 * Reads one side: a list of `[price, quantity]` or of objects, or an object from price to quantity; numbers or their
 * text. Levels without quantity are no levels: that is how feeds say that a price is gone.
 * @throws BookParseError for anything else: a book with a part of its levels would be another book
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
 * @throws BookParseError
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
