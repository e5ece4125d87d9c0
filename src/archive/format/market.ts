import { type MarketDetails, type SymbolDetails, symbolDetailColumns, unknownDetails } from './market-details.ts';
import type { SymbolSelection } from './selection.ts';

/** One market under one of its symbols, as observed in a poll of the market lists. Times are epoch milliseconds. */
export interface MarketFacts extends MarketDetails {
  readonly canonicalId: string;
  /** Null in rows of other writers for a market without a ticker; parseMarket sets its canonical_id. */
  readonly symbol: string | null;
  readonly source: string | null;
  /** The market lists that name it, sorted. */
  readonly views: readonly string[];
  readonly category: string | null;
  readonly confidence: number | null;
  readonly isActive: boolean | null;
  readonly question: string | null;
  readonly opensAt: number | null;
  readonly closesAt: number | null;
  readonly resolvedAt: number | null;
  /** 1, 0, or between. */
  readonly outcome: number | null;
  /** JSON object of the record's fields without a column. */
  readonly extra: string | null;
}

/** A row of the markets dataset: one state of a market, and the first and last poll of a day that showed it. */
export interface MarketRow extends MarketFacts {
  readonly firstSeen: number;
  readonly lastSeen: number;
}

/**
 * A change in one of these fields starts a new row (CONTRACT, section 3). The other fields follow the latest poll, also
 * the source of the outcome.
 */
export const hasSameMarketState = (a: MarketFacts, b: MarketFacts): boolean =>
  a.source === b.source &&
  a.category === b.category &&
  a.isActive === b.isActive &&
  a.closesAt === b.closesAt &&
  a.resolvedAt === b.resolvedAt &&
  a.outcome === b.outcome &&
  a.views.join('\n') === b.views.join('\n');

export const toMarketKey = (m: MarketFacts): string => JSON.stringify([m.canonicalId, m.symbol]);

/**
 * Merges the polls of one day, sorted by time, into the rows of that day. If a poll lists a market twice under one key,
 * the later record is used.
 */
export function mergeMarkets(
  rows: readonly MarketRow[],
  polls: Iterable<{ readonly observedAt: number; readonly markets: readonly MarketFacts[] }>,
): MarketRow[] {
  const byKey = Map.groupBy(rows, toMarketKey);
  for (const { observedAt, markets } of polls) {
    for (const facts of new Map(markets.map((m) => [toMarketKey(m), m])).values()) {
      const list = byKey.get(toMarketKey(facts)) ?? [];
      byKey.set(toMarketKey(facts), addObservation(list, facts, observedAt));
    }
  }
  return [...byKey.values()].flat();
}

/** Merges one observation into a market's rows, which are sorted and disjoint. Adjacent rows never share a state. */
function addObservation(list: readonly MarketRow[], facts: MarketFacts, observedAt: number): MarketRow[] {
  const fresh = { ...facts, firstSeen: observedAt, lastSeen: observedAt };
  // Polls of two processes can be published out of order. Each belongs to the row that was valid at its time.
  const at = list.findLastIndex((row) => row.firstSeen <= observedAt);
  const row = list[at];
  if (row !== undefined && hasSameMarketState(row, facts)) {
    return observedAt <= row.lastSeen ? [...list] : list.with(at, { ...fresh, firstSeen: row.firstSeen });
  }
  const replacement = row === undefined ? [fresh] : splitMarketRow(row, fresh);
  const out: MarketRow[] = [];
  for (const next of [...list.slice(0, Math.max(at, 0)), ...replacement, ...list.slice(at + 1)]) {
    const last = out.at(-1);
    if (last !== undefined && hasSameMarketState(last, next))
      out[out.length - 1] = { ...next, firstSeen: last.firstSeen };
    else out.push(next);
  }
  return out;
}

/**
 * Splits a row where a poll shows another state inside it. Of the polls that showed the row, only the first and last
 * are known.
 */
function splitMarketRow(row: MarketRow, fresh: MarketRow): MarketRow[] {
  const at = fresh.firstSeen;
  const before = { ...row, lastSeen: row.lastSeen < at ? row.lastSeen : row.firstSeen };
  const after = { ...row, firstSeen: row.lastSeen };
  return [...(row.firstSeen < at ? [before] : []), fresh, ...(row.lastSeen > at ? [after] : [])];
}

