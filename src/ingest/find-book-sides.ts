import type { Level } from '../core/book.ts';
import { complement, NotUnderstood, readSide, requireFractions } from './parse-book-levels.ts';

type Fields = Readonly<Record<string, unknown>>;

const bidNames = ['bids', 'bid', 'buys', 'buy'];
const askNames = ['asks', 'ask', 'offers', 'offer', 'sells', 'sell'];
// Dollars are fractions of one; the cents that venues put beside them are not needed then.
const yesNames = ['yes_dollars', 'yes', 'YES', 'Yes'];
const noNames = ['no_dollars', 'no', 'NO', 'No'];

/** A field that may hold levels: a list, an object, or null for none. A number may be just the best price. */
const pick = (fields: Fields, names: readonly string[]): string | undefined =>
  names.find((name) => Object.hasOwn(fields, name) && typeof fields[name] === 'object');

/** Whether an object is a book, rather than wrapped around one. */
export const hasSides = (fields: Fields): boolean =>
  [bidNames, askNames, yesNames, noNames].some((names) => pick(fields, names) !== undefined);

interface Sides {
  readonly bids: readonly Level[];
  readonly asks: readonly Level[];
}

/**
 * The levels of an object that has sides, in the order they came.
 * @throws NotUnderstood
 */
export function sidesOf(fields: Fields): Sides {
  const bidName = pick(fields, bidNames);
  const askName = pick(fields, askNames);
  if (bidName === undefined && askName === undefined) return sidesOfOutcomes(fields);
  const told = fields[bidName ?? ''];
  const offered = fields[askName ?? ''];
  const byOutcome = splitByOutcome(told);
  if (byOutcome !== null || splitByOutcome(offered) !== null) {
    if (byOutcome === null || readSide(offered).length > 0)
      throw new NotUnderstood('it has bids or asks of the outcome NO beside asks');
    return sidesOfOutcomes(byOutcome);
  }
  requireWhole(fields, bidName, askName);
  const bids = readSide(told);
  const asks = readSide(offered);
  requireFractions([...bids, ...asks]);
  return { bids, asks };
}

/** The levels of both outcomes, where a side holds those of NO, too; else null. */
function splitByOutcome(side: unknown): Fields | null {
  if (typeof side !== 'object' || side === null) return null;
  if (!Array.isArray(side))
    return pick(side as Fields, [...yesNames, ...noNames]) === undefined ? null : (side as Fields);
  const no = side.filter(isOfNo);
  return no.length === 0 ? null : { yes: side.filter((level) => !isOfNo(level)), no };
}

function isOfNo(level: unknown): boolean {
  if (typeof level !== 'object' || level === null) return false;
  return ['outcome', 'side'].some((name) => {
    const said = (level as Fields)[name];
    return typeof said === 'string' && /^no$/i.test(said);
  });
}

/** A bid for NO at a price is an offer of YES at what it leaves of 1. */
function sidesOfOutcomes(fields: Fields): Sides {
  const yesName = pick(fields, yesNames);
  const noName = pick(fields, noNames);
  const yes = fields[yesName ?? ''];
  const no = fields[noName ?? ''];
  // With asks of its own the book of YES is whole; the one of NO tells the same from the other side.
  if (isBook(yes) && readSide(yes[pick(yes, askNames) ?? '']).length > 0) return sidesOf(yes);
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
