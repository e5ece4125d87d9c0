import { UsageError } from '../../base/errors.ts';
import { computePartNumber } from '../../base/symbol-name.ts';
import type { DatasetName } from '../format/datasets.ts';
import type { Manifest, PublishedFile } from '../format/manifest.ts';

interface DatasetShape {
  /** Sort key columns (CONTRACT, section 3). */
  readonly sortColumns: readonly string[];
  /** The columns with the start and end of a row's time; `isLastIncluded` if the end belongs to it. */
  readonly timeColumns: { readonly first: string; readonly last: string; readonly isLastIncluded: boolean } | null;
  /** Whether a day's files are split by symbol. */
  readonly isSplitBySymbol: boolean;
}

const momentColumns = { first: 't', last: 't', isLastIncluded: true };

/** How each dataset is sorted, and split into files by time and symbol. */
export const datasetShapes: Record<DatasetName, DatasetShape> = {
  ticks: { sortColumns: ['symbol', 't'], timeColumns: momentColumns, isSplitBySymbol: true },
  symbols: { sortColumns: ['symbol'], timeColumns: null, isSplitBySymbol: false },
  markets: {
    sortColumns: ['canonical_id', 'symbol', 'first_seen'],
    timeColumns: { first: 'first_seen', last: 'last_seen', isLastIncluded: true },
    isSplitBySymbol: false,
  },
  orderbooks: { sortColumns: ['symbol', 't', 'side', 'level'], timeColumns: momentColumns, isSplitBySymbol: true },
  candles_1h: { sortColumns: ['symbol', 't'], timeColumns: momentColumns, isSplitBySymbol: true },
  candles_1d: { sortColumns: ['symbol', 't'], timeColumns: momentColumns, isSplitBySymbol: true },
  coverage: {
    sortColumns: ['dataset', 'symbol', 't_from'],
    timeColumns: { first: 't_from', last: 't_to', isLastIncluded: false },
    isSplitBySymbol: false,
  },
  conflicts: { sortColumns: ['symbol', 't', 'seen_at', 'dropped'], timeColumns: momentColumns, isSplitBySymbol: false },
};

/**
 * Returns a filter for the files of a dataset that may hold rows of the symbols (empty: all) in a window, in epoch ms.
 * A null end of the window is open. Uses the manifest only.
 */
export function createFileFilter(
  { parts }: Pick<Manifest, 'parts'>,
  dataset: DatasetName,
  symbols: readonly string[],
  { from, to }: { readonly from: number | null; readonly to: number | null },
): (file: PublishedFile) => boolean {
  const fileNames = symbols.map(
    (symbol) => `/part-${String(computePartNumber(symbol, parts)).padStart(2, '0')}.parquet`,
  );
  const bySymbol = datasetShapes[dataset].isSplitBySymbol && symbols.length > 0;
  return (file) =>
    (from === null || file.t_max === null || file.t_max >= from) &&
    (to === null || file.t_min === null || file.t_min < to) &&
    (!bySymbol || fileNames.some((fileName) => file.path.endsWith(fileName)));
}

export interface ChangedFile extends PublishedFile {
  readonly dataset: DatasetName;
}

/**
 * The files written after generation `since`, in manifest order; all files if `since` is 0. To update a copy of
 * generation `since`, fetch these files and remove the paths of `listRemovedPaths`.
 * @throws UsageError if `since` is above the current generation
 */
export function listChangedFiles(manifest: Manifest, since: number): ChangedFile[] {
  if (since > manifest.generation) {
    throw new UsageError(
      `--since ${since} is above the archive's generation ${manifest.generation}: it was never published here. Is this another archive, or one restored from a backup?`,
    );
  }
  return (Object.entries(manifest.datasets) as [DatasetName, { files: readonly PublishedFile[] }][]).flatMap(
    ([dataset, { files }]) =>
      files.filter((file) => file.generation > since).map((file) => ({ dataset, ...file }) satisfies ChangedFile),
  );
}

/** Paths of files that were removed after generation `since`. */
export const listRemovedPaths = ({ removed = [] }: Manifest, since: number): string[] =>
  removed.filter(({ generation }) => generation > since).map(({ path }) => path);
