import { type DatasetName, datasets } from '../../archive/format/datasets.ts';
import type { Manifest, PublishedFile } from '../../archive/format/manifest.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { createFileFilter, datasetShapes } from '../../archive/publish/prune-files.ts';
import { listViewDefinitions } from '../../archive/publish/views-sql.ts';
import type { QueryParameter } from '../../archive/query/convert-values.ts';
import { type DatasetSlice, type SqlCondition, toSqlTimestamp } from '../../archive/query/slice-query.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { dayMs, minuteMs } from '../../base/window.ts';
import type { RowPageRequest, RowPosition, ScanStep } from './history.ts';

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

/** Intervals of candles, each with its length in milliseconds, as the archive's macro knows them. */
export const candleSteps = {
  '1m': minuteMs,
  '5m': 5 * minuteMs,
  '15m': 15 * minuteMs,
  '30m': 30 * minuteMs,
  '1h': 60 * minuteMs,
  '4h': 240 * minuteMs,
  '6h': 360 * minuteMs,
  '12h': 720 * minuteMs,
  '1d': dayMs,
  '1w': 7 * dayMs,
} as const;
export type CandleInterval = keyof typeof candleSteps;

export const candleIntervals = Object.keys(candleSteps) as CandleInterval[];

/** The dataset that holds candles of an interval for every tick of a generation; null where they are to be computed. */
export function findPublishedCandles(
  { datasets: { ticks, ...others } }: Manifest,
  interval: CandleInterval,
): DatasetName | null {
  const dataset = interval === '1h' ? 'candles_1h' : interval === '1d' ? 'candles_1d' : null;
  if (dataset === null) return null;
  // Part by part: a publish passes over a damaged one, and makes the candles of the others.
  const placeOf = ({ path }: PublishedFile): string => path.slice(path.indexOf('/'));
  const kept = new Set(others[dataset].files.map(placeOf));
  return ticks.files.every((file) => kept.has(placeOf(file))) ? dataset : null;
}

/** Pages of candles, from the published ones where there are some of that interval. */
export function planCandlePage(
  manifest: Manifest,
  interval: CandleInterval,
  asked: RowPageRequest,
  symbols: () => readonly SymbolFacts[],
): Iterable<ScanStep> {
  const { symbol } = asked;
  const published = findPublishedCandles(manifest, interval);
  if (symbol === null) {
    return published === null
      ? planComputedRanges(manifest, interval, asked, symbols())
      : planRangeSteps(manifest, published, 't', asked, symbols());
  }
  return published === null
    ? planComputedDays(manifest, interval, { ...asked, symbol })
    : planDaySteps(manifest, published, 't', { ...asked, symbol });
}

/** Days that are looked at in any case: another one costs less than another query. */
const daysMin = 8;

/** Candles of one symbol: windows of time one after another, each of them as long as a page if no interval is empty. */
function* planComputedDays(
  manifest: Manifest,
  interval: CandleInterval,
  asked: RowPageRequest & { readonly symbol: string },
): Generator<ScanStep> {
  const { symbol, after, limit } = asked;
  const stepMs = candleSteps[interval];
  const condition = createCondition((value) => [`symbol = ${value(symbol)}`]);
  let from = Math.max(asked.from ?? 0, after === null ? 0 : after.t + 1);
  let length = Math.max(daysMin * dayMs, (limit + 1) * stepMs);
  for (;;) {
    const ahead = selectTickFiles(manifest, [symbol], from, asked.to, stepMs);
    if (ahead.length === 0) return;
    // A candle may start before its first tick, but not before the window.
    const first = Math.min(...ahead.map(({ t_min }) => t_min ?? 0));
    from = Math.max(from, first - stepMs);
    const to = Math.min(asked.to ?? Number.POSITIVE_INFINITY, from + length);
    if (from >= to) return;
    yield createComputedStep(manifest, interval, { symbols: [symbol], from, to }, condition);
    from = to;
    length *= 4;
  }
}

function* planComputedRanges(
  manifest: Manifest,
  interval: CandleInterval,
  asked: RowPageRequest,
  symbols: readonly SymbolFacts[],
): Generator<ScanStep> {
  const { after, from, to } = asked;
  for (const { above, upTo } of planSymbolRanges(symbols, after?.symbol ?? null)) {
    const condition = createCondition((value) => formatRangeConditions(above, upTo, after, 't', value));
    yield createComputedStep(manifest, interval, { symbols: [], from, to }, condition);
  }
}

interface CandleWindow {
  readonly symbols: readonly string[];
  readonly from: number | null;
  readonly to: number | null;
}

/** Candles that start in a window, as a view of the macro's, over the files that they need. */
export function createComputedStep(
  manifest: Manifest,
  interval: CandleInterval,
  { symbols, from, to }: CandleWindow,
  condition: SqlCondition,
): ScanStep {
  const stepMs = candleSteps[interval];
  const ticks = selectTickFiles(manifest, symbols, from, to, stepMs);
  const known = ticks.flatMap(({ t_min, t_max }) => [t_min, t_max]).filter((t) => t !== null);
  const since = Math.max(from ?? 0, known.reduce((least, t) => Math.min(least, t), Number.POSITIVE_INFINITY) - stepMs);
  const until = Math.min(to ?? Number.POSITIVE_INFINITY, known.reduce((most, t) => Math.max(most, t), 0) + 1);
  const window = ticks.length === 0 ? { from: 0, to: 0 } : { from: since, to: until };
  const beside = createFileFilter(manifest, 'coverage', [], { from: window.from, to: window.to + stepMs });
  const dataset = `candles_${interval}`;
  const macro = listViewDefinitions(false).find(({ name }) => name === 'candles')!.sql;
  const names = datasets.candles_1h.map(({ name }) => name).join(', ');
  const view = `CREATE OR REPLACE VIEW ${dataset} AS SELECT ${names} FROM candles('${interval}', since := ${toSqlTimestamp(window.from)}, until := ${toSqlTimestamp(window.to)})`;
  const slice: DatasetSlice = { ...createPublishedSlice('candles_1h', { from, to }, condition), dataset };
  return {
    files: new Map<DatasetName, readonly PublishedFile[]>([
      ['ticks', ticks],
      ['coverage', manifest.datasets.coverage.files.filter(beside)],
    ]),
    defined: [macro, view],
    slice,
  };
}

function selectTickFiles(
  manifest: Manifest,
  symbols: readonly string[],
  from: number | null,
  to: number | null,
  stepMs: number,
): PublishedFile[] {
  const wanted = createFileFilter(manifest, 'ticks', symbols, { from, to: to === null ? null : to + stepMs });
  return manifest.datasets.ticks.files.filter(wanted);
}
