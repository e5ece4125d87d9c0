import { parseDayStart } from '../../base/time.ts';
import { type DatasetName, datasetNames, isDated } from './datasets.ts';
import { symbolsPath, toDayPath } from './layout.ts';
import { listFilesWithRows, type Manifest } from './manifest.ts';

/** The place of a file without rows. */
export interface EmptyFile {
  readonly dataset: DatasetName;
  readonly path: string;
  /** UTC day; null for a dataset that is not split by day. */
  readonly date: string | null;
}

/**
 * Lists the files without rows that a generation needs besides its files: one for each dataset that has no file, so that
 * readers find its columns under the same glob as its rows. It is on the earliest day that has rows of any dataset: it adds
 * no day to the archive. Without any day with rows there are none. A file without rows that is published already is not
 * needed any more when the dataset has other files, but it stays: a reader may have listed it, and is about to open it.
 */
export function listMissingEmptyFiles(manifest: Pick<Manifest, 'datasets'>): EmptyFile[] {
  const day = findFirstDay(manifest);
  if (day === null) return [];
  return datasetNames
    .filter((dataset) => manifest.datasets[dataset].files.length === 0)
    .map((dataset) => toEmptyFile(dataset, day));
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
