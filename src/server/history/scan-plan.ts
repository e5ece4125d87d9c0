import {
  type Column,
  type DatasetName,
  type DatasetsWith,
  datasets,
  type TimeColumns,
} from '../../archive/format/datasets.ts';
import { listFilesWithRows, type Manifest, type PublishedFile, sumFileSizes } from '../../archive/format/manifest.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { hasRowIds, listTextColumns, seriesDatasets } from '../../archive/format/series-datasets.ts';
import { createFileFilter } from '../../archive/publish/prune-files.ts';
import { listViewDefinitions } from '../../archive/publish/views-sql.ts';
import type { QueryParameter } from '../../archive/query/convert-values.ts';
import { type DatasetSlice, type SqlCondition, toSqlTimestamp } from '../../archive/query/slice-query.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { dayMs, hourMs, minuteMs } from '../../base/window.ts';
import type { RowPageRequest, RowPosition, ScanStep } from './history.ts';

/** Maximum number of files opened by the first query for a page of one symbol. */
const filesFirstMax = 64;

/** Number of files that a query opens in any case, because another file costs less than another query. */
const filesMin = 16;

/** Number of rows of the symbols read by the first query for a page of all symbols, estimated by their published ticks. */
const rowsFirst = 200_000;

/** Growth of these limits with each further query for a page. */
const growthFactor = 4;

/** Adds a parameter to a query, and returns its name in SQL. */
export type AddValue = (one: QueryParameter) => string;
export type CreateConditions = (value: AddValue) => readonly string[];

/** Builds a condition; the parameters are numbered in order of use. */
export function createCondition(createParts: CreateConditions): SqlCondition {
  const values: QueryParameter[] = [];
  const parts = createParts((one) => `$${values.push(one)}`);
  return { sql: parts.length === 0 ? 'true' : parts.join(' AND '), values };
}

/** A dataset whose rows have a time. */
export type TimedDataset = DatasetsWith<'time', TimeColumns>;

/** A slice of a published dataset, restricted by `condition`. */
export function createPublishedSlice(
  dataset: DatasetName,
  { from, to }: Pick<RowPageRequest, 'from' | 'to'>,
  condition: SqlCondition,
): DatasetSlice {
  const { columns, order, time } = datasets[dataset];
  return { dataset, columns, keys: order, symbols: [], timeColumns: time, from, to, condition };
}

/**
 * The column that identifies the rows of one symbol and time; null if there is one row for each, or if a page has them all.
 */
export function findIdColumn(dataset: DatasetName): string | null {
  const series = seriesDatasets.find((name) => name === dataset);
  return series !== undefined && hasRowIds(series) ? listTextColumns(series)[0]!.name : null;
}

/** Identifies a row of `conflicts` among those of its symbol and time. */
export const formatConflictId = ({ seen_at, seq }: Readonly<Record<string, unknown>>): string => `${seen_at} ${seq}`;

/** Parses what `formatConflictId` returns; null if it is something else. */
export function parseConflictId(id: string): { readonly seenAt: number; readonly seq: number } | null {
  const match = /^(\d{1,13}) (\d{1,10})$/.exec(id);
  return match === null ? null : { seenAt: Number(match[1]), seq: Number(match[2]) };
}

function formatAfterCondition(dataset: TimedDataset, after: RowPosition, value: AddValue): string {
  const symbol = value(after.symbol);
  return `symbol >= ${symbol} AND (symbol > ${symbol} OR (${formatLaterCondition(dataset, after, value)}))`;
}

/**
 * Condition for the rows of the symbol of a position that are after it. Rows of one time are in the order of `compareRowIds`:
 * the number that a file counts them with changes with every trade that is published between them.
 */
function formatLaterCondition(dataset: TimedDataset, after: RowPosition, value: AddValue): string {
  const { t, id } = after;
  const timeColumn = datasets[dataset].time.first;
  const time = toSqlTimestamp(t);
  const conflict = dataset === 'conflicts' && id !== undefined ? parseConflictId(id) : null;
  if (conflict !== null) {
    const seenAt = toSqlTimestamp(conflict.seenAt);
    return `t >= ${time} AND (t > ${time} OR seen_at > ${seenAt} OR (seen_at = ${seenAt} AND seq > ${conflict.seq}))`;
  }
  const idColumn = findIdColumn(dataset);
  if (idColumn === null || id === undefined) return `${timeColumn} > ${time}`;
  // strlen counts bytes, and DuckDB compares texts by their bytes.
  const bytes = Buffer.byteLength(id);
  const isLaterId = `strlen(${idColumn}) > ${bytes} OR (strlen(${idColumn}) = ${bytes} AND ${idColumn} > ${value(id)})`;
  return `${timeColumn} >= ${time} AND (${timeColumn} > ${time} OR ${isLaterId})`;
}

/** The symbols of a page that are not on earlier pages. `after` is the position in the rows of the symbol. */
export const listSymbolsAfter = ({
  symbols,
  after,
}: Pick<RowPageRequest, 'symbols' | 'after'>): { readonly symbol: string; readonly after: RowPosition | null }[] =>
  symbols
    .filter((symbol) => after === null || compareUtf8(symbol, after.symbol) >= 0)
    .map((symbol) => ({ symbol, after: after?.symbol === symbol ? after : null }));

