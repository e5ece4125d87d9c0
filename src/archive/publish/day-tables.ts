import { DamageError } from '../../base/errors.ts';
import { pushTo } from '../../base/push-to.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { findSymbolRange, isInRange, type SymbolRange } from '../../base/symbol-range.ts';
import { formatDay } from '../../base/time.ts';
import { floorToDay, overlaps } from '../../base/window.ts';
import type { Origin } from '../../contract/raw-page.ts';
import type { Archive } from '../archive.ts';
import type { Evidence, PublishedCoverage } from '../format/coverage.ts';
import {
  type CoveredDataset,
  coveredDatasets,
  type DatasetDefinition,
  type DatasetName,
  datasets,
  isSplitBySymbol,
} from '../format/datasets.ts';
import type { PartKey } from '../format/day-parts.ts';
import { toDayPath } from '../format/layout.ts';
import { findFileWithRows, type Manifest, type PublishedFile } from '../format/manifest.ts';
import { type MarketRow, marketColumns, mergeMarkets } from '../format/market.ts';
import { detailColumns } from '../format/market-details.ts';
import { overlayBookCoverage } from '../format/order-book.ts';
import type { SeriesConflict } from '../format/series.ts';
import { listFactColumns, type SeriesDataset } from '../format/series-datasets.ts';
import type { Conflict } from '../format/tick-columns.ts';
import type { BookResponse } from '../journal/journal-books.ts';
import { readMarketPolls } from '../journal/journal-markets.ts';
import { createRowKeyReader } from '../parquet/row-group-index.ts';
import { type CellValue, decodeRows, encodeRows } from '../parquet/rows.ts';
import { decodePublished, readPublishedFile } from '../read-published-file.ts';
import { createEncodedFile, type FileStatistics } from './encode-partition.ts';
import { type Stage, stageFile } from './staging.ts';

/** The datasets whose rows are read and written as rows. */
const tableNames = ['markets', 'coverage', 'conflicts', 'quote_conflicts', 'trade_conflicts'] as const;
export type TableName = (typeof tableNames)[number];

export const isTable = (name: DatasetName): name is TableName => (tableNames as readonly string[]).includes(name);

/**
 * Reads the published rows of a UTC day, of the symbols of a part. A dataset that is not split by symbol has one part, 0.
 * @throws DamageError if the file is damaged
 */
export function readTableRows(
  archive: Archive,
  base: Manifest,
  dataset: TableName,
  { day, part }: PartKey,
): CellValue[][] {
  const file = findFileWithRows(base, dataset, toDayPath(dataset, day, isSplitBySymbol(dataset) ? part : 0));
  if (file === undefined) return [];
  return decodePublished(file.path, () => decodeRows(datasets[dataset].columns, readPublishedFile(archive, file)));
}

/** Stages the file of a UTC day and part from sorted rows. No file without rows. */
export function stageTable(
  archive: Archive,
  stage: Stage,
  dataset: TableName,
  { day, part }: PartKey,
  rows: readonly CellValue[][],
): void {
  if (rows.length === 0) return;
  const { time } = datasets[dataset];
  const { columns }: DatasetDefinition = datasets[dataset];
  const valuesOf = (name: string): CellValue[] => {
    const index = columns.findIndex((column) => column.name === name);
    return rows.map((row) => row[index]!);
  };
  const symbols = valuesOf('symbol').filter((symbol) => symbol !== null) as string[];
  const range = findSymbolRange(symbols);
  const statistics: FileStatistics = {
    date: formatDay(day),
    rows: rows.length,
    t_min: (valuesOf(time.first) as number[]).reduce((a, b) => Math.min(a, b)),
    // If the end is excluded, the last moment is the millisecond before.
    t_max: (valuesOf(time.last) as number[]).reduce((a, b) => Math.max(a, b)) - (time.isLastIncluded ? 0 : 1),
    symbols: new Set(valuesOf('symbol')).size,
    symbol_from: range?.from ?? null,
    symbol_to: range?.to ?? null,
  };
  const bytes = encodeRows(columns, rows, archive.groupRows);
  const keyAt = createRowKeyReader(dataset, rows);
  stageFile(archive, stage, createEncodedFile(dataset, toDayPath(dataset, day, part), bytes, statistics, keyAt));
}

/** Coverage within one UTC day, by dataset, then by symbol. */
export type DayCoverage = Readonly<Record<CoveredDataset, Map<string, PublishedCoverage[]>>>;

