import { getSymbolRange } from '../../base/source-name.ts';
import { dayMs, floorToDay, type Window } from '../../base/window.ts';
import {
  createUnknownSymbol,
  type MarketFacts,
  type SymbolFacts,
  statedColumns,
  symbolColumns,
} from '../format/market.ts';
import { symbolDetailColumns } from '../format/market-details.ts';
import type { Database } from './database.ts';
import { endedSql } from './schema.ts';
import { attachSelection, attachSelections } from './selection-store.ts';

/** The columns of `symbols` that a market record states, in the order of `toStatedValues`. The sixth is `is_active`. */
export const statedNames: readonly string[] = [...statedColumns, ...symbolDetailColumns].map(([, column]) => column);

export const toStatedValues = (market: MarketFacts): (string | number | null)[] =>
  [...statedColumns, ...symbolDetailColumns].map(([field]) => toStored(market[field]));

/** SQL that inserts what a market record states: the first parameters of a statement. `more`: further columns and values. */
export const insertStatedSql = (more: Readonly<Record<string, string>>): string =>
  `insert into symbols (${[...statedNames, ...Object.keys(more)].join(', ')})
   values (${[...statedNames.map((_, i) => `?${i + 1}`), ...Object.values(more)].join(', ')})`;

const toStored = <T extends string | number | null>(value: T | boolean): T | number =>
  typeof value === 'boolean' ? Number(value) : value;

/** Reads every known symbol. */
export const readAllSymbols = (db: Database, source: string | null = null): SymbolFacts[] =>
  readSymbolsWhere(db, 'true', [], source);

/**
 * Reads the symbols of a source that satisfy a condition, sorted: SQLite's binary order is UTF-8 byte order.
 * @param condition SQL, with a `?` for each of `values`
 */
export function readSymbolsWhere(
  db: Database,
  condition: string,
  values: readonly (string | number)[],
  source: string | null,
): SymbolFacts[] {
  const ofSource = selectSymbolsOf(source);
  const sql = `select ${rowColumnsSql} from symbols where (${condition}) and ${ofSource.where} order by symbol`;
  return attachSelections(db, db.rows<SymbolRow>(sql, ...values, ...ofSource.values).map(toSymbolFacts));
}

/**
 * Reads listed symbols that are active or showed activity after `afterMs` (epoch ms), sorted. They include all symbols
 * to poll if `afterMs` is at least as long ago as inactive symbols are still polled. They are few even in an archive
 * that spans years.
 */
export const readUnsettledSymbols = (db: Database, afterMs: number, source: string | null = null): SymbolFacts[] =>
  readSymbolsWhere(
    db,
    `symbol in (select symbol from symbols where listed = 1 and ${endedSql} is null
       union all select symbol from symbols where listed = 1 and ${endedSql} > ?)`,
    [afterMs],
    source,
  );

/**
 * Reads the suspended symbols, active or not, sorted. In this module, `source` limits what is read or changed to the
 * symbols of one of the archive's sources; null: all symbols.
 */
export const readSuspendedSymbols = (db: Database, source: string | null = null): SymbolFacts[] =>
  readSymbolsWhere(db, 'symbol in (select symbol from symbols where suspended_at is not null)', [], source);

/** Reads the symbols of which it was decided that they are not collected, sorted. */
export const readUnselectedSymbols = (db: Database, source: string | null = null): SymbolFacts[] =>
  readSymbolsWhere(db, 'symbol in (select symbol from unselected where t_to is null)', [], source);

/** A condition that selects the rows of a source, and its values. @param column has names that are qualified as symbols are */
export function selectSymbolsOf(source: string | null, column = 'symbol'): { where: string; values: string[] } {
  if (source === null) return { where: 'true', values: [] };
  const { from, to } = getSymbolRange(source);
  return { where: `(${column} >= ? and ${column} < ?)`, values: [from, to] };
}

/** Reads the facts of a symbol; undefined if it is unknown. */
export const readSymbol = (db: Database, symbol: string): SymbolFacts | undefined => {
  const [row] = db.rows<SymbolRow>(`select ${rowColumnsSql} from symbols where symbol = ?`, symbol);
  return row === undefined ? undefined : attachSelection(db, toSymbolFacts(row));
};

/** Inserts configured symbols that are unknown. */
export function ensureSymbols(db: Database, symbols: readonly string[], nowMs: number): void {
  db.transaction(() => {
    for (const symbol of symbols) ensureSymbol(db, symbol, nowMs);
  });
}

/** Lets a suspended symbol be requested at once. */
export const resetTriedAt = (db: Database, symbol: string): void =>
  void db.run('update symbols set tried_at = null where symbol = ?', symbol);

