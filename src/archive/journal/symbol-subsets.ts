import type { SymbolFacts } from '../format/market.ts';
import type { Database } from './database.ts';
import { endedSql } from './schema.ts';
import { readSymbolsWhere, selectSymbolsOf } from './symbol-store.ts';

// Reads of the symbols that a step needs. Most symbols of an archive of years have ended; reading all of them in each step
// takes longer than the step. `source`: see symbol-store.ts.

/**
 * Reads the symbols that may be active, sorted: for each of the others, `isActive` is false.
 * @param namedSymbols the configured symbols; null if the market lists determine the symbols
 */
export function readPossiblyActiveSymbols(
  db: Database,
  namedSymbols: ReadonlySet<string> | null,
  source: string | null,
): SymbolFacts[] {
  const watched = 'symbol in (select symbol from watched)';
  return namedSymbols === null
    ? readSymbolsWhere(db, `listed = 1 and ${endedSql} is null or ${watched}`, [], source)
    : readSymbolsWhere(
        db,
        `symbol in (select value from json_each(?)) or ${watched}`,
        [JSON.stringify([...namedSymbols])],
        source,
      );
}

/** Names and numbers of ticks of the symbols that are neither suspended nor left out by a decision, sorted. */
export function readCollectedSymbols(
  db: Database,
  source: string | null,
): { readonly symbol: string; readonly ticks: number }[] {
  const { where, values } = selectSymbolsOf(source);
  return db
    .rows<[symbol: string, ticks: number]>(
      `select symbol, ticks from symbols where suspended_at is null
         and symbol not in (select symbol from unselected where t_to is null) and ${where} order by symbol`,
      ...values,
    )
    .map((row) => ({ symbol: row[0], ticks: row[1] }));
}

/** Whether a market list named any symbol. */
export function hasListedSymbols(db: Database, source: string | null): boolean {
  const { where, values } = selectSymbolsOf(source);
  return db.one(`select 1 from symbols where listed = 1 and ${where} limit 1`, ...values) !== undefined;
}
