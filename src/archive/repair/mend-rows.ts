import { dayStart } from '../../core/time.ts';
import type { Archive } from '../archive.ts';
import { encodeDay } from '../generation/day-files.ts';
import { type Stage, stageRemoval } from '../generation/stage.ts';
import { datasets } from '../parquet/datasets.ts';
import { decodeRows } from '../parquet/parquet.ts';
import { type Broken, hullOf, type Losses } from './mending.ts';

/** Stages the intact rows of a day's conflicts or markets: nothing else holds what they said. */
export function mendRows(
  archive: Archive,
  stage: Stage,
  dataset: 'conflicts' | 'markets',
  { file, salvaged }: Broken,
  losses: Losses,
): void {
  const { readable, kept, lost } = salvaged();
  const rows = readable === null ? [] : decodeRows(datasets[dataset], readable, kept);
  if (rows.length > 0) encodeDay(archive, stage, dataset, dayStart(file.date!), rows);
  else stageRemoval(stage, file.path);
  losses.rowsLost.set(file.path, file.rows - rows.length);
  for (const range of lost) losses.gone.push({ dataset, path: file.path, rows: range.rows, ...hullOf([range]) });
}