/**
 * Reads the published coverage of a UTC day, of the symbols of a part; `day` is its midnight in epoch ms.
 * @throws DamageError if the file is damaged
 */
export const readPartCoverage = (archive: Archive, base: Manifest, bin: PartKey): DayCoverage =>
  parseCoverageRows(readTableRows(archive, base, 'coverage', bin));

/** Reads one file of coverage. @throws DamageError if it is damaged */
export const readCoverageFile = (archive: Archive, file: PublishedFile): DayCoverage =>
  parseCoverageRows(
    decodePublished(file.path, () => decodeRows(datasets.coverage.columns, readPublishedFile(archive, file))),
  );

export const pickPartCoverage = (coverage: DayCoverage, range: SymbolRange): DayCoverage =>
  Object.fromEntries(
    coveredDatasets.map((dataset) => [
      dataset,
      new Map([...coverage[dataset]].filter(([symbol]) => isInRange(range, symbol))),
    ]),
  ) as DayCoverage;

/**
 * Adds the windows of `others` to coverage, in place. Where the dataset and symbol have windows already, only those are added
 * that overlap none of them: the number of their ticks is of whole windows.
 */
export function addCoverage(coverage: DayCoverage, others: DayCoverage): void {
  for (const dataset of coveredDatasets) {
    for (const [symbol, windows] of others[dataset]) {
      const known = coverage[dataset].get(symbol) ?? [];
      const added = windows.filter((window) => !known.some((one) => overlaps(one, window)));
      coverage[dataset].set(
        symbol,
        [...known, ...added].sort((a, b) => a.from - b.from),
      );
    }
  }
}

export function parseCoverageRows(rows: readonly (readonly CellValue[])[]): DayCoverage {
  const out = Object.fromEntries(coveredDatasets.map((dataset) => [dataset, new Map()])) as DayCoverage;
  for (const row of rows) {
    const [dataset, symbol, from, to, ticks, fetchedAt, origin, evidence] = row as [
      CoveredDataset,
      string,
      number,
      number,
      number,
      number,
      Origin,
      Evidence,
    ];
    pushTo(out[dataset], symbol, { from, to, ticks, fetchedAt, origin, evidence });
  }
  return out;
}

/** Overlays the order-book coverage of a part of a day with the responses of its symbols on that day. */
export function applyBookCoverage({ orderbooks }: DayCoverage, responses: readonly BookResponse[]): void {
  for (const [symbol, ofSymbol] of Map.groupBy(responses, (response) => response.symbol))
    orderbooks.set(symbol, overlayBookCoverage(orderbooks.get(symbol) ?? [], ofSymbol));
}

/** Coverage rows sorted by key. */
export const toCoverageRows = (coverage: DayCoverage): CellValue[][] =>
  coveredDatasets.flatMap((dataset) =>
    [...coverage[dataset]]
      .sort(([a], [b]) => compareUtf8(a, b))
      .flatMap(([symbol, list]) =>
        list.map(
          (s) =>
            [dataset, symbol, s.from, s.to, s.ticks, s.fetchedAt, s.origin, s.evidence, null] satisfies CellValue[],
        ),
      ),
  );

/** Reads the published conflicts of a UTC day and part. @throws DamageError if the file is damaged */
export const readPartConflicts = (archive: Archive, base: Manifest, bin: PartKey): Conflict[] =>
  parseConflictRows(readTableRows(archive, base, 'conflicts', bin));

export const parseConflictRows = (rows: readonly (readonly CellValue[])[]): Conflict[] =>
  rows.map((row) => {
    const [symbol, t, kept, dropped, seenAt] = row as [string, number, number, number, number];
    return { symbol, t, kept, dropped, seenAt };
  });

export function parseSeriesConflictRows(
  dataset: SeriesDataset,
  rows: readonly (readonly CellValue[])[],
): SeriesConflict[] {
  const columns = listFactColumns(dataset);
  return rows.map((row) => {
    const [symbol, t, seenAt] = row as [string, number, number];
    const cells = columns.map(({ type }, c) => ({ isText: type === 'string', cell: row[4 + c] ?? null }));
    return {
      symbol,
      t,
      seenAt,
      dropped: cells.filter(({ isText }) => !isText).map(({ cell }) => (cell === null ? Number.NaN : Number(cell))),
      droppedTexts: cells.filter(({ isText }) => isText).map(({ cell }) => cell as string | null),
    };
  });
}

