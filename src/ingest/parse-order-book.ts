import { compareContent, type Level, type Snapshot, sideOf } from '../core/book.ts';
import { hasSides, sidesOf } from './find-book-sides.ts';
import { NotUnderstood } from './parse-book-levels.ts';
import { timeFlaw } from './validate-ticks.ts';

/** What an answer of the order-book route says. */
export interface BookReading {
  /** One for each moment, in order of time. */
  readonly snapshots: readonly Snapshot[];
  /** Why parts of the answer, or all of it, could not be understood; one clause each. */
  readonly flaws: readonly string[];
}

export interface BookQuestion {
  readonly symbol: string;
  /** When the answer was generated, or asked for where it does not say: the time of a snapshot that has none. */
  readonly answeredAt: number;
  /** The latest time that is believed, epoch ms. */
  readonly futureMs: number;
}

type Fields = Readonly<Record<string, unknown>>;

/** What stands around a book counts for it, too, unless it says otherwise itself. */
interface Told {
  readonly time: unknown;
  readonly symbol: unknown;
  readonly outcome: unknown;
}

const nothingTold: Told = { time: undefined, symbol: undefined, outcome: undefined };

const timeNames = ['t', 'timestamp', 'time', 'ts'];
const wrappings = ['orderbook', 'order_book', 'book', 'orderbook_fp', 'data', 'result'];
const lists = ['orderbooks', 'order_books', 'books', 'snapshots', 'snapshot'];

/** Wrappings around a book that are looked through. */
const depthMax = 5;

/**
 * Reads the snapshots of an answer in whatever shape the venue's books come; see `readSide` for levels. Asks of YES may
 * be told as bids of NO. Nothing is repaired by guessing: what is not understood is a flaw, and no part of that snapshot
 * is kept.
 */
export function readBooks(body: unknown, question: BookQuestion): BookReading {
  const flaws: string[] = [];
  const byTime = new Map<number, Snapshot>();
  const doubtful = new Set<number>();
  const others: string[] = [];
  const take = (book: Fields, told: Told): void => {
    if (typeof told.symbol === 'string' && told.symbol !== question.symbol) {
      others.push(`it names another symbol, ${JSON.stringify(told.symbol.slice(0, 80))}`);
      return;
    }
    const snapshot = readBook(book, told, question);
    const held = byTime.get(snapshot.t);
    if (held !== undefined && compareContent(held, snapshot) !== 0) doubtful.add(snapshot.t);
    byTime.set(snapshot.t, snapshot);
  };
  const walk = (value: unknown, told: Told, depth: number): void => {
    try {
      if (Array.isArray(value) && depth < depthMax) {
        const both = outcomesIn(value);
        for (const item of both === null ? value : [both]) walk(item, told, depth + 1);
        return;
      }
      const fields = objectOf(value);
      const around = toldBy(fields, told);
      const inside = wrapped(fields, question.symbol);
      if (hasSides(fields)) take(fields, around);
      else if (inside === undefined || depth >= depthMax) throw new NotUnderstood('no bids and asks in it');
      // The service knows the symbol and has no book of it.
      else if (inside !== null) walk(inside, around, depth + 1);
    } catch (error) {
      if (!(error instanceof NotUnderstood)) throw error;
      flaws.push(error.message);
    }
  };
  walk(body, nothingTold, 0);
  // Beside the one that was asked for, nobody asked for them: they come with their own question.
  for (const other of byTime.size === 0 ? others : []) flaws.push(other);
  for (const t of doubtful) {
    byTime.delete(t);
    flaws.push(`two different books of ${new Date(t).toISOString()}`);
  }
  return { snapshots: [...byTime.values()].sort((a, b) => a.t - b.t), flaws };
}

/** A list of the books of YES and NO as one book of both; null where it is no such list. */
function outcomesIn(items: readonly unknown[]): Fields | null {
  const named = (outcome: RegExp): Fields[] =>
    items.filter((item): item is Fields => {
      const name = (item as Fields | null)?.outcome;
      return typeof name === 'string' && outcome.test(name);
    });
  const no = named(/^no$/i);
  if (no.length === 0) return null;
  const yes = named(/^yes$/i);
  if (items.length !== 2 || yes.length !== 1)
    throw new NotUnderstood('books of the outcome NO, not one beside one of YES');
  const { time, symbol } = toldBy(yes[0]!, nothingTold);
  if (toldBy(no[0]!, nothingTold).time !== time) throw new NotUnderstood('books of YES and NO of two moments');
  return { t: time, symbol, yes: yes[0], no: no[0] };
}

function objectOf(value: unknown): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new NotUnderstood('not an object');
  return value as Fields;
}

function toldBy(fields: Fields, outer: Told): Told {
  const timeName = timeNames.find((name) => (fields[name] ?? null) !== null && Object.hasOwn(fields, name));
  return {
    time: timeName === undefined ? outer.time : fields[timeName],
    symbol: fields.symbol ?? outer.symbol,
    outcome: fields.outcome ?? outer.outcome,
  };
}

/** What an object without sides is wrapped around; undefined where that is nothing known. */
function wrapped(fields: Fields, symbol: string): unknown {
  const name = [...wrappings, ...lists, symbol].find(
    (known) => Object.hasOwn(fields, known) && typeof fields[known] === 'object',
  );
  return name === undefined ? undefined : fields[name];
}

function readBook(fields: Fields, told: Told, { answeredAt, futureMs }: BookQuestion): Snapshot {
  if (typeof told.outcome === 'string' && /^no$/i.test(told.outcome))
    throw new NotUnderstood('it is the book of the outcome NO');
  const t = told.time === undefined ? answeredAt : timeOf(told.time);
  const flaw = timeFlaw(t, futureMs);
  if (flaw !== undefined) throw new NotUnderstood(flaw);
  const { bids, asks } = sidesOf(fields);
  const kept = (levels: readonly Level[]): Level[] => levels.filter(({ quantity }) => quantity > 0);
  return { t, bids: sideOf(kept(bids), 'highest'), asks: sideOf(kept(asks), 'lowest') };
}

/** Epoch milliseconds as a number or its digits, or an ISO-8601 instant with a zone; NaN for anything else. */
function timeOf(value: unknown): number {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string') return Number.NaN;
  if (/^\d{1,16}$/.test(value)) return Number(value);
  return /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*(Z|[+-]\d\d:?\d\d)$/.test(value) ? Date.parse(value) : Number.NaN;
}
