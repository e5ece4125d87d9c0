import { join } from 'node:path';
import { DamageError } from '../../base/errors.ts';
import { findRange, isInRange, overlapsRange } from '../../base/symbol-range.ts';
import { formatDay, parseDayStart } from '../../base/time.ts';
import { floorToDay } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import { type Disk, sha256 } from '../disk/file-system.ts';
import { type DatasetName, datasetNames, datasets, isSplitBySymbol } from '../format/datasets.ts';
import {
  createPartLookup,
  type DayPart,
  getFileRange,
  isCandles,
  listDayFiles,
  listDayParts,
  listPublishedParts,
  sortParts,
  toPartKey,
} from '../format/day-parts.ts';
import type { ArchiveLayout } from '../format/layout.ts';
import { listFilesWithRows, type Manifest, type PublishedFile } from '../format/manifest.ts';
import { type SeriesColumns, type SeriesConflict, sliceSeries } from '../format/series.ts';
import { conflictDatasets, type SeriesDataset } from '../format/series-datasets.ts';
import type { Conflict } from '../format/tick-columns.ts';
import { overlayWithdrawals, type PublishedWithdrawal } from '../format/withdrawals.ts';
import { type CellValue, decodeRows } from '../parquet/rows.ts';
import { decodeSeries } from '../parquet/series-file.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import { chooseDayParts } from './day-part-choice.ts';
import {
  type DayCoverage,
  parseConflictRows,
  parseCoverageRows,
  parseSeriesConflictRows,
  type TableName,
} from './day-tables.ts';
import type { Stage } from './staging.ts';

/** A generation of another archive, whose files are on this machine. */
export interface OtherArchive {
  /** Its folder or address, for messages. */
  readonly name: string;
  readonly manifest: Manifest;
  readonly layout: ArchiveLayout;
  readonly disk: Disk;
}

/** A file of another archive is damaged, or was replaced by a later publish there. */
export class OtherDamageError extends DamageError {}

/** The error of which a merge keeps only the message, for a file of either archive. */
export const toDamageError = ({ name }: OtherArchive, message: string): DamageError =>
  new (message.startsWith(`${name}: `) ? OtherDamageError : DamageError)(message);

/** Reads a file of another archive. @throws OtherDamageError if it is missing or has another hash */
export function readOtherFile({ name, layout, disk }: OtherArchive, { path, sha256: hash }: PublishedFile): Uint8Array {
  const at = join(layout.root, path);
  const bytes = disk.isFile(at) ? disk.read(at) : null;
  if (bytes !== null && sha256(bytes) === hash) return bytes;
  const fault = bytes === null ? 'is missing' : 'differs from its manifest';
  throw new OtherDamageError(`${name}: ${path} ${fault}. Nothing was imported. Run oddslake verify on that archive.`);
}

/** A union in progress: what another archive has, as input of a publish. Its files are read when the part is merged. */
export interface Union {
  readonly archive: Archive;
  readonly stage: Stage;
  readonly other: OtherArchive;
  /** The run that counts the rows. */
  readonly runId: string;
  /** The withdrawals that both archives list. */
  readonly withdrawn: readonly PublishedWithdrawal[];
  /** Those that each archive lists, by UTC day: every symbol of every day asks for them. */
  readonly withdrawnOn: Readonly<Record<'own' | 'other', ReadonlyMap<number, readonly PublishedWithdrawal[]>>>;
  /** The coverage that was read last: of one part, several steps need it. */
  latest: { readonly key: string; readonly coverage: DayCoverage } | undefined;
}

const takenNames = datasetNames.filter((name) => isSplitBySymbol(name) && !isCandles(name));

export function openUnion(archive: Archive, stage: Stage, other: OtherArchive, runId: string): Union {
  const own = stage.base.datasets.coverage.withdrawn ?? [];
  const others = other.manifest.datasets.coverage.withdrawn ?? [];
  const groupByDay = (list: readonly PublishedWithdrawal[]) => Map.groupBy(list, ({ from }) => floorToDay(from));
  const withdrawnOn = { own: groupByDay(own), other: groupByDay(others) };
  const withdrawn = overlayWithdrawals([...own, ...others]);
  return { archive, stage, other, runId, withdrawn, withdrawnOn, latest: undefined };
}

/**
 * Chooses the parts of the days of the other archive. A day that only the other archive has keeps its parts, so that its files
 * keep their bytes.
 * @throws OtherDamageError if a file is missing or differs
 */
export function chooseUnionParts({ archive, stage, other }: Union): void {
  const { base } = stage;
  const dates = [...listDates(other.manifest)].sort();
  const taken = new Map<number, readonly DayPart[]>();
  const shared: number[] = [];
  for (const day of dates.map(parseDayStart)) {
    if (listPublishedParts(base, day).length > 0) shared.push(day);
    else taken.set(day, listDayParts(other.manifest, day));
  }
  const source = { listDays: () => shared, countRows: (day: number) => countOtherRows(base, other, day) };
  const lookup = chooseDayParts(base, { journaled: [], sources: [source], parts: archive.parts });
  for (const day of shared) taken.set(day, lookup.list(day));
  stage.parts = createPartLookup(base, taken);
}

