import { suggestName } from '../../base/nearest-name.ts';
import type { Database } from './database.ts';

/** Symbols that are compared with an unknown one, so that the suggestion in an error takes at most about a second. */
const comparedSymbolsMax = 200_000;

/** ` (Did you mean SYMBOL?)`: the symbol that most resembles an unknown one; empty if there is none. */
export function suggestSymbol(db: Database, unknown: string): string {
  const ofSource = db.all<{ symbol: string }>(
    "select symbol from symbols where substr(symbol, instr(symbol, ':') + 1) = ? and instr(symbol, ':') > 0 limit 2",
    unknown,
  );
  if (ofSource.length === 1) return ` (Did you mean ${ofSource[0]!.symbol}?)`;
  const near = db.all<{ symbol: string }>(
    'select symbol from symbols where length(symbol) between ? and ? limit ?',
    unknown.length - 3,
    unknown.length + 3,
    comparedSymbolsMax,
  );
  return suggestName(
    unknown,
    near.map(({ symbol }) => symbol),
  );
}

/** Names of symbols that begin with a text, sorted by their bytes, at most `max`. */
export const readSymbolsWithPrefix = (db: Database, prefix: string, max: number): string[] =>
  db
    .all<{ symbol: string }>(
      'select symbol from symbols where symbol >= ? and substr(symbol, 1, length(?)) = ? order by symbol limit ?',
      prefix,
      prefix,
      prefix,
      max,
    )
    .map(({ symbol }) => symbol);
