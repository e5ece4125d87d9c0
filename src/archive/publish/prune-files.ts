import { UsageError } from '../../base/errors.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { hasOneOf } from '../../base/symbol-range.ts';
import { type DatasetName, isSplitBySymbol } from '../format/datasets.ts';
import { getFileRange } from '../format/day-parts.ts';
import { hasRows, type Manifest, type PublishedFile } from '../format/manifest.ts';

/**
 * Returns a filter for the files of a dataset that may hold rows of the symbols (empty: all) in a window, in epoch ms.
 * A null end of the window is open. A file without rows is never selected. Uses the manifest only.
 */
export function createFileFilter(
  dataset: DatasetName,
  symbols: readonly string[],
  { from, to }: { readonly from: number | null; readonly to: number | null },
): (file: PublishedFile) => boolean {
  const bySymbol = isSplitBySymbol(dataset) && symbols.length > 0;
  const sorted = bySymbol ? symbols.toSorted(compareUtf8) : [];
  return (file) =>
    hasRows(file) &&
    (from === null || file.t_max === null || file.t_max >= from) &&
    (to === null || file.t_min === null || file.t_min < to) &&
    (!bySymbol || hasOneOf(getFileRange(file)!, sorted));
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
