import { join } from 'node:path';
import { DamageError } from '../../base/errors.ts';
import { computePartNumber } from '../../base/symbol-name.ts';
import { formatDay, parseDayStart } from '../../base/time.ts';
import { floorToDay } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import { type Disk, sha256 } from '../disk/file-system.ts';
import { type DatasetName, datasetNames, datasets, isSplitBySymbol } from '../format/datasets.ts';
import { getPartCount } from '../format/day-parts.ts';
import { type ArchiveLayout, parsePartNumber } from '../format/layout.ts';
import { listFilesWithRows, type Manifest, type PublishedFile } from '../format/manifest.ts';
import { type SeriesColumns, type SeriesConflict, sliceSeries } from '../format/series.ts';
import { conflictDatasets, type SeriesDataset } from '../format/series-datasets.ts';
import type { Conflict } from '../format/tick-columns.ts';
import { overlayWithdrawals, type PublishedWithdrawal } from '../format/withdrawals.ts';
import type { JournalBin } from '../journal/journal.ts';
import { type CellValue, decodeRows } from '../parquet/rows.ts';
import { decodeSeries } from '../parquet/series-file.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import { getStagePartCounts } from './day-part-choice.ts';
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
  /** The files of the other archive that have rows, by dataset and date. */
  readonly files: ReadonlyMap<string, readonly PublishedFile[]>;
  /** The coverage that was read last: of one part, several steps need it. */
  latest: { readonly key: string; readonly coverage: DayCoverage } | undefined;
}

const splitNames = datasetNames.filter(isSplitBySymbol);
const takenNames = splitNames.filter((name) => !name.startsWith('candles_'));

export function openUnion(archive: Archive, stage: Stage, other: OtherArchive, runId: string): Union {
  const own = stage.base.datasets.coverage.withdrawn ?? [];
  const others = other.manifest.datasets.coverage.withdrawn ?? [];
  const groupByDay = (list: readonly PublishedWithdrawal[]) => Map.groupBy(list, ({ from }) => floorToDay(from));
  const withdrawnOn = { own: groupByDay(own), other: groupByDay(others) };
  const named = takenNames.flatMap((dataset) =>
    listFilesWithRows(other.manifest, dataset).map((file) => ({ key: `${dataset} ${file.date}`, file })),
  );
  const files = new Map(
    [...Map.groupBy(named, ({ key }) => key)].map(([key, list]) => [key, list.map(({ file }) => file)]),
  );
  const withdrawn = overlayWithdrawals([...own, ...others]);
  return { archive, stage, other, runId, withdrawn, withdrawnOn, files, latest: undefined };
}

/**
 * Takes over the number of parts of days that only the other archive has, so that its files keep their bytes. A day of both has
 * as many parts as before.
 */
export function takeDayParts({ stage, other }: Union): void {
  const { base, dayParts } = stage;
  const published = new Set(splitNames.flatMap((name) => listFilesWithRows(base, name).map(({ date }) => date!)));
  for (const date of listDates(other.manifest)) {
    const count = getPartCount(other.manifest, date);
    if (!published.has(date) && count < base.parts && base.parts % count === 0) dayParts.set(date, count);
  }
}

const listDates = (manifest: Manifest): Set<string> =>
  new Set(takenNames.flatMap((name) => listFilesWithRows(manifest, name).map(({ date }) => date!)));

/** The parts of days into which rows of the other archive go, sorted. */
export function listUnionBins(union: Union): JournalBin[] {
  const { lost = [], datasets } = union.other.manifest;
  // What the other archive has lost or withdrawn may concern days of which it has no file.
  const judged = new Set(
    [...lost, ...(datasets.coverage.withdrawn ?? [])].map(({ from }) => formatDay(floorToDay(from))),
  );
  return [...new Set([...listDates(union.other.manifest), ...judged])].sort().flatMap((date) => {
    const day = parseDayStart(date);
    const parts = Array.from({ length: countParts(union, day) }, (_, part) => ({ day, part }));
    return parts.filter(
      (bin) => judged.has(date) || takenNames.some((dataset) => listOtherFiles(union, dataset, bin).length > 0),
    );
  });
}

const countParts = ({ stage }: Union, day: number): number => getPartCount(getStagePartCounts(stage), formatDay(day));

/** The files of the other archive that may have symbols of a part: the numbers of parts divide hashes of the symbols. */
export function listOtherFiles(
  union: Union,
  dataset: DatasetName,
  { day, part }: JournalBin,
): readonly PublishedFile[] {
  const date = formatDay(day);
  const shared = greatestCommonDivisor(countParts(union, day), getPartCount(union.other.manifest, date));
  const files = union.files.get(`${dataset} ${date}`) ?? [];
  return files.filter(({ path }) => parsePartNumber(path) % shared === part % shared);
}

const greatestCommonDivisor = (a: number, b: number): number => (b === 0 ? a : greatestCommonDivisor(b, a % b));

export const createPartCheck = (union: Union, { day, part }: JournalBin): ((symbol: string) => boolean) => {
  const parts = countParts(union, day);
  return (symbol) => computePartNumber(symbol, parts) === part;
};

/** Rows of the other archive that belong to a part, in columns: those of each symbol by itself. */
export type OtherRows<C> = readonly (C & { readonly symbols: readonly [string] })[];

export const readOtherColumns = <C extends Pick<SeriesColumns, 'symbols'>>(
  union: Union,
  dataset: DatasetName,
  bin: JournalBin,
  decode: (bytes: Uint8Array) => C,
  slice: (columns: C, index: number) => C,
): OtherRows<C> => {
  const isOfPart = createPartCheck(union, bin);
  return listOtherFiles(union, dataset, bin).flatMap((file) => {
    const columns = decode(readOtherFile(union.other, file));
    return columns.symbols.flatMap((symbol, i) => (isOfPart(symbol) ? [slice(columns, i) as OtherRows<C>[0]] : []));
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
  bin: JournalBin,
): OtherRows<SeriesColumns> =>
  readOtherColumns(
    union,
    dataset,
    bin,
    (bytes) => decodeAsSeries(dataset, bytes),
    (columns, i) => sliceSeries(columns, i, i + 1),
  );

export function readOtherTable(union: Union, dataset: TableName, bin: JournalBin): CellValue[][] {
  const isOfPart = createPartCheck(union, bin);
  const at = dataset === 'coverage' ? 1 : 0;
  return listOtherFiles(union, dataset, bin).flatMap((file) =>
    decodeRows(datasets[dataset].columns, readOtherFile(union.other, file)).filter((row) =>
      isOfPart(row[at] as string),
    ),
  );
}

export function readOtherCoverage(union: Union, bin: JournalBin): DayCoverage {
  const key = `${bin.day} ${bin.part}`;
  if (union.latest?.key !== key)
    union.latest = { key, coverage: parseCoverageRows(readOtherTable(union, 'coverage', bin)) };
  return union.latest.coverage;
}

export const readOtherConflicts = (
  union: Union,
  bin: JournalBin,
  dataset: 'ticks' | SeriesDataset,
): SeriesConflict[] =>
  dataset === 'ticks'
    ? parseConflictRows(readOtherTable(union, 'conflicts', bin)).map(toPriceConflict)
    : parseSeriesConflictRows(dataset, readOtherTable(union, conflictDatasets[dataset], bin));

export const toPriceConflict = ({ symbol, t, seenAt, dropped }: Conflict): SeriesConflict => ({
  symbol,
  t,
  seenAt,
  dropped: [dropped],
  droppedTexts: [],
});
