import { datasets } from '../../archive/format/datasets.ts';
import type { Manifest, PublishedFile } from '../../archive/format/manifest.ts';
import { createFileFilter } from '../../archive/publish/prune-files.ts';
import type { ManifestWatcher } from '../../archive/read/manifest-watcher.ts';
import {
  openSymbolRowReader,
  type SymbolDataset,
  type SymbolRowReader,
  type SymbolRows,
} from '../../archive/read/symbol-row-reader.ts';
import { formatDay } from '../../base/time.ts';
import { dayMs, floorToDay, hourMs, type Window } from '../../base/window.ts';
import { CandleBuilder, computeCoveredShare, toCandleStart } from './candle-builder.ts';
import type { FirstRows, GenerationReader, HistoryRow, PinFile, RowPageRequest } from './history.ts';
import { type CandleInterval, candleSteps, findPublishedCandles, listSymbolsAfter } from './scan-plan.ts';

// Pages of rows of named symbols, sorted by symbol and time. They are read from the published files without DuckDB, whose plan
// takes longer than the reading.

interface RowSelection {
  readonly dataset: SymbolDataset;
  /** For coverage: the dataset that was fetched. */
  readonly covered?: string | undefined;
}

/** Rows per call while candles are computed: decoding them takes a few milliseconds. */
const rowsPerCall = 65_536;

/** Share of the cache for decoded rows. */
const cacheShare = 1 / 4;

/** @param cacheBytesMax memory for verified files, in bytes */
export function openSymbolRows(cacheBytesMax: number, current: ManifestWatcher): SymbolRowReader {
  const reader = openSymbolRowReader(cacheBytesMax * cacheShare);
  current.onNewGeneration(({ hashes }) => reader.dropReplaced(hashes));
  return reader;
}

export const readSymbolRows = (
  reader: SymbolRowReader,
  { manifest, readFiles }: GenerationReader,
  selection: RowSelection,
  pageRequest: RowPageRequest,
  signal: AbortSignal,
): Promise<FirstRows<HistoryRow>> =>
  readFiles((pin) => readPublished({ reader, manifest, pin }, selection, pageRequest), signal);

/** Candles as published if the interval is, otherwise computed from hourly candles or ticks. */
export function readSymbolCandles(
  reader: SymbolRowReader,
  { manifest, readFiles }: GenerationReader,
  interval: CandleInterval,
  pageRequest: RowPageRequest,
  signal: AbortSignal,
): Promise<FirstRows<HistoryRow>> {
  const dataset = findPublishedCandles(manifest, interval);
  return readFiles((pin) => {
    const files = { reader, manifest, pin };
    return dataset === null
      ? readComputed(files, interval, pageRequest)
      : readPublished(files, { dataset }, pageRequest);
  }, signal);
}

/** The files of one generation, pinned while a page is read. */
interface SymbolFiles {
  readonly reader: SymbolRowReader;
  readonly manifest: Manifest;
  readonly pin: PinFile;
}

/** Reads the rows of a symbol in a file. Decodes on the main thread, so it yields between files. */
const readFile = async (
  { reader, pin }: SymbolFiles,
  dataset: SymbolDataset,
  file: PublishedFile,
  key: string,
  { from, to }: Window,
  rowsMax: number,
): Promise<SymbolRows> => await reader.readRows({ dataset, file, key, from, to, rowsMax, readBytes: await pin(file) });

async function readPublished(
  files: SymbolFiles,
  { dataset, covered }: RowSelection,
  pageRequest: RowPageRequest,
): Promise<FirstRows<HistoryRow>> {
  const { from, to, limit } = pageRequest;
  const rows: HistoryRow[] = [];
  for (const { symbol, after } of listSymbolsAfter(pageRequest)) {
    const window = { from: Math.max(from ?? 0, (after?.t ?? -1) + 1), to: to ?? Number.POSITIVE_INFINITY };
    const key = covered === undefined ? symbol : `${covered} ${symbol}`;
    for (const file of selectFiles(files.manifest, dataset, symbol, window)) {
      const found = await readFile(files, dataset, file, key, window, limit + 1 - rows.length);
      addRows(rows, { dataset, covered }, symbol, found, { from: from ?? 0, to: window.to, after: after?.t ?? -1 });
      if (rows.length > limit) return { rows: rows.slice(0, limit), isMore: true };
    }
  }
  return { rows, isMore: false };
}