/** A page of one of the requested symbols; `after` is a position in its rows. */
interface OneSymbolRequest extends Omit<RowPageRequest, 'symbols'> {
  readonly symbol: string;
}

/** Plans the steps of each requested symbol in turn. */
export function* planEachSymbol(
  pageRequest: RowPageRequest,
  plan: (request: OneSymbolRequest) => Iterable<ScanStep>,
): Generator<ScanStep> {
  for (const one of listSymbolsAfter(pageRequest)) yield* plan({ ...pageRequest, ...one });
}

/**
 * Plans the steps of one symbol's page: its days in order, each step with as many days as are expected to fill the
 * page.
 */
export function* planDaySteps(
  manifest: Manifest,
  dataset: TimedDataset,
  pageRequest: OneSymbolRequest,
  createParts: CreateConditions = () => [],
): Generator<ScanStep> {
  const { symbol, to, after, limit } = pageRequest;
  const from = after === null ? pageRequest.from : Math.max(pageRequest.from ?? 0, after.t);
  const fileFilter = createFileFilter(dataset, [symbol], { from, to });
  const files = manifest.datasets[dataset].files.filter(fileFilter).sort((a, b) => (a.path < b.path ? -1 : 1));
  const condition = createCondition((value) => [
    ...createParts(value),
    `symbol = ${value(symbol)}`,
    ...(after === null ? [] : [formatLaterCondition(dataset, after, value)]),
  ]);
  const slice = createPublishedSlice(dataset, pageRequest, condition);
  let at = 0;
  for (let max = filesFirstMax; at < files.length; max *= growthFactor) {
    const until = findFilesEnd(files, at, limit + 1, max);
    yield { files: new Map([[dataset, files.slice(at, until)]]), defined: [], slice };
    at = until;
  }
}

/** End of the files from `at` that are expected to hold `rows` rows of an average symbol; at most `max` files. */
function findFilesEnd(files: readonly PublishedFile[], at: number, rows: number, max: number): number {
  let estimatedRows = 0;
  for (let i = at; i < files.length; i++) {
    estimatedRows += files[i]!.rows / Math.max(1, files[i]!.symbols);
    const opened = i + 1 - at;
    if ((estimatedRows >= rows && opened >= filesMin) || opened >= max) return i + 1;
  }
  return files.length;
}

/**
 * Ranges of symbols in order; the last has no end. Each has about `growthFactor` times the rows of the one before.
 * @param rowsMin number of rows of a symbol with fewer ticks
 */
function* planSymbolRanges(
  symbols: readonly Pick<SymbolFacts, 'symbol' | 'ticks'>[],
  from: string | null,
  rowsMin = 0,
): Generator<{ readonly above: string | null; readonly upTo: string | null }> {
  const sorted = symbols
    .filter(({ symbol }) => from === null || compareUtf8(symbol, from) >= 0)
    .sort((a, b) => compareUtf8(a.symbol, b.symbol));
  let above: string | null = null;
  let rows = 0;
  let max = rowsFirst;
  for (const one of sorted.slice(0, -1)) {
    rows += Math.max(rowsMin, one.ticks);
    if (rows < max) continue;
    yield { above, upTo: one.symbol };
    above = one.symbol;
    rows = 0;
    max *= growthFactor;
  }
  yield { above, upTo: null };
}

/** Plans the steps of a page of all symbols: ranges of symbols in order. */
export function* planRangeSteps(
  manifest: Manifest,
  dataset: TimedDataset,
  pageRequest: RowPageRequest,
  symbols: readonly Pick<SymbolFacts, 'symbol' | 'ticks'>[],
  createParts: CreateConditions = () => [],
): Generator<ScanStep> {
  const { after } = pageRequest;
  const selected = manifest.datasets[dataset].files.filter(createFileFilter(dataset, [], pageRequest));
  const files = new Map([[dataset, selected]]);
  // Quotes, trades and order books do not depend on ticks: a symbol has at least the average number of rows.
  const isIndependent = dataset !== 'ticks' && datasets[dataset].source === 'collected';
  const rowsMin = isIndependent ? sumFileSizes(selected).rows / Math.max(1, symbols.length) : 0;
  for (const { above, upTo } of planSymbolRanges(symbols, after?.symbol ?? null, rowsMin)) {
    const condition = createCondition((value) => [
      ...createParts(value),
      ...formatRangeConditions(dataset, above, upTo, after, value),
    ]);
    yield { files, defined: [], slice: createPublishedSlice(dataset, pageRequest, condition) };
  }
}

/** Conditions for a range of symbols after a position. */
const formatRangeConditions = (
  dataset: TimedDataset,
  above: string | null,
  upTo: string | null,
  after: RowPosition | null,
  value: AddValue,
): string[] => [
  ...(above === null ? [] : [`symbol > ${value(above)}`]),
  ...(upTo === null ? [] : [`symbol <= ${value(upTo)}`]),
  ...(after === null ? [] : [formatAfterCondition(dataset, after, value)]),
];

