import { parseDayStart } from '../../base/time.ts';
import { type DatasetName, datasetNames, isDated } from './datasets.ts';
import { symbolsPath, toDayPath } from './layout.ts';
import { hasRows, listFilesWithRows, type Manifest } from './manifest.ts';

/** The place of a file without rows. */
export interface EmptyFile {
  readonly dataset: DatasetName;
  readonly path: string;
  /** UTC day; null for a dataset that is not split by day. */
  readonly date: string | null;
}

export interface EmptyFilePlan {
  readonly added: readonly EmptyFile[];
  /** Paths of files without rows that have no purpose any more. */
  readonly removed: readonly string[];
}

/**
 * Decides which files without rows a generation has. A dataset without rows has one, so that readers find its columns
 * under the same glob as its rows. It is on the earliest day that has rows of any dataset: it adds no day to the archive.
 * The place depends only on the files with rows. The same observations therefore give the same files, however they were
 * batched. Without any day with rows there are no files.
 */
export function planEmptyFiles(manifest: Pick<Manifest, 'datasets'>): EmptyFilePlan {
  const day = findFirstDay(manifest);
  const added: EmptyFile[] = [];
  const removed: string[] = [];
  for (const dataset of datasetNames) {
    const { files } = manifest.datasets[dataset];
    const wanted = day === null || files.some(hasRows) ? null : toEmptyFile(dataset, day);
    const paths = files.filter((file) => !hasRows(file)).map(({ path }) => path);
    if (wanted !== null && !paths.includes(wanted.path)) added.push(wanted);
    for (const path of paths) if (path !== wanted?.path) removed.push(path);
  }
  return { added, removed };
}

/** The earliest day with rows, as YYYY-MM-DD; null if there is none. */
function findFirstDay(manifest: Pick<Manifest, 'datasets'>): string | null {
  let first: string | null = null;
  for (const dataset of datasetNames)
    for (const { date } of listFilesWithRows(manifest, dataset))
      if (date !== null && (first === null || date < first)) first = date;
  return first;
}

const toEmptyFile = (dataset: DatasetName, date: string): EmptyFile =>
  isDated(dataset)
    ? { dataset, path: toDayPath(dataset, parseDayStart(date), 0), date }
    : { dataset, path: symbolsPath, date: null };
