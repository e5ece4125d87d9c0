import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { requireIntact } from '../../archive/copies/export-file.ts';
import { mayHold, shapes } from '../../archive/copies/prune-files.ts';
import { sha256 } from '../../archive/disk/file-system.ts';
import type { PublishedFile } from '../../archive/manifest.ts';
import type { Archive } from '../../archive/open-archive.ts';
import { type DatasetName, datasets } from '../../archive/parquet/schema.ts';
import type { Random } from '../../core/clock.ts';
import { compareUtf8 } from '../../core/compare-utf8.ts';
import { partOf } from '../../core/partition.ts';
import { dayMs, type Window } from '../../core/window.ts';
import type { Query, Source } from '../../query/query.ts';
import type { ArchiveUsed } from '../../research/result.ts';
import { bookAgeMsMax } from '../../research/simulate.ts';
import { openPinned } from '../pinned-query.ts';
import { stateColumns, statesInOrder } from './market-states.ts';
import { fileColumn, ticksView } from './tick-columns.ts';

/** What a backtest reads of: the files of one generation, pinned and found intact. */
export interface Ground {
  /** Over all of it. */
  readonly query: Query;
  readonly parts: number;
  readonly hasBooks: boolean;
  /** When it was published, epoch milliseconds. */
  readonly publishedAt: number;
  readonly used: ArchiveUsed;
  /** Where the files are, and where a reader may put what does not fit in memory. */
  readonly root: string;
  readonly scratch: string;
  /** The files that may tell of some symbols in a window, and of their markets from a moment on; ticks by their part. */
  files(symbols: readonly string[], window: Window, statesFrom: number): Files;
  /** Of coverage in a window. */
  coverage(window: Window): Source;
  /**
   * Puts what was known of markets up to a moment in order by symbol, once for many readers: its files are by day, and each
   * would read all of them.
   */
  gatherStates(to: number, signal: AbortSignal): Promise<void>;
  /** @throws DamageError where a file is not what the manifest says: before it is known, nothing may be told of what was read */
  requireIntact(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

export interface Files {
  readonly sources: readonly Source[];
  /** Rows of those with ticks, of whatever symbols, and whether some of them are not in the window. */
  readonly tickRows: number;
  readonly beyondWindow: boolean;
}

/** Ends that are null are open. */
export interface Reach {
  readonly from: number | null;
  readonly to: number | null;
  /** None: all of them. */
  readonly symbols: readonly string[];
  /** Whether states of markets are wanted. */
  readonly states: boolean;
}

const memoryBytesMax = 512 * 1024 ** 2;

/** What is known of a market is looked for so far before a run: by then it was polled once, if it is polled at all. */
const statesBackMs = 7 * dayMs;

/** How far before a run what it looks at may lie. */
const backMs: Partial<Record<DatasetName, number>> = { markets: statesBackMs, orderbooks: bookAgeMsMax };

/** @throws DamageError where the file of symbols is not what the manifest says; `requireIntact` looks at the others */
export async function openGround(archive: Archive, reach: Reach, random: Random, signal: AbortSignal): Promise<Ground> {
  const names: readonly DatasetName[] = [
    ...(['ticks', 'symbols', 'coverage', 'orderbooks'] as const),
    ...(reach.states ? (['markets'] as const) : []),
  ];
  const manifestParts = { parts: archive.manifest().parts };
  const wantedOf = (name: DatasetName, symbols: readonly string[], { from, to }: Pick<Reach, 'from' | 'to'>) =>
    mayHold(manifestParts, name, symbols, {
      from: from === null ? null : from - (backMs[name] ?? 0),
      to,
    });
  // What is known of a symbol is of no time.
  const wanted = (file: PublishedFile): boolean =>
    datasetOf(file) === 'symbols' || wantedOf(datasetOf(file), reach.symbols, reach)(file);
  const { query, pinned, close } = await openPinned(archive, { names, wanted, memoryBytesMax }, random);
  try {
    const { manifest, manifestText, root, scratch } = pinned;
    const files = names.flatMap((name) => manifest.datasets[name].files.filter(wanted));
    const requireAll = async (some: readonly PublishedFile[], signal: AbortSignal): Promise<void> => {
      for (const file of some) {
        signal.throwIfAborted();
        requireIntact(archive.disk, pinned, file);
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const [known = [], others = []] = [true, false].map((ofSymbols) =>
      files.filter((file) => (datasetOf(file) === 'symbols') === ofSymbols),
    );
    await requireAll(known, signal);
    const byPart = (name: DatasetName) =>
      Map.groupBy(manifest.datasets[name].files.filter(wanted), (file) =>
        shapes[name].split ? partOfFile(file) : null,
      );
    const placed = new Map(names.map((name) => [name, byPart(name)]));
    /** @param part null for what is not split */
    const filesOf = (name: DatasetName, part: number | null, within: Window): PublishedFile[] =>
      (placed.get(name)?.get(part) ?? []).filter(wantedOf(name, [], within));
    const sourceOf = (name: DatasetName, dataset: string, some: readonly PublishedFile[]): Source => ({
      dataset,
      columns: datasets[name],
      dated: true,
      paths: some.map(({ path }) => join(root, path)),
    });
    let gathered: Source | null = null;
    return {
      requireIntact: (signal) => requireAll(others, signal),
      coverage: (window) => sourceOf('coverage', 'coverage', filesOf('coverage', null, window)),
      async gatherStates(to, signal) {
        const path = join(root, 'states.parquet');
        await query.write(statesInOrder(to), 'parquet', createWriteStream(path), signal);
        gathered = { dataset: 'markets', columns: stateColumns, dated: false, paths: [path] };
      },
      query,
      root,
      scratch,
      close,
      parts: manifest.parts,
      hasBooks: files.some((file) => datasetOf(file) === 'orderbooks'),
      publishedAt: manifest.created_at,
      used: usedOf(manifest.generation, manifestText, files),
      files(symbols, window, statesFrom) {
        const of = [...new Set(symbols.map((symbol) => partOf(symbol, manifest.parts)))];
        const ticks = of.map((part) => ({ part, files: filesOf('ticks', part, window) }));
        const tickFiles = ticks.flatMap((one) => one.files);
        const books = of.flatMap((part) => filesOf('orderbooks', part, window));
        const statesWindow = { ...window, from: statesFrom };
        return {
          sources: [
            ...ticks.map((one) => ({
              ...sourceOf('ticks', ticksView(one.part), one.files),
              columns: [...datasets.ticks, fileColumn],
            })),
            sourceOf('orderbooks', 'orderbooks', books),
            gathered ?? sourceOf('markets', 'markets', reach.states ? filesOf('markets', null, statesWindow) : []),
          ],
          tickRows: tickFiles.reduce((sum, { rows }) => sum + rows, 0),
          beyondWindow: tickFiles.some((file) => !(file.t_min! >= window.from && file.t_max! < window.to)),
        };
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The part that a file of a dataset split by symbol is of. */
const partOfFile = ({ path }: PublishedFile): number => Number(/part-(\d+)\.parquet$/.exec(path)![1]);

const datasetOf = ({ path }: PublishedFile): DatasetName => path.slice(0, path.indexOf('/')) as DatasetName;

function usedOf(generation: number, manifestText: string, files: readonly PublishedFile[]): ArchiveUsed {
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