/** Lengths of the candle intervals in milliseconds, as in the archive's macro. */
export const candleSteps = {
  '1m': minuteMs,
  '5m': 5 * minuteMs,
  '15m': 15 * minuteMs,
  '30m': 30 * minuteMs,
  '1h': hourMs,
  '4h': 4 * hourMs,
  '6h': 6 * hourMs,
  '12h': 12 * hourMs,
  '1d': dayMs,
  '1w': 7 * dayMs,
} as const;
export type CandleInterval = keyof typeof candleSteps;

/**
 * The dataset that a key must permit for candles of an interval: the ticks for intervals below an hour, and the coarsest
 * published candles that they can be computed from otherwise.
 */
export const toCandleDataset = (interval: CandleInterval): DatasetName =>
  candleSteps[interval] % dayMs === 0 ? 'candles_1d' : candleSteps[interval] % hourMs === 0 ? 'candles_1h' : 'ticks';

/** The dataset with candles of an interval for all ticks of a generation; null if they must be computed. */
export function findPublishedCandles(manifest: Manifest, interval: CandleInterval): 'candles_1h' | 'candles_1d' | null {
  const dataset = interval === '1h' ? 'candles_1h' : interval === '1d' ? 'candles_1d' : null;
  if (dataset === null) return null;
  // Compare part by part: a publish skips a damaged part and writes the candles of the others.
  const placeOf = ({ path }: PublishedFile): string => path.slice(path.indexOf('/'));
  const publishedPlaces = new Set(listFilesWithRows(manifest, dataset).map(placeOf));
  return listFilesWithRows(manifest, 'ticks').every((file) => publishedPlaces.has(placeOf(file))) ? dataset : null;
}

/** Plans a page of candles of all symbols: published ones if the interval has them, computed ones otherwise. */
export function planCandleSteps(
  manifest: Manifest,
  interval: CandleInterval,
  pageRequest: RowPageRequest,
  symbols: readonly SymbolFacts[],
): Iterable<ScanStep> {
  const published = findPublishedCandles(manifest, interval);
  return published === null
    ? planComputedRanges(manifest, interval, pageRequest, symbols)
    : planRangeSteps(manifest, published, pageRequest, symbols);
}

function* planComputedRanges(
  manifest: Manifest,
  interval: CandleInterval,
  pageRequest: RowPageRequest,
  symbols: readonly SymbolFacts[],
): Generator<ScanStep> {
  const { after, from, to } = pageRequest;
  for (const { above, upTo } of planSymbolRanges(symbols, after?.symbol ?? null)) {
    const condition = createCondition((value) => formatRangeConditions('candles_1h', above, upTo, after, value));
    yield createComputedStep(manifest, interval, { symbols: [], from, to }, condition);
  }
}

/**
 * The columns of candles that are computed from ticks and coverage. The others would need quotes and trades, which a key
 * for ticks does not permit.
 */
const computedCandleColumns: readonly Column[] = datasets.candles_1h.columns.filter(({ nullable }) => !nullable);

/** A step for the candles that start in a window, as a view of the macro over the files it needs. */
export function createComputedStep(
  manifest: Manifest,
  interval: CandleInterval,
  { symbols, from, to }: Pick<RowPageRequest, 'symbols' | 'from' | 'to'>,
  condition: SqlCondition,
): ScanStep {
  const stepMs = candleSteps[interval];
  const ticksWindow = { from, to: to === null ? null : to + stepMs };
  const ticks = manifest.datasets.ticks.files.filter(createFileFilter('ticks', symbols, ticksWindow));
  const times = ticks.flatMap(({ t_min, t_max }) => [t_min, t_max]).filter((t) => t !== null);
  const since = Math.max(from ?? 0, times.reduce((min, t) => Math.min(min, t), Number.POSITIVE_INFINITY) - stepMs);
  const until = Math.min(to ?? Number.POSITIVE_INFINITY, times.reduce((max, t) => Math.max(max, t), 0) + 1);
  const window = ticks.length === 0 ? { from: 0, to: 0 } : { from: since, to: until };
  const coverageFilter = createFileFilter('coverage', symbols, { from: window.from, to: window.to + stepMs });
  const dataset = `candles_${interval}`;
  const macro = listViewDefinitions(false).find(({ name }) => name === 'candles')!.sql;
  const columns = computedCandleColumns;
  const names = columns.map(({ name }) => name).join(', ');
  const view = `CREATE OR REPLACE VIEW ${dataset} AS SELECT ${names} FROM candles('${interval}', since := ${toSqlTimestamp(window.from)}, until := ${toSqlTimestamp(window.to)})`;
  const slice: DatasetSlice = { ...createPublishedSlice('candles_1h', { from, to }, condition), dataset, columns };
  return {
    files: new Map<DatasetName, readonly PublishedFile[]>([
      ['ticks', ticks],
      ['coverage', manifest.datasets.coverage.files.filter(coverageFilter)],
      // The macro refers to quotes and trades, and no column of theirs is selected.
      ['quotes', []],
      ['trades', []],
    ]),
    defined: [macro, view],
    slice,
  };
}
