import type { PriceLevel } from '../core/book.ts';
import { BookParseError, computeComplement, parseSide, requireFractions } from './parse-book-levels.ts';

type JsonFields = Readonly<Record<string, unknown>>;

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
 * @throws NotUnderstood
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
