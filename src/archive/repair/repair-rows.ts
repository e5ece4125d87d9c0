import { parseDayStart } from '../../core/time.ts';
import { stageDayTable } from '../generation/day-tables.ts';
import { type Stage, stageRemoval } from '../generation/staging.ts';
import type { Archive } from '../open-archive.ts';
import { decodeRows } from '../parquet/rows.ts';
import { datasets } from '../parquet/schema.ts';
import { computeKeyRange, type DamagedFile, type RepairLosses } from './types.ts';

/** Stages the intact rows of a day's conflicts or markets: nothing else holds what they said. */
export function repairRows(
  archive: Archive,
  stage: Stage,
  dataset: 'conflicts' | 'markets',
  { file, salvage }: DamagedFile,
  losses: RepairLosses,
): void {
  const { readableFile, intactGroups, lostRanges } = salvage();
  const rows = readableFile === null ? [] : decodeRows(datasets[dataset], readableFile, intactGroups);
  if (rows.length > 0) stageDayTable(archive, stage, dataset, parseDayStart(file.date!), rows);
  else stageRemoval(stage, file.path);
  losses.rowsLost.set(file.path, file.rows - rows.length);
  for (const range of lostRanges)
    losses.unrecoverable.push({ dataset, path: file.path, rows: range.rows, ...computeKeyRange([range]) });
}
