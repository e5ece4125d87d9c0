import { type CandleInterval, candleIntervals } from '../../core/candles.ts';
import { DamageError } from '../../core/errors.ts';
import type { PartColumns } from '../../core/merge.ts';
import { parseDayStart } from '../../core/time.ts';
import type { Window } from '../../core/window.ts';
import { type DayCoverage, readDayCoverage } from '../generation/day-tables.ts';
import { encodeCandleFiles } from '../generation/encode-partition.ts';
import { type Stage, stageFile } from '../generation/staging.ts';
import type { Manifest, PublishedFile } from '../manifest.ts';
import { type Archive, readPublishedFile } from '../open-archive.ts';
import { candleDatasets } from '../parquet/schema.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';

/**
 * The intervals that a publish keeps candles of: those asked for, and those that the archive has files of already, so
 * that no candles ever stand beside newer ticks.
 */
export const listCandleIntervals = (base: Manifest, asked: readonly CandleInterval[]): CandleInterval[] =>
  (Object.keys(candleIntervals) as CandleInterval[]).filter(
    (interval) => asked.includes(interval) || base.datasets[candleDatasets[interval]].files.length > 0,
  );

/** Stages the candles of one part's ticks; a file whose bytes are published already is left as it is. */
export function stageCandles(
  archive: Archive,
  stage: Stage,
  intervals: readonly CandleInterval[],
  bin: { readonly day: number; readonly part: number },
  columns: PartColumns,
  coverage: ReadonlyMap<string, readonly Window[]>,
): void {
  for (const file of encodeCandleFiles(bin, columns, coverage, intervals, archive.groupRows))
    stageFile(archive, stage, file);
}

export interface StageCandlesOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

/**
 * Stages the candles that published ticks lack: of an archive from before there were candles, or of an interval that
 * is asked for since. Parts that the stage holds ticks or candles of are its own business. Holds one part in memory.
 * Returns why parts were left out: what is published there is damaged.
 */
export async function stageMissingCandles(
  archive: Archive,
  stage: Stage,
  intervals: readonly CandleInterval[],
  { signal, onProgress }: StageCandlesOptions = {},
): Promise<string[]> {
  const lacking = findMissingCandles(stage, intervals);
  const refused = new Set<string>();
  let done = 0;
  let of: { readonly day: number; readonly coverage: DayCoverage['ticks'] } | undefined;
  for (const { file, missing } of lacking) {
    signal?.throwIfAborted();
    try {
      const day = parseDayStart(file.date!);
      if (of?.day !== day) of = { day, coverage: readDayCoverage(archive, stage.base, day).ticks };
      const columns = decodeTicks(readPublishedFile(archive, file));
      stageCandles(archive, stage, missing, { day, part: parsePartNumber(file.path) }, columns, of.coverage);
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.add(error.message);
    }
    onProgress?.(++done, lacking.length);
    // Signals and other work get their turn between parts.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return [...refused];
}

interface MissingCandleFiles {
  readonly file: PublishedFile;
  readonly missing: readonly CandleInterval[];
}

function findMissingCandles({ base, stagedFiles }: Stage, intervals: readonly CandleInterval[]): MissingCandleFiles[] {
  const there = new Set(intervals.flatMap((i) => base.datasets[candleDatasets[i]].files.map((file) => file.path)));
  return base.datasets.ticks.files.flatMap((file) => {
    const missing = intervals.filter((interval) => {
      const path = `${candleDatasets[interval]}${file.path.slice('ticks'.length)}`;
      return !there.has(path) && !stagedFiles.has(path);
    });
    return missing.length === 0 ? [] : [{ file, missing }];
  });
}

const parsePartNumber = (path: string): number => Number(/part-(\d+)\.parquet$/.exec(path)![1]);
