import type { Random } from '../../base/ports.ts';
import type { Archive } from '../archive.ts';
import { type DatasetName, datasetNames, datasets, isDated } from '../format/datasets.ts';
import type { Manifest, PublishedFile } from '../format/manifest.ts';
import type { ViewDefinition } from '../publish/market-data-views.ts';
import { formatDaysText, hasDailyCandles, listViewDefinitions, selectViewDefinitions } from '../publish/views-sql.ts';
import { type GenerationPin, pinGeneration } from '../read/pin-generation.ts';
import { openQuery } from './open-query.ts';
import type { Query } from './query.ts';

const memoryBytesMax = 4 * 1024 ** 3;

/** Opens a query over the current generation. Pins the datasets that the statement references. */
export const openArchiveQuery = (archive: Archive, statement: string, random: Random): Promise<PinnedQuery> =>
  openPinned(archive, { ...findReferencedDatasets(statement, archive.readManifest()), memoryBytesMax }, random);

interface PinnedQuery {
  readonly query: Query;
  readonly pinned: GenerationPin;
  close(): Promise<void>;
}

interface PinnedQueryScope {
  readonly names: readonly DatasetName[];
  /** Selects the files to read; default all. */
  readonly wanted?: (file: PublishedFile) => boolean;
  /** Views and macros over the datasets. */
  readonly defined?: readonly ViewDefinition[];
  readonly memoryBytesMax: number;
}

/** Pins the selected files of some datasets, and opens a query over them. */
export async function openPinned(archive: Archive, slice: PinnedQueryScope, random: Random): Promise<PinnedQuery> {
  const { names, defined = [], memoryBytesMax } = slice;
  const id = Math.floor(random() * 36 ** 8).toString(36);
  if (archive.fetchFiles !== undefined) {
    const published = archive.readManifest();
    await archive.fetchFiles(
      names.flatMap((name) => published.datasets[name].files.filter((file) => slice.wanted?.(file) !== false)),
    );
  }
  const pinned = pinGeneration(archive, names, id, slice.wanted);
  const sources = names.map((name) => ({
    dataset: name,
    columns: datasets[name].columns,
    dated: isDated(name),
    paths: pinned.listPaths(name),
  }));
  try {
    const query = await openQuery(sources, {
      threads: 2,
      memoryBytesMax,
      scratch: pinned.scratchFolder,
      definitions: defined.map(({ sql }) => sql),
    });
    return {
      query,
      pinned,
      async close() {
        await query.close();
        pinned.release();
      },
    };
  } catch (error) {
    pinned.release();
    throw error;
  }
}

/** Finds the datasets that a statement names, directly or through views and macros. */
function findReferencedDatasets(
  statement: string,
  manifest: Manifest,
): { names: readonly DatasetName[]; defined: readonly ViewDefinition[] } {
  const text = statement.toLowerCase();
  const hasDaily = hasDailyCandles(manifest);
  const daysText = formatDaysText(manifest);
  const defined = selectViewDefinitions(statement, hasDaily, manifest.lost, daysText);
  const needed = new Set<DatasetName>(defined.flatMap(({ needs }) => needs));
  const names = datasetNames.filter((name) => needed.has(name) || text.includes(name));
  // A statement such as SHOW TABLES names none: use all. The days need no dataset.
  return names.length === 0 && !defined.some(({ name }) => name === 'days')
    ? { names: datasetNames, defined: listViewDefinitions(hasDaily, manifest.lost, daysText) }
    : { names, defined };
}
