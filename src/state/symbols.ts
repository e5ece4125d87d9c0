import type { MarketFacts, SymbolFacts } from '../core/market.ts';
import type { ListedState } from '../core/night.ts';
import type { Database } from './database.ts';

interface SymbolRow {
  symbol: string;
  canonical_id: string | null;
  source: string | null;
  question: string | null;
  category: string | null;
  is_active: number | null;
  opens_at: number | null;
  closes_at: number | null;
  resolved_at: number | null;
  outcome: number | null;
  first_seen: number;
  last_seen: number;
  last_active: number | null;
  inactive_since: number | null;
  listed: number;
  polled_from: number | null;
  first_tick: number | null;
  last_tick: number | null;
  ticks: number;
  failures: number;
  retired_at: number | null;
}

const factsOf = (row: SymbolRow): SymbolFacts => ({
  symbol: row.symbol,
  canonicalId: row.canonical_id,
  source: row.source,
  question: row.question,
  category: row.category,
  isActive: row.is_active === null ? null : row.is_active !== 0,
  opensAt: row.opens_at,
  closesAt: row.closes_at,
  resolvedAt: row.resolved_at,
  outcome: row.outcome,
  firstSeen: row.first_seen,
  lastSeen: row.last_seen,
  lastActive: row.last_active,
  inactiveSince: row.inactive_since,
  listed: row.listed !== 0,
  polledFrom: row.polled_from,
  firstTick: row.first_tick,
  lastTick: row.last_tick,
  ticks: row.ticks,
  failures: row.failures,
  retiredAt: row.retired_at,
});

/** Every known symbol; SQLite's binary order is the order of UTF-8 bytes. */
export const allSymbols = (db: Database): SymbolFacts[] =>
  db.all<SymbolRow>('select * from symbols order by symbol').map(factsOf);

/**
 * Listed symbols that were not seen inactive, or showed a sign of life after a moment (epoch ms); in order. All that may
 * be polled are among them, where that moment is as long ago as an inactive one is polled on: of an archive of years, few.
 */
export const unsettledSymbols = (db: Database, afterMs: number): SymbolFacts[] =>
  db
    .all<SymbolRow>(
      `select * from symbols where listed = 1 and (inactive_since is null
         or max(inactive_since, coalesce(resolved_at, 0), coalesce(last_active, 0)) > ?) order by symbol`,
      afterMs,
    )
    .map(factsOf);

/** Symbols given up on that were not seen inactive since; in order. */
export const givenUpSymbols = (db: Database): string[] =>
  db
    .all<{ symbol: string }>(
      'select symbol from symbols where retired_at is not null and inactive_since is null order by symbol',
    )
    .map(({ symbol }) => symbol);

/** What is known of a symbol; nothing where it was never heard of. */
export const oneSymbol = (db: Database, symbol: string): SymbolFacts | undefined => {
  const row = db.one<SymbolRow>('select * from symbols where symbol = ?', symbol);
  return row === undefined ? undefined : factsOf(row);
};

/** Makes sure that symbols named by hand are known. */
export function ensureSymbols(db: Database, symbols: readonly string[], nowMs: number): void {
  db.transaction(() => {
    for (const symbol of symbols) ensureSeen(db, symbol, nowMs);
  });
}

/** Makes sure that a symbol is known, if only from now on that ticks of it were seen; joins the caller's transaction. */
export function ensureSeen(db: Database, symbol: string, atMs: number): void {
  const known = 'insert into symbols (symbol, first_seen, last_seen) values (?1, ?2, ?2) on conflict do nothing';
  db.run(known, symbol, atMs);
}

/** A market that is told to be active, and of no resolution any more, was reopened: that it had one is past. */
const reopened = 'excluded.is_active is 1 and excluded.resolved_at is null and excluded.outcome is null';

/** What was known of a symbol says that it is resolved: an outcome, or a moment that is no plan (see core/life.ts). */
const resolved = '(outcome is not null or coalesce(resolved_at <= last_seen, 0))';

/**
 * Takes in one poll of the market lists. Where the lists are `complete`, a listed symbol that none of them names
 * counts as inactive from now on; a list that was cut off is no reason to think a market gone.
 */
