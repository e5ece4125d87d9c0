/**
 * Names of the sources of an archive that has several. A symbol of such an archive is qualified by its source,
 * `alpha:KXBTC-26DEC0204-T28`, so that a symbol means one thing everywhere. Symbols of a source may contain a colon too;
 * the first one separates, and names have none. The symbols of an archive of one service are not qualified: everywhere,
 * a source that is null is that service.
 */
const namePattern = /^[a-z0-9-]{1,32}$/;

/**
 * Names whose environment variables would be ambiguous: ODDSLAKE_API_KEY_FILE is the file of a key, and would also be
 * the key of a source `file`.
 */
const reservedPattern = /^file(-|$)/;

export const isSourceName = (text: string): boolean => namePattern.test(text) && !reservedPattern.test(text);

/** What `isSourceName` accepts, for messages. */
export const sourceNameRule = '1 to 32 characters of a-z, 0-9 and -, and not file or file-…';

/** Qualifies a symbol or a canonical_id with its source. */
export const qualifySymbol = (source: string | null, symbol: string): string =>
  source === null ? symbol : `${source}:${symbol}`;

/** Creates a function that qualifies with a source whatever is not qualified by one of `names` yet. */
export const createQualifier =
  (source: string | null, names: readonly string[]): ((symbol: string) => string) =>
  (symbol) =>
    findSource(symbol, names) === null ? qualifySymbol(source, symbol) : symbol;

/** Whether a symbol belongs to a source. */
export const isSymbolOf = (source: string | null, symbol: string): boolean =>
  source === null || symbol.startsWith(`${source}:`);

/**
 * Returns a symbol as its source names it.
 * @throws Error if it is a symbol of another source, which must never be requested from this one
 */
export function unqualifySymbol(source: string | null, symbol: string): string {
  if (source === null) return symbol;
  if (!isSymbolOf(source, symbol)) throw new Error(`${symbol} is not a symbol of the source ${source}`);
  return symbol.slice(source.length + 1);
}

/** Finds the source of a qualified symbol among `names`; null if it has none of them. */
export function findSource(symbol: string, names: readonly string[]): string | null {
  const name = symbol.slice(0, Math.max(0, symbol.indexOf(':')));
  return names.includes(name) ? name : null;
}

/**
 * The range of the symbols of a source in UTF-8 order, `from <= symbol < to`, for queries that use an index. In ASCII,
 * the semicolon follows the colon.
 */
export const getSymbolRange = (source: string): { readonly from: string; readonly to: string } => ({
  from: `${source}:`,
  to: `${source};`,
});
