import { dayStart } from '../../core/time.ts';
import { encodeDay } from '../generation/day-tables.ts';
import { type Stage, stageRemoval } from '../generation/staging.ts';
import type { Archive } from '../open-archive.ts';
import { decodeRows } from '../parquet/rows.ts';
import { datasets } from '../parquet/schema.ts';
import { type Broken, hullOf, type Losses } from './types.ts';

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
