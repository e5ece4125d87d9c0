import { findFirstIndex } from './binary-search.ts';
import { compareUtf8 } from './symbol-name.ts';

/** The symbols from `from` to `to`, both included, in the order of their UTF-8 bytes. */
export interface SymbolRange {
  readonly from: string;
  readonly to: string;
}

export const isInRange = ({ from, to }: SymbolRange, symbol: string): boolean =>
  compareUtf8(from, symbol) <= 0 && compareUtf8(symbol, to) <= 0;

export const overlapsRange = (a: SymbolRange, b: SymbolRange): boolean =>
  compareUtf8(a.from, b.to) <= 0 && compareUtf8(b.from, a.to) <= 0;

/** Whether a range has one of the symbols, which are sorted. */
export function hasOneOf(range: SymbolRange, symbols: readonly string[]): boolean {
  const next = symbols[findFirstIndex(0, symbols.length, (i) => compareUtf8(symbols[i]!, range.from) >= 0)];
  return next !== undefined && isInRange(range, next);
}

/** The index of the first range that ends at a symbol or after it. @param ranges disjoint and sorted */
export const findRangeIndex = (ranges: readonly SymbolRange[], symbol: string): number =>
  findFirstIndex(0, ranges.length, (i) => compareUtf8(ranges[i]!.to, symbol) >= 0);

/** Finds the range with a symbol. @param ranges disjoint and sorted */
export function findRange<R extends SymbolRange>(ranges: readonly R[], symbol: string): R | undefined {
  const range = ranges[findRangeIndex(ranges, symbol)];
  return range !== undefined && compareUtf8(range.from, symbol) <= 0 ? range : undefined;
}

/** Finds the least and the greatest symbol; undefined if there are none. */
export function findSymbolRange(symbols: Iterable<string>): SymbolRange | undefined {
  let range: { from: string; to: string } | undefined;
  for (const symbol of symbols) {
    range ??= { from: symbol, to: symbol };
    if (compareUtf8(symbol, range.from) < 0) range.from = symbol;
    if (compareUtf8(symbol, range.to) > 0) range.to = symbol;
  }
  return range;
}
