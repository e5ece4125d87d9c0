import { UsageError } from '../../base/errors.ts';
import { computePartNumber } from '../../base/symbol-name.ts';
import type { DatasetName } from '../format/datasets.ts';
import type { Manifest, PublishedFile } from '../format/manifest.ts';

interface DatasetShape {
  /** The columns it is sorted by (CONTRACT, section 3). */
  readonly sortColumns: readonly string[];
  /** The columns between which a row's time lies; `closed`: the moment of `last` still belongs to it. */
  readonly timeColumns: { readonly first: string; readonly last: string; readonly isLastIncluded: boolean } | null;
  /** Whether a day's files are split by symbol. */
  readonly isSplitBySymbol: boolean;
}

const momentColumns = { first: 't', last: 't', isLastIncluded: true };

/** How the rows of each dataset are ordered, placed in time and split over files. */
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
 * Tells the files of a dataset that may hold rows of some symbols (none: all) in a window of epoch milliseconds, an end
 * that is null being open; the manifest alone is looked at.
 */
export function createFileFilter(
  { parts }: Pick<Manifest, 'parts'>,
  dataset: DatasetName,
  symbols: readonly string[],
  { from, to }: { readonly from: number | null; readonly to: number | null },
): (file: PublishedFile) => boolean {
  const places = symbols.map((symbol) => `/part-${String(computePartNumber(symbol, parts)).padStart(2, '0')}.parquet`);
  const bySymbol = datasetShapes[dataset].isSplitBySymbol && symbols.length > 0;
  return (file) =>
    (from === null || file.t_max === null || file.t_max >= from) &&
    (to === null || file.t_min === null || file.t_min < to) &&
    (!bySymbol || places.some((place) => file.path.endsWith(place)));
}

export interface ChangedFile extends PublishedFile {
  readonly dataset: DatasetName;
}

/**
 * The files that were written after generation `since`, in the manifest's order: all of them since 0. Whoever holds
 * generation `since`, takes these and removes those of `listRemovedPaths` holds `manifest`'s.
 * Throws UsageError for a generation that is still to come.
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

/** Paths of files that were published in generation `since`, or later, and are no more. */
export const listRemovedPaths = ({ removed = [] }: Manifest, since: number): string[] =>
  removed.filter(({ generation }) => generation > since).map(({ path }) => path);
