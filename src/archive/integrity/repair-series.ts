import type { Archive } from '../archive.ts';
import { type PublishedCoverage, subtractFromCoverage } from '../format/coverage.ts';
import { findDayPart } from '../format/day-parts.ts';
import { parsePartNumber } from '../format/layout.ts';
import { createEmptySeries, type SeriesColumns, toTimes } from '../format/series.ts';
import type { SeriesDataset } from '../format/series-datasets.ts';
import { countTicksInWindow, indexTickTimes } from '../format/tick-columns.ts';
import { decodeSeries } from '../parquet/series-file.ts';
import { openSeriesPartitionWriter } from '../publish/encode-partition.ts';
import { type Stage, stageFile, stageRemoval } from '../publish/staging.ts';
import { computeKeyRange, computeRangeWindow, type DamagedFile, type RepairLosses } from './salvage-row-groups.ts';

/**
 * Stages the intact rows of a part of a series, and withdraws the coverage of the lost ones, so that an import can bring
 * them again and no window looks quiet.
 * @param day its UTC midnight, epoch ms
 * @param coverage coverage of the day by symbol; changed in place
 */
export function repairSeries(
  archive: Archive,
  stage: Stage,
  day: number,
  dataset: SeriesDataset,
  { file, salvage }: DamagedFile,
  coverage: Map<string, PublishedCoverage[]>,
  losses: RepairLosses,
): void {
  const { readableFile, intactGroups, lostRanges } = salvage();
  const part = parsePartNumber(file.path);
  const intact: SeriesColumns =
    readableFile === null ? createEmptySeries(dataset) : decodeSeries(dataset, readableFile, intactGroups);
  const writer = openSeriesPartitionWriter(dataset, { day, part }, archive.groupRows);
  writer.add(intact);
  const encoded = writer.finish();
  if (encoded === undefined) stageRemoval(stage, file.path);
  else stageFile(archive, stage, encoded);
  const rows = file.rows - intact.t.length;
  losses.rowsLost.set(file.path, rows);
  losses.unrecoverable.push({ dataset, path: file.path, rows, ...computeKeyRange(lostRanges) });
  const getTimes = indexTickTimes(toTimes(intact));
  for (const [symbol, covered] of coverage) {
    if (findDayPart(stage.base, symbol, day) !== part) continue;
    const t = getTimes(symbol);
    const spans = lostRanges.flatMap((range) => computeRangeWindow(range, symbol, day) ?? []);
    const remaining = covered.flatMap((window) =>
      // A window that has all of its rows keeps its coverage.
      window.ticks <= countTicksInWindow(t, window) ? [window] : subtractFromCoverage([window], spans, t),
    );
    if (remaining.length > 0) coverage.set(symbol, remaining);
    else coverage.delete(symbol);
  }
}
