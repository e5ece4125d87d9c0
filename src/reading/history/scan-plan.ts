import { createFileFilter, datasetShapes } from '../../archive/copies/prune-files.ts';
import type { Manifest, PublishedFile } from '../../archive/manifest.ts';
import { type DatasetName, datasets } from '../../archive/parquet/schema.ts';
import { compareUtf8 } from '../../core/compare-utf8.ts';
import type { SymbolFacts } from '../../core/market.ts';
import type { QueryParameter } from '../../query/convert-values.ts';
import { type DatasetSlice, type SqlCondition, toSqlTimestamp } from '../../query/slice-query.ts';
import type { RowPageRequest, RowPosition, ScanStep } from './keyset-page.ts';

/** Files that are opened at first for one symbol's page, however few rows they promise. */
const filesFirstMax = 64;

/** Files that are opened in any case: another one costs less than another query. */
const filesMin = 16;

/** Published ticks of the symbols that are looked at first for a page of all symbols. */
const ticksFirst = 200_000;

/** Each time a page was not full yet, so much more is looked at. */
const growthFactor = 4;

/** What a condition consists of, its values numbered as they come. */
export function createCondition(say: (value: (one: QueryParameter) => string) => readonly string[]): SqlCondition {
  const values: QueryParameter[] = [];
  const parts = say((one) => `$${values.push(one)}`);
  return { sql: parts.length === 0 ? 'true' : parts.join(' AND '), values };
}

/** The slice of a published dataset that is asked for; `only` narrows it further. */
export function createPublishedSlice(
  dataset: DatasetName,
  { from, to }: Pick<RowPageRequest, 'from' | 'to'>,
  condition: SqlCondition,
): DatasetSlice {
  const { sortColumns, timeColumns } = datasetShapes[dataset];
  return { dataset, columns: datasets[dataset], keys: sortColumns, symbols: [], timeColumns, from, to, condition };
}

/** Rows of a dataset behind a place, by the column that holds its time. */
export function formatAfterCondition(
  after: RowPosition,
  column: string,
  value: (one: QueryParameter) => string,
): string {
  const symbol = value(after.symbol);
  return `symbol >= ${symbol} AND (symbol > ${symbol} OR ${column} > ${toSqlTimestamp(after.t)})`;
}

/**
 * One symbol's rows of a dataset: its days one after another, as many at a time as should hold a page.
 * @param timed the column that orders a symbol's rows
 */
export function* planDaySteps(
  manifest: Manifest,
  dataset: DatasetName,
  timed: string,
  asked: RowPageRequest & { readonly symbol: string },
  narrowed: (value: (one: QueryParameter) => string) => readonly string[] = () => [],
): Generator<ScanStep> {
  const { symbol, to, after, limit } = asked;
  const from = after === null ? asked.from : Math.max(asked.from ?? 0, after.t);
  const wanted = createFileFilter(manifest, dataset, [symbol], { from, to });
  const files = manifest.datasets[dataset].files.filter(wanted).sort((a, b) => (a.path < b.path ? -1 : 1));
  const condition = createCondition((value) => [
    ...narrowed(value),
    `symbol = ${value(symbol)}`,
    ...(after === null ? [] : [`${timed} > ${toSqlTimestamp(after.t)}`]),
  ]);
  const slice = createPublishedSlice(dataset, asked, condition);
  let at = 0;
  for (let most = filesFirstMax; at < files.length; most *= growthFactor) {
    const until = findFilesEnd(files, at, limit + 1, most);
    yield { files: new Map([[dataset, files.slice(at, until)]]), defined: [], slice };
    at = until;
  }
}

/** Where files from `at` on hold so many rows of a symbol that is like the others; at most `most` files. */
function findFilesEnd(files: readonly PublishedFile[], at: number, rows: number, most: number): number {
  let promised = 0;
  for (let i = at; i < files.length; i++) {
    promised += files[i]!.rows / Math.max(1, files[i]!.symbols);
    const opened = i + 1 - at;
    if ((promised >= rows && opened >= filesMin) || opened >= most) return i + 1;
  }
  return files.length;
}

/** Ends of ranges of symbols from one on, in order, the last one open: each range about `growth` times the one before. */
export function* planSymbolRanges(
  symbols: readonly Pick<SymbolFacts, 'symbol' | 'ticks'>[],
  from: string | null,
): Generator<{ readonly above: string | null; readonly upTo: string | null }> {
  const sorted = symbols
    .filter(({ symbol }) => from === null || compareUtf8(symbol, from) >= 0)
    .sort((a, b) => compareUtf8(a.symbol, b.symbol));
  let above: string | null = null;
  let ticks = 0;
  let most = ticksFirst;
  for (const one of sorted.slice(0, -1)) {
    ticks += one.ticks;
    if (ticks < most) continue;
    yield { above, upTo: one.symbol };
    above = one.symbol;
    ticks = 0;
    most *= growthFactor;
  }
  yield { above, upTo: null };
}

/** All symbols' rows of a dataset: ranges of symbols one after another. */
export function* planRangeSteps(
  manifest: Manifest,
  dataset: DatasetName,
  timed: string,
  asked: RowPageRequest,
  symbols: readonly Pick<SymbolFacts, 'symbol' | 'ticks'>[],
  narrowed: (value: (one: QueryParameter) => string) => readonly string[] = () => [],
): Generator<ScanStep> {
  const { after } = asked;
  const files = new Map([
    [dataset, manifest.datasets[dataset].files.filter(createFileFilter(manifest, dataset, [], asked))],
  ]);
  for (const { above, upTo } of planSymbolRanges(symbols, after?.symbol ?? null)) {
    const condition = createCondition((value) => [
      ...narrowed(value),
      ...formatRangeConditions(above, upTo, after, timed, value),
    ]);
    yield { files, defined: [], slice: createPublishedSlice(dataset, asked, condition) };
  }
}

/** Conditions on a range of symbols, and on what is behind a place. */
export const formatRangeConditions = (
  above: string | null,
  upTo: string | null,
  after: RowPosition | null,
  timed: string,
  value: (one: QueryParameter) => string,
): string[] => [
  ...(above === null ? [] : [`symbol > ${value(above)}`]),
  ...(upTo === null ? [] : [`symbol <= ${value(upTo)}`]),
  ...(after === null ? [] : [formatAfterCondition(after, timed, value)]),
];