export function observeMarkets(db: Database, markets: readonly MarketFacts[], atMs: number, complete: boolean): void {
  db.transaction(() => {
    // A symbol of several markets is active where one of them is: that one is entered last.
    const activeLast = markets.toSorted((a, b) => Number(a.isActive !== false) - Number(b.isActive !== false));
    for (const m of activeLast) {
      const active = m.isActive === null ? null : Number(m.isActive);
      db.run(
        `insert into symbols (symbol, canonical_id, source, question, category, is_active, opens_at, closes_at, resolved_at,
           outcome, first_seen, last_seen, last_active, inactive_since, listed, resolution_seen)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, iif(?6 is 0, null, ?11), iif(?6 is 0, ?11, null), 1,
           iif(?10 is not null or ?9 <= ?11, ?11, null))
         on conflict do update set
           canonical_id = excluded.canonical_id, source = coalesce(excluded.source, source),
           question = coalesce(excluded.question, question), category = coalesce(excluded.category, category),
           is_active = excluded.is_active, opens_at = coalesce(excluded.opens_at, opens_at),
           closes_at = coalesce(excluded.closes_at, closes_at),
           resolved_at = iif(${reopened}, null, coalesce(excluded.resolved_at, resolved_at)),
           outcome = iif(${reopened}, null, coalesce(excluded.outcome, outcome)),
           first_seen = min(first_seen, excluded.first_seen), last_seen = iif(listed = 0, excluded.last_seen, max(last_seen, excluded.last_seen)),
           last_active = coalesce(max(last_active, excluded.last_active), excluded.last_active, last_active),
           inactive_since = iif(excluded.inactive_since is null, null, coalesce(inactive_since, excluded.inactive_since)),
           listed = 1,
           resolution_seen = case when ${reopened} then null when resolution_seen is not null then resolution_seen
             when ${resolved} then null else excluded.resolution_seen end
         where excluded.last_seen >= last_seen or listed = 0`,
        ...[m.symbol, m.canonicalId, m.source, m.question, m.category, active, m.opensAt, m.closesAt, m.resolvedAt],
        ...[m.outcome, atMs],
      );
    }
    if (complete) {
      db.run(
        'update symbols set inactive_since = ?1, is_active = 0 where listed = 1 and inactive_since is null and last_seen < ?1',
        atMs,
      );
    }
  });
}

/**
 * Notes how the symbols of a run fared; returns those retired now for failing `retireAfter` runs in a row. A failure is
 * a symbol's own only where others were done in the same run: a service that is down retires nobody. One that was
 * retired and was tried again counts its time of retirement from now.
 */
export function noteOutcomes(
  db: Database,
  outcomes: { readonly done: readonly string[]; readonly failed: readonly string[] },
  retireAfter: number,
  nowMs: number,
): string[] {
  return db.transaction(() => {
    const failing = new Set(
      db.all<{ symbol: string }>('select symbol from symbols where failures > 0').map(({ symbol }) => symbol),
    );
    for (const symbol of outcomes.done) {
      if (failing.has(symbol)) db.run('update symbols set failures = 0, retired_at = null where symbol = ?', symbol);
    }
    const retired: string[] = [];
    if (outcomes.done.length === 0) return retired;
    for (const symbol of outcomes.failed) {
      db.run('update symbols set retired_at = ? where symbol = ? and retired_at is not null', nowMs, symbol);
      db.run('update symbols set failures = failures + 1 where symbol = ?', symbol);
      const sql = 'update symbols set retired_at = ? where symbol = ? and failures >= ? and retired_at is null';
      if (db.run(sql, nowMs, symbol, retireAfter).changes > 0) retired.push(symbol);
    }
    return retired;
  });
}

/** From when on a symbol is polled: noted once its first poll was carried through. */
export function notePolledFrom(db: Database, symbol: string, from: number): void {
  db.run('update symbols set polled_from = ? where symbol = ? and polled_from is null', from, symbol);
}

/**
 * What the lists have told of the symbols that changed after a moment, and of those that are past their close at `nowMs`
 * and neither resolved nor inactive; in order. Of an archive of years, few.
 */
