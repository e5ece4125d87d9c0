import { join } from 'node:path';
import type { Manifest, PublishedFile } from '../../archive/manifest.ts';
import { type Archive, ownManifest } from '../../archive/open-archive.ts';
import { type DatasetName, datasets } from '../../archive/parquet/schema.ts';
import { definitions } from '../../archive/texts/views-sql.ts';
import type { Random } from '../../core/clock.ts';
import { DamageError } from '../../core/errors.ts';
import type { Engine } from '../../query/duckdb-connection.ts';
import { openFolder } from '../../query/open-query.ts';
import type { Query } from '../../query/query.ts';
import type { Current } from '../manifest-watcher.ts';
import { openShelf, ReplacedError, type Shelf, type Taken } from './pin-pool.ts';

/** Queries over what is published, many at once, each over one generation whose files were checked. */
export interface History {
  /** Runs `work` over the current generation; over a newer one where a file of it was replaced before it could be had. */
  reading<T>(work: (generation: Generation) => Promise<T>): Promise<T>;
  /** Waits for queries that are still open. */
  close(): Promise<void>;
}

/** One generation while it is read; whoever reads closes it. */
export interface Generation {
  readonly manifest: Manifest;
  /**
   * Opens a query over some files of datasets, and `defined` over those. Its calls come one after another; its `close`
   * throws DamageError where a file was written into meanwhile: what was read may be a mixture.
   * @param defined CREATE OR REPLACE statements; macros that need no dataset are there already
   * @throws ReplacedError, for `reading`; DamageError where a file is not as published
   */
  open(
    files: ReadonlyMap<DatasetName, readonly PublishedFile[]>,
    defined: readonly string[],
    signal: AbortSignal,
  ): Promise<Query>;
}

/** What DuckDB may hold in memory, all queries together; what needs more is sorted on disk. */
const memoryBytesMax = 1024 ** 3;

const threads = 2;

/** Publishes that may go on beside one reading, before missing files are taken for damage. */
const attemptsMax = 20;

/** Opens DuckDB and the shelf on first use. */
export function openHistory(archive: Archive, current: Current, random: Random): History {
  const id = Math.floor(random() * 36 ** 8).toString(36);
  let opened: Promise<{ shelf: Shelf; engine: Engine }> | undefined;
  const reading = new Set<Promise<void>>();

  async function open() {
    const shelf = openShelf(archive, id);
    const macros = definitions(false).filter(({ needs }) => needs.length === 0);
    const scratch = join(shelf.folder, 'scratch');
    const options = { threads, memoryBytesMax, scratch, definitions: macros.map(({ sql }) => sql) };
    return { shelf, engine: await openFolder(shelf.folder, options) };
  }

  return {
    async reading(work) {
      opened ??= open().catch((error: unknown) => {
        opened = undefined;
        throw error;
      });
      const { shelf, engine } = await opened;
      for (let attempt = 1; ; attempt++) {
        // What is remembered may be a moment old: a second look goes to the archive itself.
        const manifest = attempt === 1 ? current.manifest() : ownManifest(archive);
        shelf.settle(manifest);
        try {
          return await work(generationOf(manifest, shelf, engine, reading));
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

const generationOf = (manifest: Manifest, shelf: Shelf, engine: Engine, reading: Set<Promise<void>>): Generation => ({
  manifest,
  async open(files, defined, signal) {
    const taken: Taken[] = [];
    const { promise: isOver, resolve } = Promise.withResolvers<void>();
    reading.add(isOver);
    const giveAll = (): void => {
      for (const one of taken) one.give();
      reading.delete(isOver);
      resolve();
    };
    try {
      const sources = [];
      for (const [dataset, listed] of files) {
        const paths: string[] = [];
        for (const file of listed) {
          const one = await shelf.take(file, signal);
          taken.push(one);
          paths.push(one.path);
        }
        sources.push({ dataset, columns: datasets[dataset], dated: dataset !== 'symbols', paths });
      }
      const query = await engine.over(sources, defined);
      return {
        ...query,
        async close() {
          try {
            await query.close();
            const changed = taken.findIndex((one) => !one.isSame());
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
