import { type BySymbol, symbolAt } from './symbol-offsets.ts';

/** The numbers of a column, whole ones where its type says so. */
export type Numbers = Float64Array | Int32Array;

/** Rows that wait for their row group to be full: those of symbols, and the columns beside the symbol, by name. */
export interface HeldRows {
  readonly by: BySymbol;
  readonly values: Readonly<Record<string, Numbers>>;
}

/** The rows of one behind those of the other; the symbols of the second come after those of the first. */
export function joinRows(a: HeldRows, b: HeldRows): HeldRows {
  const rows = a.by.offsets.at(-1)!;
  const offsets = new Float64Array(a.by.offsets.length + b.by.symbols.length);
  offsets.set(a.by.offsets);
  for (let i = 1; i < b.by.offsets.length; i++) offsets[a.by.symbols.length + i] = rows + b.by.offsets[i]!;
  return {
    by: { symbols: [...a.by.symbols, ...b.by.symbols], offsets },
    values: mapped(a.values, (numbers, name) => joinNumbers(numbers, b.values[name]!)),
  };
}

function joinNumbers(a: Numbers, b: Numbers): Numbers {
  const length = a.length + b.length;
  const joined = a instanceof Int32Array ? new Int32Array(length) : new Float64Array(length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}

/** A copy of the rows `from` to `to`, at least one, so that the others can go. */
export function rowsBetween({ by: { symbols, offsets }, values }: HeldRows, from: number, to: number): HeldRows {
  const first = symbolAt(offsets, from);
  const last = symbolAt(offsets, to - 1);
  const between = offsets.slice(first, last + 2).map((offset) => Math.min(to, Math.max(from, offset)) - from);
  return {
    by: { symbols: symbols.slice(first, last + 1), offsets: between },
    values: mapped(values, (numbers) => numbers.slice(from, to)),
  };
}

const mapped = (
  values: HeldRows['values'],
  change: (numbers: Numbers, name: string) => Numbers,
): Record<string, Numbers> =>
  Object.fromEntries(Object.entries(values).map(([name, numbers]) => [name, change(numbers, name)]));