async function readComputed(
  files: SymbolFiles,
  interval: CandleInterval,
  pageRequest: RowPageRequest,
): Promise<FirstRows<HistoryRow>> {
  const { limit } = pageRequest;
  const rows: HistoryRow[] = [];
  for (const { symbol, after } of listSymbolsAfter(pageRequest)) {
    const candles = await computeCandles(
      files,
      interval,
      symbol,
      pageRequest,
      after?.t ?? null,
      limit + 1 - rows.length,
    );
    for (const candle of candles) rows.push({ symbol, ...candle });
    if (rows.length > limit) return { rows: rows.slice(0, limit), isMore: true };
  }
  return { rows, isMore: false };
}

async function computeCandles(
  files: SymbolFiles,
  interval: CandleInterval,
  symbol: string,
  { from, to }: RowPageRequest,
  after: number | null,
  candlesMax: number,
) {
  const stepMs = candleSteps[interval];
  // Hourly candles of the archive are computed from the same ticks, and are fewer.
  const source = stepMs % hourMs === 0 ? findPublishedCandles(files.manifest, '1h') : null;
  const dataset: SymbolDataset = source === null ? 'ticks' : 'candles_1h';
  const start = toCandleStart(Math.max(from ?? 0, (after ?? -1) + 1) + stepMs - 1, stepMs);
  const end = to === null ? Number.POSITIVE_INFINITY : toCandleStart(to - 1, stepMs) + stepMs;
  const builder = new CandleBuilder(stepMs);
  for (const file of selectFiles(files.manifest, dataset, symbol, { from: start, to: end })) {
    for (let at = start; builder.countComplete() < candlesMax; ) {
      const { count, columns } = await readFile(files, dataset, file, symbol, { from: at, to: end }, rowsPerCall);
      if (source === null) builder.addTicks(columns as never, count);
      else builder.addCandles(columns as never, count);
      if (count < rowsPerCall) break;
      at = (columns.t as Float64Array)[count - 1]! + 1;
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (builder.countComplete() >= candlesMax) break;
  }
  const candles = builder.finish().slice(0, candlesMax);
  const windows = await readCoverage(files, symbol, candles, stepMs);
  return candles.map((candle) => ({ ...candle, covered: computeCoveredShare(windows, candle.t, stepMs) }));
}

/** The covered windows of the days that the candles meet, sorted. */
async function readCoverage(
  files: SymbolFiles,
  symbol: string,
  candles: readonly { readonly t: number }[],
  stepMs: number,
): Promise<Window[]> {
  const days = new Set<string>();
  for (const { t } of candles) for (let day = floorToDay(t); day < t + stepMs; day += dayMs) days.add(formatDay(day));
  const windows: Window[] = [];
  const mayHave = createFileFilter('coverage', [symbol], { from: null, to: null });
  for (const file of files.manifest.datasets.coverage.files.filter(mayHave)) {
    if (!days.has(file.date!)) continue;
    const everything = { from: 0, to: Number.POSITIVE_INFINITY };
    const { count, columns } = await readFile(files, 'coverage', file, `ticks ${symbol}`, everything, rowsPerCall);
    const [from, to] = [columns.t_from as Float64Array, columns.t_to as Float64Array];
    for (let i = 0; i < count; i++) windows.push({ from: from[i]!, to: to[i]! });
  }
  return windows.sort((a, b) => a.from - b.from);
}

/** The files that may have rows of a symbol, by day. */
function selectFiles(
  manifest: Manifest,
  dataset: SymbolDataset,
  symbol: string,
  { from, to }: Window,
): PublishedFile[] {
  const window = { from, to: Number.isFinite(to) ? to : null };
  return manifest.datasets[dataset].files
    .filter(createFileFilter(dataset, [symbol], window))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Adds rows as objects, with the columns of the dataset. Coverage is filtered here: its rows are windows. */
function addRows(
  rows: HistoryRow[],
  { dataset, covered }: RowSelection,
  symbol: string,
  { count, columns }: SymbolRows,
  { from, to, after }: Window & { readonly after: number },
): void {
  if (dataset === 'ticks') {
    const [t, p] = [columns.t as Float64Array, columns.p as Float64Array];
    for (let i = 0; i < count; i++) rows.push({ symbol, t: t[i]!, p: p[i]! });
    return;
  }
  const names = datasets[dataset].columns.map(({ name }) => name);
  const isMissing = (value: unknown): boolean => typeof value === 'number' && Number.isNaN(value);
  const [starts, ends] = [columns.t_from as Float64Array, columns.t_to as Float64Array];
  for (let i = 0; i < count; i++) {
    if (covered !== undefined && !(starts[i]! > after && starts[i]! < to && ends[i]! > from)) continue;
    const row: Record<string, HistoryRow[string]> = {};
    for (const name of names) {
      const value = name === 'symbol' ? symbol : name === 'dataset' ? covered! : columns[name]?.[i];
      row[name] = value === undefined || isMissing(value) ? null : value;
    }
    rows.push(row);
  }
}
