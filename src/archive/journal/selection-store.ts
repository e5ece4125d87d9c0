import { isSymbolOf } from '../../base/source-name.ts';
import type { SymbolFacts } from '../format/market.ts';
import type { Selections, SymbolSelection, UnselectedWindow } from '../format/selection.ts';
import type { Database } from './database.ts';

// What was decided about the collection of symbols: see archive/completeness/symbol-selection.ts. The manifest lists it too, so
// that a rebuilt state knows it.

interface UnselectedRow extends Omit<UnselectedWindow, 'to'> {
  readonly symbol: string;
  readonly to: number | null;
}

const unselectedSql = `select symbol, t_from as "from", t_to as "to", kind, reason, decided_at as "decidedAt" from unselected`;

/** The start of a window that starts at -Infinity: SQLite stores no infinite integer, and no tick is that old. */
const unboundedFrom = 0;

const toUnselectedWindow = ({ symbol: _, from, to, ...decision }: UnselectedRow): UnselectedWindow => ({
  from: from === unboundedFrom ? Number.NEGATIVE_INFINITY : from,
  to: to ?? Number.POSITIVE_INFINITY,
  ...decision,
});

/** Reads the decisions about all symbols, sorted by symbol. */
export function readSelections(db: Database): Selections {
  const windows = db.all<UnselectedRow>(`${unselectedSql} order by symbol, t_from`);
  const watched = db.all<{ symbol: string; decided_at: number }>('select * from watched order by symbol');
  if (windows.length === 0 && watched.length === 0) return new Map();
  const bySymbol = Map.groupBy(windows, ({ symbol }) => symbol);
  const watchedAt = new Map(watched.map((row) => [row.symbol, row.decided_at]));
  // SQLite's binary order is UTF-8 byte order.
  const symbols = db.all<{ symbol: string }>(
    'select symbol from unselected union select symbol from watched order by 1',
  );
  return new Map(
    symbols.map(({ symbol }) => [symbol, createSelection(bySymbol.get(symbol) ?? [], watchedAt.get(symbol))]),
  );
}

const createSelection = (rows: readonly UnselectedRow[], watchedAt: number | undefined): SymbolSelection => ({
  ...(rows.length > 0 && { unselected: rows.map(toUnselectedWindow) }),
  ...(watchedAt !== undefined && { watchedAt }),
});

/** Adds to the facts of symbols what was decided about them. */
export function attachSelections(db: Database, symbols: readonly SymbolFacts[]): SymbolFacts[] {
  const selections = symbols.length === 0 ? new Map<string, never>() : readSelections(db);
  if (selections.size === 0) return [...symbols];
  return symbols.map((facts) => {
    const selection = selections.get(facts.symbol);
    return selection === undefined ? facts : { ...facts, ...selection };
  });
}

/** The same for one symbol. */
export function attachSelection(db: Database, facts: SymbolFacts): SymbolFacts {
  const rows = db.all<UnselectedRow>(`${unselectedSql} where symbol = ? order by t_from`, facts.symbol);
  const sql = 'select decided_at from watched where symbol = ?';
  const watched = db.one<{ decided_at: number }>(sql, facts.symbol);
  return rows.length === 0 && watched === undefined
    ? facts
    : { ...facts, ...createSelection(rows, watched?.decided_at) };
}

/** Records what is decided about symbols, in place of earlier decisions. */
export function recordSelections(db: Database, selections: Selections): void {
  db.transaction(() => {
    for (const [symbol, { unselected = [], watchedAt }] of selections) {
      db.run('delete from unselected where symbol = ?', symbol);
      db.run('delete from watched where symbol = ?', symbol);
      for (const { from, to, kind, reason, decidedAt } of unselected)
        db.run(
          'insert into unselected values (?, ?, ?, ?, ?, ?)',
          symbol,
          Number.isFinite(from) ? from : unboundedFrom,
          Number.isFinite(to) ? to : null,
          kind,
          reason,
          decidedAt,
        );
      if (watchedAt !== undefined) db.run('insert into watched values (?, ?)', symbol, watchedAt);
    }
  });
}

/** Whether settings left out a symbol of a source that is not collected now. */
export const hasExcludedSymbols = (db: Database, source: string | null): boolean =>
  db
    .all<{ symbol: string }>("select symbol from unselected where t_to is null and kind = 'excluded'")
    .some(({ symbol }) => isSymbolOf(source, symbol));

/** Names of the symbols of a source that users watch, sorted. */
export const readWatchedNames = (db: Database, source: string | null): string[] =>
  db
    .all<{ symbol: string }>('select symbol from watched order by symbol')
    .map(({ symbol }) => symbol)
    .filter((symbol) => isSymbolOf(source, symbol));
