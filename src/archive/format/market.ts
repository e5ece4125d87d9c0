/** One market under one of its symbols, as a poll of the lists showed it. Times are epoch milliseconds. */
export interface MarketFacts {
  readonly canonicalId: string;
  readonly symbol: string;
  readonly source: string | null;
  /** The views that named it, sorted. */
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
  /** JSON of every field of the record that has no column. */
  readonly extra: string | null;
}

/** A row of the markets dataset: a state of a market and the span of one day's polls that showed it. */
export interface MarketRow extends MarketFacts {
  readonly firstSeen: number;
  readonly lastSeen: number;
}

/** A change in one of these begins a new row; the rest follows the latest poll. */
const hasSameState = (a: MarketFacts, b: MarketFacts): boolean =>
  a.source === b.source &&
  a.category === b.category &&
  a.isActive === b.isActive &&
  a.closesAt === b.closesAt &&
  a.resolvedAt === b.resolvedAt &&
  a.outcome === b.outcome &&
  a.views.join('\n') === b.views.join('\n');

const toMarketKey = (m: MarketFacts): string => JSON.stringify([m.canonicalId, m.symbol]);

/**
 * Lays polls of one day over that day's rows; polls in order of time. A market that one poll names twice under one
 * key counts once, the later record winning.
 */
export function mergeMarkets(
  rows: readonly MarketRow[],
  polls: Iterable<{ readonly observedAt: number; readonly markets: readonly MarketFacts[] }>,
): MarketRow[] {
  const byKey = new Map<string, MarketRow[]>();
  for (const row of rows) {
    const list = byKey.get(toMarketKey(row));
    if (list === undefined) byKey.set(toMarketKey(row), [row]);
    else list.push(row);
  }
  for (const { observedAt, markets } of polls) {
    for (const facts of new Map(markets.map((m) => [toMarketKey(m), m])).values()) {
      const list = byKey.get(toMarketKey(facts)) ?? [];
      byKey.set(toMarketKey(facts), addObservation(list, facts, observedAt));
    }
  }
  return [...byKey.values()].flat();
}

/** Lays one observation over a market's rows, which are sorted and disjoint; neighbours never share a state. */
function addObservation(list: readonly MarketRow[], facts: MarketFacts, observedAt: number): MarketRow[] {
  const fresh = { ...facts, firstSeen: observedAt, lastSeen: observedAt };
  // Polls of two processes may be published out of order: each goes to the row that was valid at its time.
  const at = list.findLastIndex((row) => row.firstSeen <= observedAt);
  const row = list[at];
  if (row !== undefined && hasSameState(row, facts)) {
    return observedAt <= row.lastSeen ? [...list] : list.with(at, { ...fresh, firstSeen: row.firstSeen });
  }
  const around = row === undefined ? [fresh] : splitMarketRow(row, fresh);
  const out: MarketRow[] = [];
  for (const next of [...list.slice(0, Math.max(at, 0)), ...around, ...list.slice(at + 1)]) {
    const last = out.at(-1);
    if (last !== undefined && hasSameState(last, next)) out[out.length - 1] = { ...next, firstSeen: last.firstSeen };
    else out.push(next);
  }
  return out;
}

/** A row that another state turns up in the midst of: of the polls that showed it, only the ends are known. */
function splitMarketRow(row: MarketRow, fresh: MarketRow): MarketRow[] {
  const at = fresh.firstSeen;
  const before = { ...row, lastSeen: row.lastSeen < at ? row.lastSeen : row.firstSeen };
  const after = { ...row, firstSeen: row.lastSeen };
  return [...(row.firstSeen < at ? [before] : []), fresh, ...(row.lastSeen > at ? [after] : [])];
}

/** What is known of a symbol, over all polls. Times are epoch milliseconds. */
export interface SymbolFacts {
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
  /** The last poll that showed it active; null where none did. */
  readonly lastActive: number | null;
  /** When it was first seen inactive, or missing from a complete list; null while it is neither. */
  readonly inactiveSince: number | null;
  /** True where market lists name it, or named it. */
  readonly listed: boolean;
  /** Start of the first window that a poll asked for; null before. */
  readonly polledFrom: number | null;
  /** Where the service starts that said that it goes back no further; null where none said so. */
  readonly servedFrom: number | null;
  readonly firstTick: number | null;
  readonly lastTick: number | null;
  /** Published ticks. */
  readonly ticks: number;
  /** Since when the service says that it does not know it; null where it said so never, or has answered since. */
  readonly unknownSince: number | null;
  /** Since when it is suspended; null where it is not. */
  readonly suspendedAt: number | null;
  /** When it was last asked for in vain while it was suspended; null to ask at once. */
  readonly triedAt: number | null;
}

/** A symbol that is named by hand and nothing else is known of. */
export const createUnknownSymbol = (symbol: string, nowMs: number): SymbolFacts => ({
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