/** Names of the symbols that were first seen after a time, epoch ms. */
export const listFirstSeenAfter = (db: Database, atMs: number): string[] =>
  db.all<{ symbol: string }>('select symbol from symbols where first_seen > ?', atMs).map(({ symbol }) => symbol);

/** Sets when symbols were first seen, epoch ms. Unknown symbols are ignored. */
export function setFirstSeen(db: Database, symbols: readonly string[], atMs: number): void {
  for (const symbol of symbols) db.run('update symbols set first_seen = ? where symbol = ?', atMs, symbol);
}

/** Inserts a symbol if it is unknown, first seen at `atMs`. Joins the caller's transaction. */
export function ensureSymbol(db: Database, symbol: string, atMs: number): void {
  const known = 'insert into symbols (symbol, first_seen, last_seen) values (?1, ?2, ?2) on conflict do nothing';
  db.run(known, symbol, atMs);
}

/** A market that is listed as active without a resolution was reopened, so a stored resolution is obsolete. */
const reopenedSql = 'excluded.is_active is 1 and excluded.resolved_at is null and excluded.outcome is null';

/**
 * Records one poll of the market lists. If the lists are `complete`, a listed symbol that they do not name becomes
 * inactive. An incomplete list is no evidence that a market is gone, nor is the list of another source.
 */
export function recordMarkets(
  db: Database,
  markets: readonly MarketFacts[],
  atMs: number,
  complete: boolean,
  source: string | null = null,
): void {
  db.transaction(() => {
    // A symbol of several markets is active if one of them is, so active markets are written last.
    const activeLast = markets.toSorted((a, b) => Number(a.isActive !== false) - Number(b.isActive !== false));
    const at = `?${statedNames.length + 1}`;
    const seen = { first_seen: at, last_seen: at };
    const activity = { last_active: `iif(?6 is 0, null, ${at})`, inactive_since: `iif(?6 is 0, ${at}, null)` };
    const sql = `${insertStatedSql({ ...seen, ...activity, listed: '1' })}
       on conflict do update set
         canonical_id = excluded.canonical_id, source = coalesce(excluded.source, source),
         question = coalesce(excluded.question, question), category = coalesce(excluded.category, category),
         is_active = excluded.is_active, opens_at = coalesce(excluded.opens_at, opens_at),
         closes_at = coalesce(excluded.closes_at, closes_at),
         resolved_at = iif(${reopenedSql}, null, coalesce(excluded.resolved_at, resolved_at)),
         outcome = iif(${reopenedSql}, null, coalesce(excluded.outcome, outcome)),
         outcome_source = iif(${reopenedSql}, null, iif(excluded.outcome is null, outcome_source, excluded.outcome_source)),
         ${symbolDetailColumns
           .slice(1)
           .map(([, name]) => `${name} = coalesce(excluded.${name}, ${name})`)
           .join(', ')},
         first_seen = min(first_seen, excluded.first_seen), last_seen = iif(listed = 0, excluded.last_seen, max(last_seen, excluded.last_seen)),
         last_active = coalesce(max(last_active, excluded.last_active), excluded.last_active, last_active),
         inactive_since = iif(excluded.inactive_since is null, null, coalesce(inactive_since, excluded.inactive_since)),
         listed = 1
       where excluded.last_seen >= last_seen or listed = 0`;
    for (const market of activeLast) db.run(sql, ...toStatedValues(market), atMs);
    if (complete) {
      const { where, values } = selectSymbolsOf(source);
      db.run(
        `update symbols set inactive_since = ?, is_active = 0
         where listed = 1 and ${endedSql} is null and last_seen < ? and ${where}`,
        atMs,
        atMs,
        ...values,
      );
    }
  });
}

/** How the server recognized the symbols that a run requested. */
export interface SymbolRecognition {
  /** Symbols with at least one successful response. */
  readonly answered: readonly string[];
  /** Symbols that the server reported as unknown. */
  readonly unknown: readonly string[];
  /** Symbols that failed for any reason, suspended or not. */
  readonly failed: readonly string[];
}

/**
 * Records which symbols the server recognizes, and suspends those that it reported as unknown on `suspendAfterDays` UTC
 * days. Reports count only if other symbols got responses in the same run. With a key of another scope, all symbols
 * would be unknown. A response ends a suspension. Returns the newly suspended symbols.
 */
export function recordRecognition(
  db: Database,
  { answered, unknown, failed }: SymbolRecognition,
  suspendAfterDays: number,
  nowMs: number,
): string[] {
  return db.transaction(() => {
    const select = 'select symbol from symbols where';
    const sql = `${select} unknown_since is not null union ${select} suspended_at is not null`;
    const inDoubt = new Set(db.all<{ symbol: string }>(sql).map(({ symbol }) => symbol));
    for (const symbol of answered)
      if (inDoubt.has(symbol)) db.run(`update symbols set ${recognizedSql} where symbol = ?`, symbol);
    for (const symbol of failed)
      db.run('update symbols set tried_at = ? where symbol = ? and suspended_at is not null', nowMs, symbol);
    if (answered.length === 0) return [];
    return unknown.filter((symbol) => recordUnknown(db, symbol, suspendAfterDays, nowMs));
  });
}

