import { compareContent, type Level, type Snapshot, sideOf } from '../core/book.ts';
import { complement, NotUnderstood, readSide, requireFractions } from './book-side.ts';
import { timeFlaw } from './judge.ts';

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

const timeNames = ['t', 'timestamp', 'time', 'ts'];
const wrappings = ['orderbook', 'order_book', 'book', 'orderbook_fp', 'data', 'result'];
const lists = ['orderbooks', 'order_books', 'books', 'snapshots', 'snapshot'];
const bidNames = ['bids', 'bid', 'buys', 'buy'];
const askNames = ['asks', 'ask', 'offers', 'offer', 'sells', 'sell'];
// Dollars are fractions of one; the cents that venues put beside them are not needed then.
const yesNames = ['yes_dollars', 'yes', 'YES', 'Yes'];
const noNames = ['no_dollars', 'no', 'NO', 'No'];

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
  const take = (book: Fields, told: Told): void => {
    const snapshot = readBook(book, told, question);
    const held = byTime.get(snapshot.t);
    if (held !== undefined && compareContent(held, snapshot) !== 0) doubtful.add(snapshot.t);
    byTime.set(snapshot.t, snapshot);
  };
  const walk = (value: unknown, told: Told, depth: number): void => {
    if (Array.isArray(value) && depth < depthMax) {
      for (const item of value) walk(item, told, depth + 1);
      return;
    }
    try {
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
  walk(body, { time: undefined, symbol: undefined, outcome: undefined }, 0);
  for (const t of doubtful) {
    byTime.delete(t);
    flaws.push(`two different books of ${new Date(t).toISOString()}`);
  }
  return { snapshots: [...byTime.values()].sort((a, b) => a.t - b.t), flaws };
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

/** A field that may hold levels: a list, an object, or null for none. A number may be just the best price. */
const pick = (fields: Fields, names: readonly string[]): string | undefined =>
  names.find((name) => Object.hasOwn(fields, name) && typeof fields[name] === 'object');

const hasSides = (fields: Fields): boolean =>
  [bidNames, askNames, yesNames, noNames].some((names) => pick(fields, names) !== undefined);

function readBook(fields: Fields, told: Told, { symbol, answeredAt, futureMs }: BookQuestion): Snapshot {
  if (typeof told.symbol === 'string' && told.symbol !== symbol)
    throw new NotUnderstood(`it names another symbol, ${JSON.stringify(told.symbol.slice(0, 80))}`);
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

interface Sides {
  readonly bids: readonly Level[];
  readonly asks: readonly Level[];
}

function sidesOf(fields: Fields): Sides {
  const bidName = pick(fields, bidNames);
  const askName = pick(fields, askNames);
  if (bidName === undefined && askName === undefined) return sidesOfOutcomes(fields);
  const ofOutcomes = bidName === undefined ? null : (fields[bidName] as Fields | null);
  if (askName === undefined && ofOutcomes !== null && pick(ofOutcomes, [...yesNames, ...noNames]) !== undefined)
    return sidesOfOutcomes(ofOutcomes);
  requireWhole(fields, bidName, askName);
  const bids = readSide(fields[bidName ?? '']);
  const asks = readSide(fields[askName ?? '']);
  requireFractions([...bids, ...asks]);
  return { bids, asks };
}

/** A bid for NO at a price is an offer of YES at what it leaves of 1. */
function sidesOfOutcomes(fields: Fields): Sides {
  const yesName = pick(fields, yesNames);
  const noName = pick(fields, noNames);
  const yes = fields[yesName ?? ''];
  const no = fields[noName ?? ''];
  if (isBook(yes) && pick(yes, askNames) !== undefined) return sidesOf(yes);
  requireWhole(fields, yesName, noName);
  if (isBook(no) && pick(no, bidNames) === undefined) throw new NotUnderstood('the outcome NO has no bids');
  const bids = readSide(bidsOf(yes));
  const noBids = readSide(bidsOf(no));
  requireFractions([...bids, ...noBids]);
  return { bids, asks: noBids.map(({ price, quantity }) => ({ price: complement(price), quantity })) };
}

const isBook = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && hasSides(value as Fields);

const bidsOf = (value: unknown): unknown => (isBook(value) ? value[pick(value, bidNames) ?? ''] : value);

/**
 * Refuses a book of one side where another field may hold the other: only one that has nothing of the kind leaves out
 * an empty side.
 */
function requireWhole(fields: Fields, one: string | undefined, other: string | undefined): void {
  if (one !== undefined && other !== undefined) return;
  const present = one ?? other;
  const strange = Object.entries(fields).find(
    ([name, value]) => name !== present && typeof value === 'object' && value !== null,
  );
  if (strange !== undefined)
    throw new NotUnderstood(`it has ${present}, and no other side but ${JSON.stringify(strange[0].slice(0, 40))}`);
}
