import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { sha256 } from '../../archive/disk/file-system.ts';
import { type DatasetName, datasets } from '../../archive/format/datasets.ts';
import type { PublishedFile } from '../../archive/format/manifest.ts';
import type { Archive } from '../../archive/open-archive.ts';
import { createFileFilter, datasetShapes } from '../../archive/publish/prune-files.ts';
import { openPinned } from '../../archive/query/pinned-query.ts';
import type { DatasetFiles, Query } from '../../archive/query/query.ts';
import { requireFileIntact } from '../../archive/read/export-file.ts';
import type { Random } from '../../base/ports.ts';
import { compareUtf8, computePartNumber } from '../../base/symbol-name.ts';
import { dayMs, type Window } from '../../base/window.ts';
import { bookAgeMsMax } from '../engine/simulate.ts';
import type { ArchiveUsed } from '../result.ts';
import { createStatesQuery, stateColumns } from './markets.ts';
import { fileIndexColumn, toTicksViewName } from './tick-columns.ts';

/** What a backtest reads of: the files of one generation, pinned and found intact. */
export interface BacktestData {
  /** Over all of it. */
  readonly query: Query;
  readonly parts: number;
  readonly hasBooks: boolean;
  /** When it was published, epoch milliseconds. */
  readonly publishedAt: number;
  readonly archiveUsed: ArchiveUsed;
  /** Where the files are, and where a reader may put what does not fit in memory. */
  readonly root: string;
  readonly scratch: string;
  /** The files that may tell of some symbols in a window, and of their markets from a moment on; ticks by their part. */
  findFiles(symbols: readonly string[], window: Window, statesFrom: number): BacktestFiles;
  /** Of coverage in a window. */
  findCoverage(window: Window): DatasetFiles;
  /**
   * Puts what was known of markets up to a moment in order by symbol, once for many readers: its files are by day, and each
   * would read all of them.
   */
  writeStates(to: number, signal: AbortSignal): Promise<void>;
  /** @throws DamageError where a file is not what the manifest says: before it is known, nothing may be told of what was read */
  requireIntact(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export interface BacktestFiles {
  readonly sources: readonly DatasetFiles[];
  /** Rows of those with ticks, of whatever symbols, and whether some of them are not in the window. */
  readonly tickRows: number;
  readonly hasRowsOutsideWindow: boolean;
}

/** Ends that are null are open. */
export interface DataRange {
  readonly from: number | null;
  readonly to: number | null;
  /** None: all of them. */
  readonly symbols: readonly string[];
  /** Whether states of markets are wanted. */
  readonly hasStates: boolean;
}

const memoryBytesMax = 512 * 1024 ** 2;

/** What is known of a market is looked for so far before a run: by then it was polled once, if it is polled at all. */
const statesLookbackMs = 7 * dayMs;

/** How far before a run what it looks at may lie. */
const lookbackMsByDataset: Partial<Record<DatasetName, number>> = {
  markets: statesLookbackMs,
  orderbooks: bookAgeMsMax,
};

/** @throws DamageError where the file of symbols is not what the manifest says; `requireIntact` looks at the others */
export async function openBacktestData(
  archive: Archive,
  reach: DataRange,
  random: Random,
  signal: AbortSignal,
): Promise<BacktestData> {
  const names: readonly DatasetName[] = [
    ...(['ticks', 'symbols', 'coverage', 'orderbooks'] as const),
    ...(reach.hasStates ? (['markets'] as const) : []),
  ];
  const manifestParts = { parts: archive.readManifest().parts };
  const wantedOf = (name: DatasetName, symbols: readonly string[], { from, to }: Pick<DataRange, 'from' | 'to'>) =>
    createFileFilter(manifestParts, name, symbols, {
      from: from === null ? null : from - (lookbackMsByDataset[name] ?? 0),
      to,
    });
  // What is known of a symbol is of no time.
  const wanted = (file: PublishedFile): boolean =>
    parseDatasetName(file) === 'symbols' || wantedOf(parseDatasetName(file), reach.symbols, reach)(file);
  const { query, pinned, close } = await openPinned(archive, { names, wanted, memoryBytesMax }, random);
  try {
    const { manifest, manifestText, root, scratchFolder } = pinned;
    const files = names.flatMap((name) => manifest.datasets[name].files.filter(wanted));
    const requireAll = async (some: readonly PublishedFile[], signal: AbortSignal): Promise<void> => {
      for (const file of some) {
        signal.throwIfAborted();
        requireFileIntact(archive.disk, pinned, file);
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const [known = [], others = []] = [true, false].map((ofSymbols) =>
      files.filter((file) => (parseDatasetName(file) === 'symbols') === ofSymbols),
    );
    await requireAll(known, signal);
    const byPart = (name: DatasetName) =>
      Map.groupBy(manifest.datasets[name].files.filter(wanted), (file) =>
        datasetShapes[name].isSplitBySymbol ? parsePartNumber(file) : null,
      );
    const placed = new Map(names.map((name) => [name, byPart(name)]));
    /** @param part null for what is not split */
    const filesOf = (name: DatasetName, part: number | null, within: Window): PublishedFile[] =>
      (placed.get(name)?.get(part) ?? []).filter(wantedOf(name, [], within));
    const sourceOf = (name: DatasetName, dataset: string, some: readonly PublishedFile[]): DatasetFiles => ({
      dataset,
      columns: datasets[name],
      dated: true,
      paths: some.map(({ path }) => join(root, path)),
    });
    let gathered: DatasetFiles | null = null;
    return {
      requireIntact: (signal) => requireAll(others, signal),
      findCoverage: (window) => sourceOf('coverage', 'coverage', filesOf('coverage', null, window)),
      async writeStates(to, signal) {
        const path = join(root, 'states.parquet');
        await query.write(createStatesQuery(to), 'parquet', createWriteStream(path), signal);
        gathered = { dataset: 'markets', columns: stateColumns, dated: false, paths: [path] };
      },
      query,
      root,
      scratch: scratchFolder,
      close,
      parts: manifest.parts,
      hasBooks: files.some((file) => parseDatasetName(file) === 'orderbooks'),
      publishedAt: manifest.created_at,
      archiveUsed: describeArchiveUsed(manifest.generation, manifestText, files),
      findFiles(symbols, window, statesFrom) {
        const of = [...new Set(symbols.map((symbol) => computePartNumber(symbol, manifest.parts)))];
        const ticks = of.map((part) => ({ part, files: filesOf('ticks', part, window) }));
        const tickFiles = ticks.flatMap((one) => one.files);
        const books = of.flatMap((part) => filesOf('orderbooks', part, window));
        const statesWindow = { ...window, from: statesFrom };
        return {
          sources: [
            ...ticks.map((one) => ({
              ...sourceOf('ticks', toTicksViewName(one.part), one.files),
              columns: [...datasets.ticks, fileIndexColumn],
            })),
            sourceOf('orderbooks', 'orderbooks', books),
            gathered ?? sourceOf('markets', 'markets', reach.hasStates ? filesOf('markets', null, statesWindow) : []),
          ],
          tickRows: tickFiles.reduce((sum, { rows }) => sum + rows, 0),
          hasRowsOutsideWindow: tickFiles.some((file) => !(file.t_min! >= window.from && file.t_max! < window.to)),
        };
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The part that a file of a dataset split by symbol is of. */
const parsePartNumber = ({ path }: PublishedFile): number => Number(/part-(\d+)\.parquet$/.exec(path)![1]);

const parseDatasetName = ({ path }: PublishedFile): DatasetName => path.slice(0, path.indexOf('/')) as DatasetName;

function describeArchiveUsed(generation: number, manifestText: string, files: readonly PublishedFile[]): ArchiveUsed {
  // As SHA256SUMS has them.
  const lines = files
    .toSorted((a, b) => compareUtf8(a.path, b.path))
    .map(({ sha256: hash, path }) => `${hash}  ${path}\n`);
  return {
    generation,
    manifest_sha256: sha256(Buffer.from(manifestText, 'utf8')),
    files: files.length,
    files_sha256: sha256(Buffer.from(lines.join(''), 'utf8')),
  };
}