export const listedStates = (db: Database, since: number, nowMs: number): ListedState[] =>
  db
    .all<Omit<ListedState, 'resolved'> & { readonly resolved: number }>(
      `select symbol, first_seen as "firstSeen", inactive_since as "inactiveSince", closes_at as "closesAt",
         ${resolved} as resolved, resolution_seen as "resolutionSeen"
       from symbols where listed = 1 and (first_seen > ?1 or inactive_since > ?1 or resolution_seen > ?1
         or (inactive_since is null and closes_at < ?2 and not ${resolved})) order by symbol`,
      ...[since, nowMs],
    )
    .map((row) => ({ ...row, resolved: row.resolved !== 0 }));

/** What a publish changed in a symbol's published ticks. */
export interface TickDelta {
  readonly symbol: string;
  readonly added: number;
  readonly first: number;
  readonly last: number;
}

export function addTickDeltas(db: Database, deltas: readonly TickDelta[], nowMs: number): void {
  for (const { symbol, added, first, last } of deltas) {
    db.run(
      `insert into symbols (symbol, first_seen, last_seen, first_tick, last_tick, ticks) values (?1, ?5, ?5, ?3, ?4, ?2)
       on conflict do update set ticks = ticks + excluded.ticks,
         first_tick = min(coalesce(first_tick, excluded.first_tick), excluded.first_tick),
         last_tick = max(coalesce(last_tick, excluded.last_tick), excluded.last_tick)`,
      ...[symbol, added, first, last, nowMs],
    );
  }
}

/** A symbol's published ticks, counted; times are epoch milliseconds, null where it has none. */
export interface TickCount {
  readonly symbol: string;
  readonly ticks: number;
  readonly firstTick: number | null;
  readonly lastTick: number | null;
}

/** Enters what was counted in place of what was thought. */
export function setTickCounts(db: Database, counts: readonly TickCount[], nowMs: number): void {
  for (const { symbol, ticks, firstTick, lastTick } of counts) {
    db.run(
      `insert into symbols (symbol, first_seen, last_seen, first_tick, last_tick, ticks) values (?1, ?5, ?5, ?3, ?4, ?2)
       on conflict do update set ticks = excluded.ticks, first_tick = excluded.first_tick, last_tick = excluded.last_tick`,
      ...[symbol, ticks, firstTick, lastTick, nowMs],
    );
  }
}

/** Puts back a symbol from a row of the published symbols dataset, its columns in the file's order. */
export function restoreSymbol(db: Database, row: readonly unknown[]): void {
  const [symbol, canonicalId, source, question, category, isActive, opensAt, closesAt, resolvedAt, outcome] = row;
  const [firstSeen, lastSeen, firstTick, lastTick, ticks] = row.slice(10);
  const active = isActive === null ? null : Number(isActive);
  const values = [symbol, canonicalId, source, question, category, active, opensAt, closesAt, resolvedAt, outcome];
  db.run(
    `insert or replace into symbols (symbol, canonical_id, source, question, category, is_active, opens_at, closes_at,
       resolved_at, outcome, first_seen, last_seen, first_tick, last_tick, ticks, last_active, inactive_since, listed)
     values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
       iif(?6 is 0, null, ?12), iif(?6 is 0, ?12, null), ?2 is not null)`,
    ...([...values, firstSeen, lastSeen, firstTick, lastTick, ticks] as (string | number | null)[]),
  );
}

/** When a restored symbol that is inactive was active last, and turned inactive, where that is known. */
export function restoreActivity(db: Database, symbol: string, lastActive: number, inactiveSince: number | null): void {
  const sql = 'update symbols set last_active = ?, inactive_since = coalesce(?, inactive_since) where symbol = ?';
  db.run(sql, lastActive, inactiveSince, symbol);
}

/**
 * From when on a symbol was polled; null where it never was. One that only coverage knows, as the symbols dataset is
 * damaged, is known from then on that it was first asked for.
 */
export function restorePolled(db: Database, symbol: string, firstAsked: number, polledFrom: number | null): void {
  ensureSymbols(db, [symbol], firstAsked);
  db.run('update symbols set polled_from = ? where symbol = ?', polledFrom, symbol);
}
