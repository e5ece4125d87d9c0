import type { Archive } from '../archive.ts';
import { type DatasetName, datasets } from '../format/datasets.ts';
import { type EmptyFile, listMissingEmptyFiles } from '../format/empty-files.ts';
import { createRowKeyReader } from '../parquet/row-group-index.ts';
import { encodeRows } from '../parquet/rows.ts';
import { readEmptyMarkets } from '../parquet/stored-empty-files.ts';
import { createEncodedFile, type EncodedFile } from './encode-partition.ts';
import { listNextFiles, type Stage, stageFile } from './staging.ts';

/** Stages a file without rows for each dataset that has no file in the next generation. */
export function stageMissingEmptyFiles(archive: Archive, stage: Stage): void {
  for (const file of listMissingEmptyFiles({ datasets: listNextFiles(stage) }))
    stageFile(archive, stage, encodeEmptyFile(file));
}

/** Encodes a file without rows, with the schema of the files with rows. */
export function encodeEmptyFile({ dataset, path, date }: EmptyFile): EncodedFile {
  const statistics = { date, rows: 0, t_min: null, t_max: null, symbols: 0 };
  return createEncodedFile(dataset, path, encodeNoRows(dataset), statistics, createRowKeyReader(dataset, []));
}

const encodeNoRows = (dataset: DatasetName): Uint8Array =>
  dataset === 'markets' ? readEmptyMarkets() : encodeRows(datasets[dataset].columns, []);
