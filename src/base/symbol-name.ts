/**
 * Whether a text is a valid symbol. Different symbols must stay different in every reader. Unpaired surrogates are
 * excluded because they would be stored as U+FFFD. A leading byte order mark is excluded because text decoders drop it,
 * including those of Arrow and DuckDB. NUL is excluded because it ends a string in many programs and cannot be part of
 * a URL.
 */
export const isSymbolName = (text: string): boolean =>
  text !== '' && text.isWellFormed() && !text.includes('\0') && !text.startsWith('\ufeff');

/**
 * Compares two strings by their UTF-8 bytes, as DuckDB and Parquet readers sort them. JavaScript's own order is by
 * UTF-16 units, which puts characters beyond U+FFFF before U+E000..U+FFFF.
 */
export function compareUtf8(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x === y) continue;
    // Code points of surrogate pairs are greater than all others.
    const xHigh = x >= 0xd800 && x <= 0xdfff;
    const yHigh = y >= 0xd800 && y <= 0xdfff;
    return xHigh === yHigh ? x - y : xHigh ? 1 : -1;
  }
  return a.length - b.length;
}