export const toConflictRows = (conflicts: readonly Conflict[]): CellValue[][] =>
  numberConflicts(
    conflicts,
    (a, b) => a.dropped - b.dropped,
    ({ symbol, t, kept, dropped, seenAt }, seq) => [symbol, t, kept, dropped, seenAt, seq],
  );

/**
 * Conflict rows sorted by key: those of one symbol, t and seen_at are numbered in the order of `compare`. Of equal ones the
 * last counts.
 */
export const numberConflicts = <C extends Pick<Conflict, 'symbol' | 't' | 'seenAt'>>(
  conflicts: readonly C[],
  compare: (a: C, b: C) => number,
  toRow: (conflict: C, seq: number) => CellValue[],
): CellValue[][] =>
  [...Map.groupBy(conflicts, ({ symbol, t, seenAt }) => JSON.stringify([symbol, t, seenAt])).values()]
    .sort(([a], [b]) => compareUtf8(a!.symbol, b!.symbol) || a!.t - b!.t || a!.seenAt - b!.seenAt)
    .flatMap((ofMoment) =>
      ofMoment
        .sort(compare)
        .filter((one, i) => i + 1 === ofMoment.length || compare(one, ofMoment[i + 1]!) !== 0)
        .map(toRow),
    );

/**
 * Reads the published market rows of a UTC day; they have no opening time.
 * @throws DamageError if the file is damaged
 */
export const readDayMarkets = (archive: Archive, base: Manifest, day: number): MarketRow[] =>
  parseMarketRows(readTableRows(archive, base, 'markets', { day, part: 0 }));

export const parseMarketRows = (rows: readonly (readonly CellValue[])[]): MarketRow[] =>
  rows.map((row) => ({
    ...(Object.fromEntries(marketFields.map((field, i) => [field, row[i] ?? null])) as unknown as MarketRow),
    opensAt: null,
  }));

const marketFields: readonly (keyof MarketRow)[] = [...marketColumns, ...detailColumns].map(([field]) => field);

/** Market rows sorted by canonical_id, symbol and first_seen. */
export const toMarketRows = (rows: readonly MarketRow[]): CellValue[][] =>
  [...rows]
    .sort(
      (a, b) =>
        compareUtf8(a.canonicalId, b.canonicalId) ||
        compareUtf8(a.symbol ?? '', b.symbol ?? '') ||
        a.firstSeen - b.firstSeen,
    )
    .map((market) => marketFields.map((field) => market[field]));

/** The market rows of a day, merged and not staged yet. */
interface MergedMarkets {
  readonly day: number;
  readonly rows: readonly CellValue[][];
  /** Whether they differ from the published rows in last_seen only, so that a quiet publish needs no file of them. */
  readonly isOnlySeenAgain: boolean;
}

/** Merges the market polls of the journal with the published rows. Skips days whose published file is damaged. */
export function mergeMarketPolls(
  archive: Archive,
  stage: Stage,
  end: number,
  refused: string[],
): { readonly recordIds: readonly number[]; readonly days: readonly MergedMarkets[] } {
  const polls = [...readMarketPolls(archive.state.db, end)];
  const recordIds: number[] = [];
  const days: MergedMarkets[] = [];
  for (const [day, dayPolls] of Map.groupBy(polls, (poll) => floorToDay(poll.observedAt))) {
    try {
      const published = readTableRows(archive, stage.base, 'markets', { day, part: 0 });
      const rows = toMarketRows(mergeMarkets(parseMarketRows(published), dayPolls));
      days.push({ day, rows, isOnlySeenAgain: isOnlySeenAgain(published, rows) });
      recordIds.push(...dayPolls.map((poll) => poll.recordId));
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
  }
  return { recordIds, days };
}

export function stageMarkets(archive: Archive, stage: Stage, days: readonly MergedMarkets[]): void {
  for (const { day, rows } of days) stageTable(archive, stage, 'markets', { day, part: 0 }, rows);
}

const lastSeenAt = datasets.markets.columns.findIndex(({ name }) => name === 'last_seen');

const isOnlySeenAgain = (before: readonly CellValue[][], after: readonly CellValue[][]): boolean =>
  before.length === after.length &&
  before.every((row, i) => row.every((value, column) => column === lastSeenAt || isSame(value, after[i]![column]!)));

const isSame = (a: CellValue, b: CellValue): boolean =>
  a === b || (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((value, i) => value === b[i]));