/** What the archive knows about a symbol, over all polls. Times are epoch milliseconds. */
export interface SymbolFacts extends SymbolDetails, SymbolSelection {
  readonly symbol: string;
  readonly canonicalId: string | null;
  readonly source: string | null;
  readonly question: string | null;
  readonly category: string | null;
  readonly isActive: boolean | null;
  readonly opensAt: number | null;
  readonly closesAt: number | null;
  readonly resolvedAt: number | null;
  readonly outcome: number | null;
  readonly firstSeen: number;
  readonly lastSeen: number;
  /** The last poll that listed it as active; null if none did. */
  readonly lastActive: number | null;
  /** When it was first seen inactive or missing from a complete list; null while neither applies. */
  readonly inactiveSince: number | null;
  /** Whether a market list names it or ever named it. */
  readonly listed: boolean;
  /** Start of the first polled window; null before the first poll. */
  readonly polledFrom: number | null;
  /** Start of the history that the server says it keeps; null if it has not stated one. */
  readonly servedFrom: number | null;
  readonly firstTick: number | null;
  readonly lastTick: number | null;
  /** Published ticks. */
  readonly ticks: number;
  /** When the server began to report it as unknown; null if it never did, or has recognized it since. */
  readonly unknownSince: number | null;
  /** When it was suspended; null if it is not suspended. */
  readonly suspendedAt: number | null;
  /** When it was last requested while suspended; null if it may be requested at once. */
  readonly triedAt: number | null;
}

const { rules: _, ...unknownSymbolDetails } = unknownDetails;

/** Creates the facts of a configured symbol that is otherwise unknown. */
export const createUnknownSymbol = (symbol: string, nowMs: number): SymbolFacts => ({
  ...unknownSymbolDetails,
  symbol,
  canonicalId: null,
  source: null,
  question: null,
  category: null,
  isActive: null,
  opensAt: null,
  closesAt: null,
  resolvedAt: null,
  outcome: null,
  firstSeen: nowMs,
  lastSeen: nowMs,
  lastActive: null,
  inactiveSince: null,
  listed: false,
  polledFrom: null,
  servedFrom: null,
  firstTick: null,
  lastTick: null,
  ticks: 0,
  unknownSince: null,
  suspendedAt: null,
  triedAt: null,
});

/** The columns of the markets dataset but its details, with the field of each. */
export const marketColumns = [
  ['canonicalId', 'canonical_id'],
  ['symbol', 'symbol'],
  ['source', 'source'],
  ['views', 'views'],
  ['category', 'category'],
  ['confidence', 'confidence'],
  ['isActive', 'is_active'],
  ['question', 'question'],
  ['closesAt', 'closes_at'],
  ['resolvedAt', 'resolved_at'],
  ['outcome', 'outcome'],
  ['firstSeen', 'first_seen'],
  ['lastSeen', 'last_seen'],
  ['extra', 'extra'],
] as const satisfies readonly (readonly [keyof MarketRow, string])[];

/** The columns of the symbols dataset that a market record states, but its details, with the field of each. */
export const statedColumns = [
  ['symbol', 'symbol'],
  ['canonicalId', 'canonical_id'],
  ['source', 'source'],
  ['question', 'question'],
  ['category', 'category'],
  ['isActive', 'is_active'],
  ['opensAt', 'opens_at'],
  ['closesAt', 'closes_at'],
  ['resolvedAt', 'resolved_at'],
  ['outcome', 'outcome'],
] as const satisfies readonly (readonly [keyof SymbolFacts & keyof MarketFacts, string])[];

/** The columns of the symbols dataset but its details, with the field of each. */
export const symbolColumns = [
  ...statedColumns,
  ['firstSeen', 'first_seen'],
  ['lastSeen', 'last_seen'],
  ['firstTick', 'first_tick'],
  ['lastTick', 'last_tick'],
  ['ticks', 'ticks'],
] as const satisfies readonly (readonly [keyof SymbolFacts, string])[];

export const symbolFields = [...symbolColumns, ...symbolDetailColumns].map(([field]) => field);

/** Facts by the names of their columns. */
export type ByColumn<Facts, Pair extends readonly [keyof Facts, string]> = {
  readonly [Name in Pair[1]]: Facts[Extract<Pair, readonly [keyof Facts, Name]>[0]];
};

export const toColumns = <Facts, const Pair extends readonly [keyof Facts, string]>(
  facts: Facts,
  columns: readonly Pair[],
): ByColumn<Facts, Pair> =>
  Object.fromEntries(columns.map(([field, name]) => [name, facts[field]])) as ByColumn<Facts, Pair>;
