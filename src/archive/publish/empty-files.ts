import { type DatasetDefinition, type DatasetName, datasets } from '../format/datasets.ts';
import { type EmptyFile, planEmptyFiles } from '../format/empty-files.ts';
import { emptyBooks } from '../format/order-book.ts';
import type { Archive } from '../open-archive.ts';
import { encodeBooks } from '../parquet/books-file.ts';
import { createRowKeyReader } from '../parquet/row-group-index.ts';
import { encodeRows } from '../parquet/rows.ts';
import { createEncodedFile, type EncodedFile } from './encode-partition.ts';
import { listNextFiles, type Stage, stageFile, stageRemoval } from './staging.ts';

/** Stages the files of the datasets without rows, and the removal of those that are not needed any more. */
export function stageEmptyFiles(archive: Archive, stage: Stage): void {
  const { added, removed } = planEmptyFiles({ datasets: listNextFiles(stage) });
  for (const path of removed) stageRemoval(stage, path);
  for (const file of added) stageFile(archive, stage, encodeEmptyFile(file));
}

/** Encodes a file without rows, with the schema of the files with rows. */
function encodeEmptyFile({ dataset, path, date }: EmptyFile): EncodedFile {
  const statistics = { date, rows: 0, t_min: null, t_max: null, symbols: 0 };
  return createEncodedFile(dataset, path, encodeNoRows(dataset), statistics, createRowKeyReader(dataset, []));
}

/** Uses the encoder of the dataset, because Arrow and our own writer describe the same columns with other metadata. */
function encodeNoRows(dataset: DatasetName): Uint8Array {
  const { columns }: DatasetDefinition = datasets[dataset];
  return dataset === 'orderbooks' ? encodeBooks(emptyBooks) : encodeRows(columns, []);
}
