import { UsageError } from '../../base/errors.ts';
import { suggestName } from '../../base/nearest-name.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import type { SymbolFacts } from '../format/market.ts';
import type { Database } from './database.ts';
import { readSymbol } from './symbol-store.ts';

/**
 * Reads the facts of a symbol that a user named.
 * @param given how it was named, for the error
 * @throws UsageError for an unknown symbol, with the most similar one
 */
export function requireKnownSymbol(db: Database, symbol: string, given = symbol): SymbolFacts {
  const facts = readSymbol(db, symbol);
  if (facts !== undefined) return facts;
  throw new UsageError(
    `${given} is not known in this archive.${suggestSymbol(db, symbol)} ${adviseSearch(db, symbol)}`,
  );
}

/** Symbols that are compared with an unknown one, so that the suggestion in an error takes at most about a second. */
const comparedSymbolsMax = 200_000;

/** ` (Did you mean SYMBOL?)`: the symbol that most resembles an unknown one; empty if there is none. */
function suggestSymbol(db: Database, unknown: string): string {
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

/** Shorter prefixes have too many symbols for a search, and longer ones are hardly typed. */
const [prefixLengthMin, prefixLengthMax] = [3, 40];

/** The command that finds the symbols with the longest beginning of an unknown one, or else lists all symbols. */
function adviseSearch(db: Database, unknown: string): string {
  const chars = [...unknown].slice(0, prefixLengthMax);
  for (let length = chars.length; length >= prefixLengthMin; length--) {
    const prefix = chars.slice(0, length).join('');
    const sql = 'select symbol from symbols where symbol >= ? order by symbol limit 1';
    if (db.one<{ symbol: string }>(sql, prefix)?.symbol.startsWith(prefix) === true)
      return `To find similar symbols: oddslake symbols ${prefix.startsWith('-') ? '-- ' : ''}${quoteShellWord(prefix)}`;
  }
  return 'To list the known symbols: oddslake symbols';
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
