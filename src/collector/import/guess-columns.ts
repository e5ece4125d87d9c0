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
