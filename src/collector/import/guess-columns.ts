import type { RecordPaths } from '../../archive/format/parse-market.ts';
import type { ColumnFilter, ColumnRename } from '../../archive/query/read-rows.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import {
  fits,
  listRoles,
  noPricePattern,
  normalizeName,
  otherPricePattern,
  otherTimePattern,
  type Role,
  roleNames,
} from './column-roles.ts';
import { marketColumnNames } from './import-market.ts';
import type { ImportDataset, TickRowRules } from './import-rows.ts';
import { findMissingColumns } from './row-columns.ts';

// Which dataset a file may hold, and which of its columns may have which role.

/** The first rows of a file as text: `rows[i][c]` is the value of column `names[c]`. */
export interface FileSample {
  readonly names: readonly string[];
  readonly rows: readonly (readonly (string | null)[])[];
}

/** The flags of the command that say how rows are read. */
export interface GivenFlags {
  /** Null: inferred from the columns. */
  readonly datasets: readonly ImportDataset[] | null;
  /** Columns that have a different name in the file. */
  readonly renames: readonly ColumnRename[];
  /** Only rows that match all of these are imported. */
  readonly filters: readonly ColumnFilter[];
  readonly rows: TickRowRules;
}

/** Returns the values of a column by its name. */
export const openColumns =
  ({ names, rows }: FileSample) =>
  (name: string): (string | null)[] => {
    const c = names.indexOf(name);
    return rows.map((row) => row[c] ?? null);
  };

export const present = (values: readonly (string | null)[]): string[] =>
  values.filter((value): value is string => value !== null && value.trim() !== '');

export function guessDatasets(
  { names }: FileSample,
  { datasets, renames }: GivenFlags,
  columnOf: (name: string) => (string | null)[],
): readonly ImportDataset[] {
  if (datasets !== null) return datasets;
  const given = new Set(renames.map(([name]) => name));
  if (given.has('p')) return ['ticks'];
  if (given.has('bids') || given.has('asks')) return ['orderbooks'];
  if (given.has('bid') || given.has('ask')) return ['quotes'];
  const has = (role: Role): boolean => names.some((name) => isNamed(name, role) && fits[role](present(columnOf(name))));
  if (has('p')) return ['ticks'];
  if (has('bids') || has('asks')) return ['orderbooks'];
  return has('bid') || has('ask') ? ['quotes'] : ['ticks'];
}

export const quoteRoles: readonly Role[] = listRoles(['quotes']);

/** Whether feeds use this name for a role. The names of a quote are those of YES. */
const isNamed = (name: string, role: Role): boolean =>
  roleNames[role].includes(normalizeName(name)) && !(quoteRoles.includes(role) && noPricePattern.test(name));

/** Names of prices and sizes of an order or a trade, and of limits that a market sets for them. */
const [priceNamePattern, limitNamePattern] = [/price|bid|ask|odds|prob|size|qty|quantit|volume/, /tick|strike|min|max/];

/**
 * Whether a file has a time and a price, a bid, an ask or a size, so that it is no market list unless the user says so. A name
 * suffices for each: the values may have an unknown format. A column with any other name counts if its values are times, or have
 * decimals. When a market closes counts only if symbols repeat, as in candles.
 */
export function hasObservedPrices(sample: FileSample, { symbolPaths, fieldPaths }: RecordPaths): boolean {
  const columnOf = openColumns(sample);
  const ofMarkets = new Set([...marketColumnNames, ...Object.values(fieldPaths).flat()]);
  const symbols = present(columnOf(['symbol', ...symbolPaths].find((name) => sample.names.includes(name)) ?? ''));
  const repeats = new Set(symbols).size < symbols.length;
  const isTime = (name: string): boolean =>
    (repeats || canBeObserved(name)) && (isNamed(name, 't') || fits.t(present(columnOf(name))));
  const isPrice = (name: string): boolean => {
    if (ofMarkets.has(name) || limitNamePattern.test(name.toLowerCase())) return false;
    if (priceNamePattern.test(name.toLowerCase()) || isNamed(name, 'p') || isNamed(name, 'size')) return true;
    const values = present(columnOf(name));
    return fits.p(values) && values.some((value) => /[.,]\d/.test(value));
  };
  return sample.names.some(isTime) && sample.names.some(isPrice);
}

/**
 * Finds a column for each role. Null if there is none for one that is needed. `guessed`: the roles whose column is a guess.
 */
export function guessColumns(
  names: readonly string[],
  { renames }: Pick<GivenFlags, 'renames'>,
  datasets: readonly ImportDataset[],
  columnOf: (name: string) => (string | null)[],
): { readonly columns: ReadonlyMap<Role, string>; readonly guessed: ReadonlySet<Role> } | null {
  if (datasets.includes('markets')) return null;
  const columns = new Map<Role, string>();
  const guessed = new Set<Role>();
  const taken = new Set<string>();
  const roles = listRoles(datasets);
  for (const role of roles) {
    const known = renames.find(([name]) => name === role)?.[1] ?? names.find((name) => name === role);
    if (known === undefined) continue;
    columns.set(role, known);
    taken.add(known);
  }
  for (const role of roles) {
    if (columns.has(role)) continue;
    const free = names.filter((name) => !taken.has(name) && !/[=,]/.test(name));
    const fitting = free.filter((name) => fits[role](present(columnOf(name))));
    const rank = (name: string): number => roleNames[role].indexOf(normalizeName(name));
    // The bid of a candle is not its price.
    const isOther = (name: string): number => Number(role === 'p' && otherPricePattern.test(name));
    const [named] = fitting
      .filter((name) => isNamed(name, role))
      .sort((a, b) => isOther(a) - isOther(b) || rank(a) - rank(b));
    // Without a known name, a column is only guessed if no other one fits.
    const only = role === 'symbol' || role === 't' ? onlyOne(fitting) : undefined;
    const own = named ?? (only !== undefined && role === 't' && !canBeObserved(only) ? undefined : only);
    if (own === undefined) continue;
    columns.set(role, own);
    guessed.add(role);
    taken.add(own);
  }
  return findMissingColumns([...columns.keys()], datasets).length > 0 ? null : { columns, guessed };
}

const canBeObserved = (name: string): boolean => !otherTimePattern.test(normalizeName(name));

const onlyOne = <T>(values: readonly T[]): T | undefined => (values.length === 1 ? values[0] : undefined);

/** The flag for columns that have another name; empty if all have the name of their role. */
export const formatColumnsFlag = (columns: readonly (readonly [Role, string])[]): string => {
  const pairs = columns.filter(([role, own]) => own !== role).map(([role, own]) => `${role}=${own}`);
  return pairs.length === 0 ? '' : `--columns ${quoteShellWord(pairs.join(','))}`;
};
