import type { RecordPaths } from '../../archive/format/parse-market.ts';
import { isTimeName, timeNames } from '../../archive/format/series-datasets.ts';
import type { ColumnFilter, ColumnRename } from '../../archive/query/read-rows.ts';
import { marketColumnNames } from './import-market.ts';
import { quoteValueNames } from './import-quotes.ts';
import type { ImportDataset } from './import-rows.ts';
import { tradeColumnNames } from './import-trades.ts';

// Which columns of a file hold which columns of the datasets. In JSON lines, a column may lie in nested objects: then its
// name is a path, such as `msg/price`.

/** A file that cannot be imported, with the reason as a clause. In a folder, the other files are imported. */
export interface FileFault {
  readonly fault: string;
}

const bookSideNames = ['bids', 'asks'];
/** Columns of order books with one level a row, as oddslake publishes them. `level` is not read: prices give the order. */
const bookLevelNames = ['side', 'price', 'quantity'];
/** The prices of a quote. A file of quotes has at least one of them. */
export const quotePriceNames: readonly string[] = ['bid', 'ask'];

const readColumnNames: Readonly<Record<ImportDataset, readonly string[]>> = {
  ticks: ['symbol', 't', 'p'],
  quotes: ['symbol', 't', ...quoteValueNames, ...timeNames],
  // seq is computed when the rows are published.
  trades: ['symbol', 't', ...tradeColumnNames, ...timeNames, 'seq'],
  orderbooks: ['symbol', 't', ...bookSideNames, ...bookLevelNames, 'level'],
  markets: marketColumnNames,
};

export const listReadColumns = (of: readonly ImportDataset[]): readonly string[] => [
  ...new Set(of.flatMap((dataset) => readColumnNames[dataset])),
];

const allColumnNames = listReadColumns(['ticks', 'quotes', 'trades', 'orderbooks', 'markets']);

/** Whether rows hold one level each, rather than both sides of an order book. */
export const hasLevelRows = (names: readonly string[]): boolean =>
  bookLevelNames.every((name) => names.includes(name)) && !bookSideNames.some((name) => names.includes(name));

/**
 * Finds the columns that --columns and --where name, and those that have the name of a dataset's column in another case.
 * A name that only differs in case is found if there is exactly one.
 * @param names columns of the file
 */
export function resolveColumns(
  names: readonly string[],
  given: { readonly renames: readonly ColumnRename[]; readonly filters: readonly ColumnFilter[] },
): { readonly renames: readonly ColumnRename[]; readonly filters: readonly ColumnFilter[] } | FileFault {
  const exact = new Set(names);
  const byLowerCase = Map.groupBy(names, (name) => name.toLowerCase());
  const find = (name: string): string | undefined => {
    if (exact.has(name) || holdsFields(name, names)) return name;
    const [found, ...others] = byLowerCase.get(name.toLowerCase()) ?? [];
    return others.length === 0 ? found : undefined;
  };
  for (const [flag, wanted] of [
    ['--columns', given.renames.map(([, own]) => own)],
    ['--where', given.filters.map(({ column }) => column)],
  ] as const) {
    const missing = wanted.filter((name) => find(name) === undefined);
    if (missing.length > 0)
      return {
        fault: `missing column${missing.length > 1 ? 's' : ''} ${missing.join(', ')} named by ${flag} (${formatFoundColumns(names)})`,
      };
  }
  const renames = given.renames.map(([name, own]): ColumnRename => [name, find(own)!]);
  // The time of a row may also be one of its finer times.
  const single = renames.filter(([name]) => !isTimeName(name));
  const twice = single.find(([, own], i) => single.findIndex((pair) => pair[1] === own) < i);
  if (twice !== undefined) return { fault: `column ${twice[1]} is named twice by --columns` };
  const used = new Set(renames.flat());
  for (const name of allColumnNames) {
    const own = find(name);
    if (own !== undefined && own !== name && !used.has(name) && !used.has(own)) renames.push([name, own]);
  }
  const filters = given.filters.map(({ column, value }) => ({ column: find(column)!, value }));
  const isShared = (column: string): boolean => renames.filter(([, own]) => own === column).length > 1;
  return { renames: renames.filter(([name, own]) => name !== own || isShared(own)), filters };
}

/** Whether a name is that of an object in JSON lines whose fields are listed. */
const holdsFields = (name: string, names: readonly string[]): boolean =>
  names.some((field) => field.startsWith(`${name}/`));

const formatFoundColumns = (names: readonly string[]): string =>
  `found: ${names.slice(0, 12).join(', ') || 'none'}${names.length > 12 ? ', …' : ''}`;

/**
 * Detects the datasets of rows with these columns. If there is none, returns the reason as a clause. `expected`: the expected
 * datasets, or null: then rows have one dataset, and those with observed prices are no market list. `ownNames`: the columns as
 * the file names them, for the reason.
 */
