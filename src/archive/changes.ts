import { UsageError } from '../core/errors.ts';
import type { DatasetName } from './datasets.ts';
import type { Manifest, PublishedFile } from './manifest.ts';

export interface ChangedFile extends PublishedFile {
  readonly dataset: DatasetName;
}

/**
 * The files that were written after generation `since`, in the manifest's order: all of them since 0. A file never
 * vanishes from one generation to the next, so whoever holds generation `since` and takes these holds `manifest`'s.
 * Throws UsageError for a generation that is still to come.
 */
export function changesSince(manifest: Manifest, since: number): ChangedFile[] {
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
