import { UsageError } from '../../core/errors.ts';
import type { Manifest, PublishedFile } from '../manifest.ts';
import type { DatasetName } from '../parquet/schema.ts';

export interface ChangedFile extends PublishedFile {
  readonly dataset: DatasetName;
}

/**
 * The files that were written after generation `since`, in the manifest's order: all of them since 0. Whoever holds
 * generation `since`, takes these and removes those of `removedSince` holds `manifest`'s.
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
