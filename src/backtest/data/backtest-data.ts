import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import type { Archive } from '../../archive/archive.ts';
import { type Disk, sha256 } from '../../archive/disk/file-system.ts';
import { type DatasetName, datasets } from '../../archive/format/datasets.ts';
import { getFileRange } from '../../archive/format/day-parts.ts';
import { parseDatasetName } from '../../archive/format/layout.ts';
import type { PublishedFile } from '../../archive/format/manifest.ts';
import { createFileFilter } from '../../archive/publish/prune-files.ts';
import { openPinned } from '../../archive/query/pinned-query.ts';
import type { DatasetFiles, Query } from '../../archive/query/query.ts';
import { requireFileIntact } from '../../archive/read/export-file.ts';
import type { Random } from '../../base/ports.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { dayMs, type Window } from '../../base/window.ts';
import type { BacktestResult } from '../../contract/backtests.ts';
import { bookAgeMsMax, quoteAgeMsMax } from '../engine/book-lookup.ts';
import { memoryBytesMax } from './batches.ts';
import { createStatesQuery, stateColumns } from './markets.ts';
import type { TickFile } from './tick-files.ts';

/** Input of a backtest: the pinned files of one generation. */
export interface BacktestData {
  /** Query over all datasets. */
  readonly query: Query;
  readonly hasBooks: boolean;
  readonly hasQuotes: boolean;
  /** Time of the publish, epoch ms. */
  readonly publishedAt: number;
  readonly archiveUsed: BacktestResult['archive'];
  /** Folder of the files, and folder for temporary files. */
  readonly root: string;
  readonly scratch: string;
  /** Files with the ticks, order books and quotes of symbols in a window, and market states from `statesFrom`. */
  findFiles(symbols: readonly string[], window: Window, statesFrom: number): BacktestFiles;
  /** Absolute paths of the files of coverage in a window, by day. */
  findCoverage(window: Window): readonly string[];
  /**
   * Writes the market states up to a time to a temporary file sorted by symbol. The published files are split by day, so that
   * each batch would have to read all of them.
   */
  writeStates(to: number, signal: AbortSignal): Promise<void>;
  /** Files whose hashes must be checked before they are read: all but those of symbols, which are checked. */
  readonly uncheckedFiles: readonly PublishedFile[];
  readonly disk: Disk;
  close(): Promise<void>;
}

export interface BacktestFiles {
  /** Order books, quotes and market states. */
  readonly sources: readonly DatasetFiles[];
  /** By day. */
  readonly tickFiles: readonly TickFile[];
}

/** A null end is open. */
interface DataRange {
  readonly from: number | null;
  readonly to: number | null;
  /** Empty: all symbols. */
  readonly symbols: readonly string[];
  /** Whether market states are needed. */
  readonly hasStates: boolean;
}

/** Lookback for market states. Polled markets appear at least once within it. */
const statesLookbackMs = 7 * dayMs;

/** The files of a range, with a lookback by dataset. */
function createSelection(range: DataRange, hasQuotes: boolean) {
  const lookbackMsByDataset: Partial<Record<DatasetName, number>> = {
    markets: statesLookbackMs,
    // An order book also replaces the quotes before it, so with quotes their lookback applies.
    orderbooks: hasQuotes ? quoteAgeMsMax : bookAgeMsMax,
    quotes: quoteAgeMsMax,
  };
  const createFilter = (
    name: DatasetName,
    symbols: readonly string[],
    { from, to }: Pick<DataRange, 'from' | 'to'>,
  ) => {
    const lookbackMs = lookbackMsByDataset[name] ?? 0;
    return createFileFilter(name, symbols, { from: from === null ? null : from - lookbackMs, to });
  };
  // The symbols dataset has no time.
  const isNeeded = (file: PublishedFile): boolean => {
    const name = parseDatasetName(file.path);
    return name === 'symbols' || createFilter(name, range.symbols, range)(file);
  };
  return { createFilter, isNeeded };
}

