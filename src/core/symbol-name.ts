/**
 * Whether a text can name a market, so that every reader tells it from others: half a surrogate pair would be stored as
 * U+FFFD, a leading byte order mark is dropped by what decodes text (Arrow and DuckDB among it), and a NUL ends a text in
 * many a program and stands in no URL.
 */
export const isSymbolName = (text: string): boolean =>
  text !== '' && text.isWellFormed() && !text.includes('\0') && !text.startsWith('\ufeff');
