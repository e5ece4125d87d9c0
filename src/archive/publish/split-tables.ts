import { formatDay } from '../../base/time.ts';
import type { Archive } from '../archive.ts';
import { listReadColumns } from '../format/datasets.ts';
import { getPartCount } from '../format/day-parts.ts';
import type { PublishedFile } from '../format/manifest.ts';
import type { JournalBin } from '../journal/journal.ts';
import { type CellValue, decodeRows } from '../parquet/rows.ts';
import { readPublishedFile } from '../read-published-file.ts';
import {
  addCoverage,
  groupRowsByPart,
  numberConflicts,
  parseConflictRows,
  parseCoverageRows,
  readTableRows,
  stageTable,
  toConflictRows,
  toCoverageRows,
} from './day-tables.ts';
import { encodeEmptyFile } from './empty-files.ts';
import { type Stage, stageFile } from './staging.ts';

// Formats before 4 have one file of coverage and one of conflicts for each day, with the symbols of all parts.

type SplitTable = 'coverage' | 'conflicts';

/**
 * Stages the rows of a file of an older format as one file for each part. Its own path is that of part 0.
 * @throws DamageError if a file is damaged
 */
export function stageSplitTable(
  archive: Archive,
  stage: Stage,
  dataset: SplitTable,
  bin: JournalBin,
  file: PublishedFile,
): void {
  const older = decodeRows(listReadColumns(dataset), readPublishedFile(archive, file));
  const rows = dataset === 'conflicts' ? numberConflicts(older) : older;
  const own = stageRowsOfOtherParts(archive, stage, dataset, bin, rows);
  if (own.length > 0) stageTable(archive, stage, dataset, bin, own);
  // A reader that has listed the file can still open it.
  else stageFile(archive, stage, encodeEmptyFile({ dataset, path: file.path, date: file.date }));
}

/**
 * Stages the rows of a file of an older format that belong to other parts, joined with what these have published since then.
 * @returns the rows that belong to the part of the file: in the current format all of them
 * @throws DamageError if a file is damaged
 */
export function stageRowsOfOtherParts(
  archive: Archive,
  stage: Stage,
  dataset: SplitTable,
  bin: JournalBin,
  rows: readonly CellValue[][],
): readonly CellValue[][] {
  const parts = getPartCount(stage.base, formatDay(bin.day));
  const byPart = groupRowsByPart(dataset, rows, parts);
  for (const [part, ofPart] of byPart) {
    if (part === bin.part) continue;
    const other = { day: bin.day, part };
    const published = stage.base.format_version < 4 ? [] : readTableRows(archive, stage.base, dataset, other);
    stageTable(archive, stage, dataset, other, joinRows(dataset, published, ofPart));
  }
  return byPart.get(bin.part) ?? [];
}

function joinRows(dataset: SplitTable, published: CellValue[][], others: CellValue[][]): CellValue[][] {
  if (published.length === 0) return others;
  if (dataset === 'conflicts') return toConflictRows([...parseConflictRows(published), ...parseConflictRows(others)]);
  const coverage = parseCoverageRows(published);
  addCoverage(coverage, parseCoverageRows(others));
  return toCoverageRows(coverage);
}