/** @throws DamageError if the symbols file does not match the manifest */
export async function openBacktestData(
  archive: Archive,
  range: DataRange,
  random: Random,
  signal: AbortSignal,
): Promise<BacktestData> {
  const names: readonly DatasetName[] = [
    ...(['ticks', 'symbols', 'coverage', 'orderbooks', 'quotes'] as const),
    ...(range.hasStates ? (['markets'] as const) : []),
  ];
  // Whether there are quotes is known only after the files are pinned.
  const { isNeeded: wanted } = createSelection(range, true);
  const { query, pinned, close } = await openPinned(archive, { names, wanted, memoryBytesMax }, random);
  try {
    const { manifest, manifestBytes, root, scratchFolder } = pinned;
    const hasQuotes = manifest.datasets.quotes.files.some(wanted);
    const { createFilter, isNeeded } = createSelection(range, hasQuotes);
    const files = names.flatMap((name) => manifest.datasets[name].files.filter(isNeeded));
    const [symbolFiles = [], uncheckedFiles = []] = [true, false].map((ofSymbols) =>
      files.filter(({ path }) => (parseDatasetName(path) === 'symbols') === ofSymbols),
    );
    signal.throwIfAborted();
    for (const file of symbolFiles) requireFileIntact(archive.disk, pinned, file);
    const filesByName = new Map(names.map((name) => [name, manifest.datasets[name].files.filter(isNeeded)]));
    /** @param symbols empty: all */
    const filesOf = (name: DatasetName, symbols: readonly string[], within: Window): PublishedFile[] =>
      filesByName.get(name)!.filter(createFilter(name, symbols, within));
    const sourceOf = (name: DatasetName, dataset: string, someFiles: readonly PublishedFile[]): DatasetFiles => ({
      dataset,
      columns: datasets[name].columns,
      dated: true,
      paths: someFiles.map(({ path }) => join(root, path)),
    });
    let sortedStates: DatasetFiles | null = null;
    return {
      uncheckedFiles,
      disk: archive.disk,
      findCoverage: (window) => filesOf('coverage', [], window).map(({ path }) => join(root, path)),
      async writeStates(to, signal) {
        const path = join(root, 'states.parquet');
        await query.write(createStatesQuery(to), 'parquet', createWriteStream(path), signal);
        sortedStates = { dataset: 'markets', columns: stateColumns, dated: false, paths: [path] };
      },
      query,
      root,
      scratch: scratchFolder,
      close,
      hasBooks: files.some(({ path }) => parseDatasetName(path) === 'orderbooks'),
      hasQuotes,
      publishedAt: manifest.created_at,
      archiveUsed: describeArchiveUsed(manifest.generation, manifestBytes, files),
      findFiles(symbols, window, statesFrom) {
        const inParts = (name: 'orderbooks' | 'quotes'): DatasetFiles =>
          sourceOf(name, name, filesOf(name, symbols, window));
        const statesWindow = { ...window, from: statesFrom };
        const isInWindow = (file: PublishedFile): boolean => file.t_min! >= window.from && file.t_max! < window.to;
        const toTickFile = (file: PublishedFile): TickFile => ({
          path: join(root, file.path),
          bytes: file.bytes,
          range: getFileRange(file)!,
          isInWindow: isInWindow(file),
        });
        return {
          sources: [
            inParts('orderbooks'),
            inParts('quotes'),
            sortedStates ?? sourceOf('markets', 'markets', range.hasStates ? filesOf('markets', [], statesWindow) : []),
          ],
          tickFiles: filesOf('ticks', symbols, window).map(toTickFile),
        };
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function describeArchiveUsed(
  generation: number,
  manifestBytes: Uint8Array,
  files: readonly PublishedFile[],
): BacktestResult['archive'] {
  // The format of SHA256SUMS.
  const lines = files
    .toSorted((a, b) => compareUtf8(a.path, b.path))
    .map(({ sha256: hash, path }) => `${hash}  ${path}\n`);
  return {
    generation,
    manifest_sha256: sha256(manifestBytes),
    files: files.length,
    files_sha256: sha256(Buffer.from(lines.join(''), 'utf8')),
  };
}