const recognizedSql = 'unknown_since = null, unknown_at = null, unknown_days = 0, suspended_at = null, tried_at = null';

/** Records that the server reported a symbol as unknown. Returns whether this suspends the symbol. */
function recordUnknown(db: Database, symbol: string, suspendAfterDays: number, nowMs: number): boolean {
  const row = db.one<{ unknown_since: number | null; unknown_at: number | null; unknown_days: number }>(
    'select unknown_since, unknown_at, unknown_days from symbols where symbol = ?',
    symbol,
  );
  if (row === undefined) return false;
  // A record from the future was made with a wrong clock; counting restarts today.
  const isFirst = row.unknown_since === null || row.unknown_at === null || row.unknown_at > nowMs + dayMs;
  const days = isFirst ? 1 : row.unknown_days + Number(floorToDay(nowMs) > floorToDay(row.unknown_at!));
  db.run(
    'update symbols set unknown_since = ?, unknown_at = ?, unknown_days = ? where symbol = ?',
    isFirst ? nowMs : row.unknown_since,
    nowMs,
    days,
    symbol,
  );
  if (days < suspendAfterDays) return false;
  const sql = 'update symbols set suspended_at = ?1, tried_at = ?1 where symbol = ?2 and suspended_at is null';
  return db.run(sql, nowMs, symbol).changes > 0;
}

/** Records the start of a symbol's first polled window, even if that poll failed. */
export function recordPolledFrom(db: Database, symbol: string, from: number): void {
  db.run('update symbols set polled_from = ? where symbol = ? and polled_from is null', from, symbol);
}

/** Records that the server's history of a symbol starts at `from`. */
export function recordServedFrom(db: Database, symbol: string, from: number): void {
  db.run('update symbols set served_from = ? where symbol = ?', from, symbol);
}

/** The columns of the state that `writeSymbolFacts` writes besides those of the symbols dataset, with the field of each. */
const pollColumns = [
  ['lastActive', 'last_active'],
  ['inactiveSince', 'inactive_since'],
  ['listed', 'listed'],
  ['polledFrom', 'polled_from'],
  ['servedFrom', 'served_from'],
] as const;

const writtenColumns = [...symbolColumns, ...pollColumns, ...symbolDetailColumns].filter(
  ([field]) => !['symbol', 'firstTick', 'lastTick', 'ticks'].includes(field),
);
const writeSql = `update symbols set ${writtenColumns.map(([, name]) => `${name} = ?`).join(', ')} where symbol = ?`;

/** Records what published files say of a symbol, without its ticks. Joins the caller's transaction. */
export function writeSymbolFacts(db: Database, facts: SymbolFacts): void {
  ensureSymbol(db, facts.symbol, facts.firstSeen);
  db.run(writeSql, ...writtenColumns.map(([field]) => toStored(facts[field])), facts.symbol);
}

/**
 * Finds the window from the first to the last published tick of a symbol: null if it has none, undefined if the symbol
 * is unknown.
 */
export function findPublishedWindow(db: Database, symbol: string): Window | null | undefined {
  const sql = 'select first_tick, last_tick from symbols where symbol = ?';
  const row = db.one<{ first_tick: number | null; last_tick: number | null }>(sql, symbol);
  if (row === undefined) return undefined;
  const { first_tick: first, last_tick: last } = row;
  return first === null || last === null ? null : { from: first, to: last + 1 };
}

const factColumns = [
  ...symbolColumns,
  ...pollColumns,
  ...symbolDetailColumns,
  ...([
    ['unknownSince', 'unknown_since'],
    ['suspendedAt', 'suspended_at'],
    ['triedAt', 'tried_at'],
  ] as const),
];
const rowColumnsSql = factColumns.map(([, name]) => name).join(', ');
const booleanFields: ReadonlySet<string> = new Set(['isActive', 'listed', 'exclusive']);

type SymbolRow = readonly (string | number | null)[];

/** Rows are arrays, because objects with so many properties are slow to create. */
function toSymbolFacts(row: SymbolRow): SymbolFacts {
  const facts: Record<string, unknown> = { ...createUnknownSymbol('', 0) };
  for (const [i, [field]] of factColumns.entries())
    facts[field] = booleanFields.has(field) && row[i] !== null ? row[i] !== 0 : row[i];
  return facts as unknown as SymbolFacts;
}
