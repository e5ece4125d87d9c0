import { join } from 'node:path';
import type { Manifest, PublishedFile } from '../../archive/manifest.ts';
import { type Archive, readCheckedManifest } from '../../archive/open-archive.ts';
import { type DatasetName, datasets } from '../../archive/parquet/schema.ts';
import { listViewDefinitions } from '../../archive/texts/views-sql.ts';
import type { Random } from '../../core/clock.ts';
import { DamageError } from '../../core/errors.ts';
import type { QueryEngine } from '../../query/duckdb-connection.ts';
import { openQueryEngine } from '../../query/open-query.ts';
import type { Query } from '../../query/query.ts';
import type { ManifestWatcher } from '../manifest-watcher.ts';
import { openPinPool, type PinPool, type PooledPin, ReplacedError } from './pin-pool.ts';

/** Queries over what is published, many at once, each over one generation whose files were checked. */
export interface HistoryReader {
  /** Runs `work` over the current generation; over a newer one where a file of it was replaced before it could be had. */
  read<T>(work: (generation: GenerationReader) => Promise<T>): Promise<T>;
  /** Waits for queries that are still open. */
  close(): Promise<void>;
}

/** One generation while it is read; whoever reads closes it. */
export interface GenerationReader {
  readonly manifest: Manifest;
  /**
   * Opens a query over some files of datasets, and `defined` over those. Its calls come one after another; its `close`
   * throws DamageError where a file was written into meanwhile: what was read may be a mixture.
   * @param defined CREATE OR REPLACE statements; macros that need no dataset are there already
   * @throws ReplacedError, for `reading`; DamageError where a file is not as published
   */
  openQuery(
    files: ReadonlyMap<DatasetName, readonly PublishedFile[]>,
    defined: readonly string[],
    signal: AbortSignal,
  ): Promise<Query>;
}

/** What DuckDB may hold in memory, all queries together; what needs more is sorted on disk. */
const memoryBytesMax = 1024 ** 3;

const threadsCount = 2;

/** Publishes that may go on beside one reading, before missing files are taken for damage. */
const attemptsMax = 20;

/** Opens DuckDB and the shelf on first use. */
export function openHistory(archive: Archive, current: ManifestWatcher, random: Random): HistoryReader {
  const id = Math.floor(random() * 36 ** 8).toString(36);
  let opened: Promise<{ shelf: PinPool; engine: QueryEngine }> | undefined;
  const reading = new Set<Promise<void>>();

  async function open() {
    const shelf = openPinPool(archive, id);
    const macros = listViewDefinitions(false).filter(({ needs }) => needs.length === 0);
    const scratch = join(shelf.folder, 'scratch');
    const options = { threads: threadsCount, memoryBytesMax, scratch, definitions: macros.map(({ sql }) => sql) };
    return { shelf, engine: await openQueryEngine(shelf.folder, options) };
  }

  return {
    async read(work) {
      opened ??= open().catch((error: unknown) => {
        opened = undefined;
        throw error;
      });
      const { shelf, engine } = await opened;
      for (let attempt = 1; ; attempt++) {
        // What is remembered may be a moment old: a second look goes to the archive itself.
        const manifest = attempt === 1 ? current.getManifest() : readCheckedManifest(archive);
        shelf.releaseStale(manifest);
        try {
          return await work(createGenerationReader(manifest, shelf, engine, reading));
        } catch (error) {
          if (!(error instanceof ReplacedError)) throw error;
          if (attempt < attemptsMax) continue;
          throw new DamageError(`${archive.layout.root} lacks files that its manifest lists. Run oddslake verify.`, {
            cause: error,
          });
        }
      }
    },
    async close() {
      if (opened === undefined) return;
      const { shelf, engine } = await opened;
      // DuckDB must not be closed under a query: whoever reads has been told to stop, and is about to.
      while (reading.size > 0) await Promise.all(reading);
      await engine.close();
      shelf.close();
    },
  };
}

const createGenerationReader = (
  manifest: Manifest,
  shelf: PinPool,
  engine: QueryEngine,
  reading: Set<Promise<void>>,
): GenerationReader => ({
  manifest,
  async openQuery(files, defined, signal) {
    const taken: PooledPin[] = [];
    const { promise: isOver, resolve } = Promise.withResolvers<void>();
    reading.add(isOver);
    const giveAll = (): void => {
      for (const one of taken) one.release();
      reading.delete(isOver);
      resolve();
    };
    try {
      const sources = [];
      for (const [dataset, listed] of files) {
        const paths: string[] = [];
        for (const file of listed) {
          const one = await shelf.acquire(file, signal);
          taken.push(one);
          paths.push(one.path);
        }
        sources.push({ dataset, columns: datasets[dataset], dated: dataset !== 'symbols', paths });
      }
      const query = await engine.openQuery(sources, defined);
      return {
        ...query,
        async close() {
          try {
            await query.close();
            const changed = taken.findIndex((one) => !one.isUnmodified());
            if (changed < 0) return;
            const { path } = [...files.values()].flat()[changed]!;
            throw new DamageError(`${path} was written into while it was read. Run oddslake verify.`);
          } finally {
            giveAll();
          }
        },
      };
    } catch (error) {
      giveAll();
      throw error;
    }
  },
});