/** Counts the rows of the other archive on a day, except for files whose symbols are all in one published part. */
function countOtherRows(base: Manifest, other: OtherArchive, day: number): Map<string, number> {
  const published = listDayParts(base, day);
  const counts = new Map<string, number>();
  for (const dataset of takenNames)
    for (const file of listDayFiles(other.manifest, dataset, formatDay(day))) {
      const { from, to } = getFileRange(file)!;
      const part = findRange(published, from);
      if (part !== undefined && isInRange(part, to)) continue;
      const columns = datasets[dataset].columns.filter(({ name }) => name === 'symbol');
      for (const [symbol] of decodeRows(columns, readOtherFile(other, file)) as [string][])
        counts.set(symbol, (counts.get(symbol) ?? 0) + 1);
    }
  return counts;
}

const listDates = (manifest: Manifest): Set<string> =>
  new Set(takenNames.flatMap((name) => listFilesWithRows(manifest, name).map(({ date }) => date!)));

/** The parts of days into which rows of the other archive go, sorted. */
export function listUnionParts(union: Union): DayPart[] {
  const { lost = [], datasets } = union.other.manifest;
  // What the other archive has lost or withdrawn may concern days of which it has no file.
  const judged = new Set(
    [...lost, ...(datasets.coverage.withdrawn ?? [])].map(({ from }) => formatDay(floorToDay(from))),
  );
  const dates = [...new Set([...listDates(union.other.manifest), ...judged])];
  return sortParts(
    dates
      .flatMap((date) => union.stage.parts.list(parseDayStart(date)))
      .filter(
        (part) =>
          judged.has(formatDay(part.day)) ||
          takenNames.some((dataset) => listOtherFiles(union, dataset, part).length > 0),
      ),
  );
}

/** The files of the other archive that may have symbols of a part. */
export const listOtherFiles = ({ other }: Union, dataset: DatasetName, part: DayPart): readonly PublishedFile[] =>
  listDayFiles(other.manifest, dataset, formatDay(part.day)).filter((file) => overlapsRange(getFileRange(file)!, part));

/** Rows of the other archive that belong to a part, in columns: those of each symbol by itself. */
export type OtherRows<C> = readonly (C & { readonly symbols: readonly [string] })[];

export const readOtherColumns = <C extends Pick<SeriesColumns, 'symbols'>>(
  union: Union,
  dataset: DatasetName,
  part: DayPart,
  decode: (bytes: Uint8Array) => C,
  slice: (columns: C, index: number) => C,
): OtherRows<C> => {
  return listOtherFiles(union, dataset, part).flatMap((file) => {
    const columns = decode(readOtherFile(union.other, file));
    return columns.symbols.flatMap((symbol, i) =>
      isInRange(part, symbol) ? [slice(columns, i) as OtherRows<C>[0]] : [],
    );
  });
};

/** Decodes a file of a series, or ticks as a series of one number. */
export function decodeAsSeries(dataset: 'ticks' | SeriesDataset, bytes: Uint8Array): SeriesColumns {
  if (dataset !== 'ticks') return decodeSeries(dataset, bytes);
  const { symbols, offsets, t, p } = decodeTicks(bytes);
  return { symbols, offsets, t, values: [p], texts: [] };
}

export const readOtherSeries = (
  union: Union,
  dataset: 'ticks' | SeriesDataset,
  part: DayPart,
): OtherRows<SeriesColumns> =>
  readOtherColumns(
    union,
    dataset,
    part,
    (bytes) => decodeAsSeries(dataset, bytes),
    (columns, i) => sliceSeries(columns, i, i + 1),
  );

export function readOtherTable(union: Union, dataset: TableName, part: DayPart): CellValue[][] {
  const at = dataset === 'coverage' ? 1 : 0;
  return listOtherFiles(union, dataset, part).flatMap((file) =>
    decodeRows(datasets[dataset].columns, readOtherFile(union.other, file)).filter((row) =>
      isInRange(part, row[at] as string),
    ),
  );
}

export function readOtherCoverage(union: Union, part: DayPart): DayCoverage {
  const key = toPartKey(part);
  if (union.latest?.key !== key)
    union.latest = { key, coverage: parseCoverageRows(readOtherTable(union, 'coverage', part)) };
  return union.latest.coverage;
}

export const readOtherConflicts = (union: Union, part: DayPart, dataset: 'ticks' | SeriesDataset): SeriesConflict[] =>
  dataset === 'ticks'
    ? parseConflictRows(readOtherTable(union, 'conflicts', part)).map(toPriceConflict)
    : parseSeriesConflictRows(dataset, readOtherTable(union, conflictDatasets[dataset], part));

export const toPriceConflict = ({ symbol, t, seenAt, dropped }: Conflict): SeriesConflict => ({
  symbol,
  t,
  seenAt,
  dropped: [dropped],
  droppedTexts: [],
});
