import { compareSnapshots, type OrderBookSnapshot, type PriceLevel, toBookSide } from '../core/book.ts';
import { hasSides, parseSides } from './find-book-sides.ts';
import { findTimeFlaw } from './observation.ts';
import { BookParseError } from './parse-book-levels.ts';

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
 * Reads the snapshots of an answer in whatever shape the venue's books come; see `readSide` for levels. Asks of YES may
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
