import { compareUtf8 } from '../../base/symbol-name.ts';
import type { SymbolFacts } from '../format/market.ts';
import { type Database, getMeta, setMeta } from './database.ts';
import { endedSql, journalOfSymbols, reopenedSql } from './schema.ts';
import { readSymbolsWhere } from './symbol-store.ts';

// Closed symbols: final, covered by proof, and read no more until something new arrives. The triggers of the schema reopen them,
// and count by day what is closed, so that days are judged without them.

const rulesKey = 'closed_rules';

/** Whether what is closed was judged by these rules. By others, all symbols have to be read. */
export const areClosedBy = (db: Database, rules: string): boolean => getMeta(db, rulesKey) === rules;

/** Reads the open symbols, and those closed ones that are expected after `keptFrom`, epoch ms, sorted. */
export function readOpenSymbols(db: Database, keptFrom: number): SymbolFacts[] {
  const open = readSymbolsWhere(db, 'closed_to is null', [], null);
  const kept = Number.isFinite(keptFrom) ? readSymbolsWhere(db, 'closed_to > ?', [keptFrom], null) : [];
  return kept.length === 0 ? open : [...open, ...kept].sort((a, b) => compareUtf8(a.symbol, b.symbol));
}

/** Reads what is counted of the closed symbols, without those that are expected after `keptFrom`, epoch ms; see ClosedSymbols. */
export function readClosedSymbols(db: Database, keptFrom: number) {
  const days = db.all<{ day: number; change: number; symbols: number }>('select * from closed_days order by day');
  const changes = new Map(days.map(({ day, change }) => [day, change]));
  const kept = Number.isFinite(keptFrom)
    ? db.rows<[number, number]>('select closed_from, closed_to from symbols where closed_to > ?', keptFrom)
    : [];
  for (const [from, to] of kept) {
    changes.set(from, changes.get(from)! - 1);
    changes.set(to, changes.get(to)! + 1);
  }
  const newest = db.one<{ t: number | null }>('select max(known_to) as t from symbols where known_to is not null')!.t;
  return { count: days.reduce((sum, { symbols }) => sum + symbols, 0) - kept.length, newest, changes };
}

/** Reads up to `countMax` open symbols that ended, after `after` in the order of names. */
export const readEndedSymbols = (db: Database, after: string, countMax: number): SymbolFacts[] =>
  readSymbolsWhere(
    db,
    `symbol in (select symbol from symbols indexed by symbols_open where closed_to is null and symbol > ?
       and not (listed = 1 and ${endedSql} is null) order by symbol limit ?)`,
    [after, countMax],
    null,
  );

/** Closes symbols, except those with journaled rows. Part of the transaction in which they were judged by `rules`. */
export function closeSymbols(
  db: Database,
  closed: ReadonlyMap<string, readonly (number | null)[]>,
  rules: string,
): void {
  if (!areClosedBy(db, rules)) db.run(`update symbols set ${reopenedSql} where closed_to is not null`);
  setMeta(db, rulesKey, rules);
  const isJournaled = journalOfSymbols.map(
    (table) => `symbol in (select j.symbol from ${table} j where j.symbol = ?5)`,
  );
  const sql = `update symbols set (closed_from, closed_to, known_from, known_to) = (?1, ?2, ?3, ?4)
     where symbol = ?5 and not (${isJournaled.join(' or ')})`;
  for (const [symbol, columns] of closed) db.run(sql, ...columns, symbol);
}

/** Reopens symbols to which a publish adds. Reopening is always right: the next night closes again what is final. */
export function reopenSymbols(db: Database, symbols: Iterable<readonly [string, unknown]>): void {
  const sql = `update symbols set ${reopenedSql} where symbol = ? and closed_to is not null`;
  for (const [symbol] of symbols) db.run(sql, symbol);
}
