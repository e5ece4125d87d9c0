import { datasets } from '../../archive/format/datasets.ts';
import type { Manifest, PublishedFile } from '../../archive/format/manifest.ts';
import { createFileFilter } from '../../archive/publish/prune-files.ts';
import type { ManifestWatcher } from '../../archive/read/manifest-watcher.ts';
import {
  openSymbolRowReader,
  type SymbolDataset,
  type SymbolRows,
  UnsupportedFileError,
} from '../../archive/read/symbol-row-reader.ts';
import { formatDay } from '../../base/time.ts';
import { dayMs, floorToDay, hourMs, type Window } from '../../base/window.ts';
import { CandleBuilder, computeCoveredShare, toCandleStart } from './candle-builder.ts';
import type { GenerationReader, HistoryRow, PinFile, RowPageRequest } from './history.ts';
import { type CandleInterval, candleSteps, findPublishedCandles, listSymbolsAfter } from './scan-plan.ts';

/** A page of rows of named symbols, sorted by symbol and time. */
export interface SymbolPage {
  readonly rows: readonly HistoryRow[];
  /** Whether there are rows after the page. */
  readonly isMore: boolean;
}

/**
 * Reads pages of named symbols from published files without DuckDB, whose plan takes longer than the reading. The
 * result is that of the DuckDB plan. Null if a file can only be read by DuckDB.
 */
export interface SymbolPageReader {
  readRows(
    generation: GenerationReader,
    selection: RowSelection,
    pageRequest: RowPageRequest,
    signal: AbortSignal,
  ): Promise<SymbolPage | null>;
  readCandles(
    generation: GenerationReader,
    interval: CandleInterval,
    pageRequest: RowPageRequest,
    signal: AbortSignal,
  ): Promise<SymbolPage | null>;
}

export interface RowSelection {
  readonly dataset: SymbolDataset;
  /** For coverage: the dataset that was fetched. */
  readonly covered?: string | undefined;
}

/** Rows per call while candles are computed: decoding them takes a few milliseconds. */
const rowsPerCall = 65_536;

/** Share of the cache for decoded rows, and maximum share for a file: larger ones are not kept in memory. */
const cacheShare = 1 / 4;

