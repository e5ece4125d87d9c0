import type { CandleColumns } from '../../core/candles.ts';
import type { PartColumns } from '../../core/merge.ts';
import { askSide, type BookColumns } from '../../core/merge-books.ts';
import type { Archive } from '../archive.ts';
import { encodeBooks } from '../parquet/books-file.ts';
import { encodeCandles } from '../parquet/candles-file.ts';
import type { DatasetName } from '../parquet/datasets.ts';
import { keysBySymbol } from '../parquet/row-groups.ts';
import { encodeTicks } from '../parquet/ticks-file.ts';
import { factsOfPart, type Stage, stageFile } from './stage.ts';

// Parts of a day, from their columns; each has at least one row. `day` is a UTC midnight in epoch ms.

export function stageTicks(archive: Archive, stage: Stage, path: string, day: number, columns: PartColumns): void {
  const bytes = encodeTicks(columns, archive.groupRows);
  const keyAt = keysBySymbol(columns, (row) => [columns.t[row]!]);
  stageFile(archive, stage, 'ticks', path, bytes, factsOfPart(day, columns), keyAt);
}

export function stageBookPart(archive: Archive, stage: Stage, path: string, day: number, columns: BookColumns): void {
  const { t, side, level } = columns;
  const bytes = encodeBooks(columns, archive.groupRows);
  const keyAt = keysBySymbol(columns, (row) => [t[row]!, side[row] === askSide ? 'ask' : 'bid', level[row]!]);
  stageFile(archive, stage, 'orderbooks', path, bytes, factsOfPart(day, columns), keyAt);
}

export function stageCandlePart(
  archive: Archive,
  stage: Stage,
  dataset: DatasetName,
  path: string,
  day: number,
  columns: CandleColumns,
): void {
  const bytes = encodeCandles(columns, archive.groupRows);
  const keyAt = keysBySymbol(columns, (row) => [columns.t[row]!]);
  stageFile(archive, stage, dataset, path, bytes, factsOfPart(day, columns), keyAt);
}