export function detectDatasets(
  names: readonly string[],
  expected: readonly ImportDataset[] | null,
  { symbolPaths, fieldPaths }: RecordPaths,
  ownNames: readonly string[],
  hasPrices: boolean,
): readonly ImportDataset[] | FileFault {
  const columns = new Set(names);
  const top = (paths: readonly string[]): boolean => paths.some((path) => columns.has(path.split('/')[0]!));
  const isList = columns.has('canonical_id') || columns.has('symbol') || top(symbolPaths);
  // Other feeds, such as trades, have events and tick sizes too.
  const { question, source, opensAt, closesAt, resolvedAt, outcome } = fieldPaths;
  const marketPaths = [question, source, opensAt, closesAt, resolvedAt, outcome].flat();
  const hasMarketColumns = top([...marketPaths, 'category', 'is_active', 'confidence']);
  const hasSides = bookSideNames.some((name) => columns.has(name));
  // Trades may have a side, a price and a quantity too, but no level.
  const hasBooks =
    columns.has('symbol') && columns.has('t') && (hasSides || (hasLevelRows(names) && columns.has('level')));
  const missing = findMissingColumns(names, expected ?? ['ticks']);
  const foundText = formatFoundColumns(ownNames);
  if (expected?.includes('markets'))
    return isList ? expected : { fault: `missing column symbol or canonical_id (${foundText})` };
  if (missing.length === 0) return expected ?? ['ticks'];
  if (expected === null && hasBooks && !columns.has('p')) return ['orderbooks'];
  if (expected === null && columns.has('trade_id') && findMissingColumns(names, ['trades']).length === 0)
    return ['trades'];
  if (expected === null && columns.has('canonical_id') && !hasPrices) return ['markets'];
  if (expected === null && !columns.has('p') && findMissingColumns(names, ['quotes']).length === 0) return ['quotes'];
  const isMarkets = isList && hasMarketColumns && !columns.has('t') && !columns.has('p') && !hasPrices;
  if (expected === null && isMarkets) return ['markets'];
  const list = hasPrices ? 'with times and prices needs' : 'has a canonical_id column or needs';
  const hint = expected === null ? `; a market list ${list} --dataset markets` : '';
  return { fault: `missing column${missing.length > 1 ? 's' : ''} ${missing.join(', ')} (${foundText})${hint}` };
}

/**
 * The columns without which no row can be read. Of the two sides of an order book, and of bid and ask, one suffices. An order
 * book may also have one level a row.
 */
export function findMissingColumns(names: readonly string[], datasets: readonly ImportDataset[]): string[] {
  const columns = new Set(names);
  const needed = datasets.flatMap((dataset): readonly string[] => {
    if (dataset === 'ticks') return readColumnNames.ticks;
    if (dataset === 'quotes')
      return ['symbol', 't', ...(quotePriceNames.some((name) => columns.has(name)) ? [] : quotePriceNames)];
    if (dataset === 'trades') return ['symbol', 't', 'price', 'size'];
    if (dataset === 'markets') return [];
    const hasSides = bookSideNames.some((name) => columns.has(name)) || hasLevelRows(names);
    return ['symbol', 't', ...(hasSides ? [] : bookSideNames)];
  });
  return [...new Set(needed)].filter((name) => !columns.has(name));
}

/** The columns of a file that its datasets do not read. A column without a name, such as the index of pandas, is left out. */
export function listUnusedColumns(
  names: readonly string[],
  datasets: readonly ImportDataset[],
  { renames, filters }: { readonly renames: readonly ColumnRename[]; readonly filters: readonly ColumnFilter[] },
): string[] {
  // A market keeps all fields without a column in `extra`.
  if (datasets.includes('markets')) return [];
  const read = listReadColumns(datasets);
  const replaced = new Set(renames.map(([name]) => name));
  const used = new Set(read.filter((name) => !replaced.has(name)));
  for (const [name, own] of renames) if (read.includes(name)) used.add(own);
  for (const { column } of filters) used.add(column);
  const isUsed = (name: string): boolean => used.has(name) || [...used].some((one) => name.startsWith(`${one}/`));
  return names.filter((name) => !isUsed(name) && !/^column_\d+$/.test(name));
}

type JsonRow = Readonly<Record<string, unknown>>;

/** The value of a column in a JSON row; null if the row does not have it. */
export function readField(row: JsonRow, name: string): unknown {
  if (Object.hasOwn(row, name)) return row[name];
  if (!name.includes('/')) return null;
  let value: unknown = row;
  for (const key of name.split('/')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return null;
    value = (value as JsonRow)[key];
  }
  return value;
}

/** Whether a JSON row has the value of each filter, as text. */
export const matchesFilters = (row: JsonRow, filters: readonly ColumnFilter[]): boolean =>
  filters.every(({ column, value }) => formatCell(readField(row, column)) === value);

/** A value as text: null stays null, and objects become JSON. */
export function formatCell(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Renames the columns of a row to the names used by the import. */
export function renameColumns(row: Record<string, unknown>, renames: readonly ColumnRename[]): Record<string, unknown> {
  if (renames.length === 0) return row;
  const rest = Object.entries(row).filter(([name]) => !renames.some((pair) => pair.includes(name)));
  const read = renames.flatMap(([name, own]) => {
    const value = readField(row, own);
    return value === null && !Object.hasOwn(row, own) ? [] : [[name, value]];
  });
  return Object.fromEntries([...rest, ...read]);
}

/** Whether the keys of a value are names of fields. A side of an order book may have prices as keys. */
const hasFields = (value: object): boolean =>
  !Array.isArray(value) && Object.keys(value).some((key) => !/^\d*\.?\d+$/.test(key));

/** Maximum depth of nested objects whose fields are listed. */
const depthMax = 4;

/** The columns of JSON rows, those in nested objects as paths. Lists, and objects with numbers as keys, are one column. */
export function listFields(rows: readonly JsonRow[]): string[] {
  const names = new Set<string>();
  const add = (row: JsonRow, prefix: string, depth: number): void => {
    for (const [name, value] of Object.entries(row)) {
      if (typeof value === 'object' && value !== null && hasFields(value) && depth < depthMax)
        add(value as JsonRow, `${prefix}${name}/`, depth + 1);
      else names.add(`${prefix}${name}`);
    }
  };
  for (const row of rows) add(row, '', 1);
  return [...names];
}