/** @param cacheBytesMax memory for verified files, in bytes */
export function openSymbolPageReader(cacheBytesMax: number, current: ManifestWatcher): SymbolPageReader {
  const reader = openSymbolRowReader(cacheBytesMax * cacheShare);
  current.onNewGeneration(({ hashes }) => reader.dropReplaced(hashes));

  /** Reads the rows of a symbol in a file. Decodes on the main thread, so it yields between files. */
  async function readFile(
    pin: PinFile,
    dataset: SymbolDataset,
    file: PublishedFile,
    key: string,
    { from, to }: Window,
    rowsMax: number,
  ): Promise<SymbolRows> {
    if (file.bytes > cacheBytesMax * cacheShare) throw new UnsupportedFileError(`${file.path} is too large`);
    return await reader.readRows({ dataset, file, key, from, to, rowsMax, readBytes: await pin(file) });
  }

  async function tryRead(
    generation: GenerationReader,
    signal: AbortSignal,
    read: (pin: PinFile) => Promise<SymbolPage>,
  ): Promise<SymbolPage | null> {
    try {
      return await generation.readFiles(read, signal);
    } catch (error) {
      if (error instanceof UnsupportedFileError) return null;
      throw error;
    }
  }

  async function readPublished(
    pin: PinFile,
    manifest: Manifest,
    { dataset, covered }: RowSelection,
    pageRequest: RowPageRequest,
  ): Promise<SymbolPage> {
    const { from, to, limit } = pageRequest;
    const rows: HistoryRow[] = [];
    for (const { symbol, after } of listSymbolsAfter(pageRequest)) {
      const window = { from: Math.max(from ?? 0, (after?.t ?? -1) + 1), to: to ?? Number.POSITIVE_INFINITY };
      const key = covered === undefined ? symbol : `${covered} ${symbol}`;
      for (const file of selectFiles(manifest, dataset, symbol, window)) {
        const found = await readFile(pin, dataset, file, key, window, limit + 1 - rows.length);
        addRows(rows, { dataset, covered }, symbol, found, { from: from ?? 0, to: window.to, after: after?.t ?? -1 });
        if (rows.length > limit) return { rows: rows.slice(0, limit), isMore: true };
      }
    }
    return { rows, isMore: false };
  }

  async function readComputed(
    pin: PinFile,
    manifest: Manifest,
    interval: CandleInterval,
    pageRequest: RowPageRequest,
  ): Promise<SymbolPage> {
    const { limit } = pageRequest;
    const rows: HistoryRow[] = [];
    for (const { symbol, after } of listSymbolsAfter(pageRequest)) {
      const candles = await computeCandles(
        pin,
        manifest,
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
    pin: PinFile,
    manifest: Manifest,
    interval: CandleInterval,
    symbol: string,
    { from, to }: RowPageRequest,
    after: number | null,
    candlesMax: number,
  ) {
    const stepMs = candleSteps[interval];
    // Hourly candles of the archive are computed from the same ticks, and are fewer.
    const source = stepMs % hourMs === 0 ? findPublishedCandles(manifest, '1h') : null;
    const dataset: SymbolDataset = source === null ? 'ticks' : 'candles_1h';
    const start = toCandleStart(Math.max(from ?? 0, (after ?? -1) + 1) + stepMs - 1, stepMs);
    const end = to === null ? Number.POSITIVE_INFINITY : toCandleStart(to - 1, stepMs) + stepMs;
    const builder = new CandleBuilder(stepMs);
    for (const file of selectFiles(manifest, dataset, symbol, { from: start, to: end })) {
      for (let at = start; builder.countComplete() < candlesMax; ) {
        const { count, columns } = await readFile(pin, dataset, file, symbol, { from: at, to: end }, rowsPerCall);
        if (source === null) builder.addTicks(columns as never, count);
        else builder.addCandles(columns as never, count);
        if (count < rowsPerCall) break;
        at = (columns.t as Float64Array)[count - 1]! + 1;
        await new Promise((resolve) => setImmediate(resolve));
      }
      if (builder.countComplete() >= candlesMax) break;
    }
    const candles = builder.finish().slice(0, candlesMax);
    const windows = await readCoverage(pin, manifest, symbol, candles, stepMs);
    return candles.map((candle) => ({ ...candle, covered: computeCoveredShare(windows, candle.t, stepMs) }));
  }

  /** The covered windows of the days that the candles meet, sorted. */
  async function readCoverage(
    pin: PinFile,
    manifest: Manifest,
    symbol: string,
    candles: readonly { readonly t: number }[],
    stepMs: number,
  ): Promise<Window[]> {
    const days = new Set<string>();
    for (const { t } of candles) for (let day = floorToDay(t); day < t + stepMs; day += dayMs) days.add(formatDay(day));
    const windows: Window[] = [];
    const mayHave = createFileFilter(manifest, 'coverage', [symbol], { from: null, to: null });
    for (const file of manifest.datasets.coverage.files.filter(mayHave)) {
      if (!days.has(file.date!)) continue;
      const everything = { from: 0, to: Number.POSITIVE_INFINITY };
      const { count, columns } = await readFile(pin, 'coverage', file, `ticks ${symbol}`, everything, rowsPerCall);
      const [from, to] = [columns.t_from as Float64Array, columns.t_to as Float64Array];
      for (let i = 0; i < count; i++) windows.push({ from: from[i]!, to: to[i]! });
    }
    return windows.sort((a, b) => a.from - b.from);
  }

  return {
    readRows: (generation, selection, pageRequest, signal) =>
      tryRead(generation, signal, (pin) => readPublished(pin, generation.manifest, selection, pageRequest)),
    readCandles(generation, interval, pageRequest, signal) {
      const { manifest } = generation;
      const published = findPublishedCandles(manifest, interval);
      return tryRead(generation, signal, (pin) =>
        published === null
          ? readComputed(pin, manifest, interval, pageRequest)
          : readPublished(pin, manifest, { dataset: published }, pageRequest),
      );
    },
  };
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
    .filter(createFileFilter(manifest, dataset, [symbol], window))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Adds rows as the objects that a DuckDB plan gives. Coverage is filtered here: its rows are windows. */
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
