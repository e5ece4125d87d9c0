import { compareUtf8 } from '../../base/symbol-name.ts';
import { formatDay } from '../../base/time.ts';
import type { Origin } from '../../contract/raw-page.ts';
import type { Evidence, PublishedCoverage } from '../format/coverage.ts';
import {
  type CoveredDataset,
  coveredDatasets,
  type DatasetDefinition,
  type DatasetsWith,
  datasets,
  listReadColumns,
} from '../format/datasets.ts';
import { toDayPath } from '../format/layout.ts';
import { findFileWithRows, type Manifest } from '../format/manifest.ts';
import type { MarketRow } from '../format/market.ts';
import { detailColumns, getOlderOutcomeSource } from '../format/market-details.ts';
import { overlayBookCoverage } from '../format/order-book.ts';
import type { Conflict } from '../format/tick-columns.ts';
import type { BookResponse } from '../journal/journal-books.ts';
import type { Archive } from '../open-archive.ts';
import { createRowKeyReader } from '../parquet/row-group-index.ts';
import { type CellValue, decodeRows, encodeRows } from '../parquet/rows.ts';
import { readPublishedFile } from '../read-published-file.ts';
import { createEncodedFile, type FileStatistics } from './encode-partition.ts';
import { type Stage, stageFile } from './staging.ts';

/** A dataset with one file per day. */
type DayTableName = DatasetsWith<'partition', 'day'>;

/** Reads the published rows of a UTC day. @throws DamageError if the file is damaged */
export function readDayRows(archive: Archive, base: Manifest, dataset: DayTableName, day: number): CellValue[][] {
  const file = findFileWithRows(base, dataset, toDayPath(dataset, day, 0));
  return file === undefined ? [] : decodeRows(listReadColumns(dataset), readPublishedFile(archive, file));
}

/** Stages the single file of a day in one of these datasets, from sorted rows. No file without rows. */
export function stageDayTable(
  archive: Archive,
  stage: Stage,
  dataset: DayTableName,
  day: number,
  rows: readonly CellValue[][],
): void {
  if (rows.length === 0) return;
  const { time } = datasets[dataset];
  const { columns }: DatasetDefinition = datasets[dataset];
  const valuesOf = (name: string): CellValue[] => {
    const index = columns.findIndex((column) => column.name === name);
    return rows.map((row) => row[index]!);
  };
  const statistics: FileStatistics = {
    date: formatDay(day),
    rows: rows.length,
    t_min: (valuesOf(time.first) as number[]).reduce((a, b) => Math.min(a, b)),
    // If the end is excluded, the last moment is the millisecond before.
    t_max: (valuesOf(time.last) as number[]).reduce((a, b) => Math.max(a, b)) - (time.isLastIncluded ? 0 : 1),
    symbols: new Set(valuesOf('symbol')).size,
  };
  const bytes = encodeRows(columns, rows, archive.groupRows);
  const keyAt = createRowKeyReader(dataset, rows);
  stageFile(archive, stage, createEncodedFile(dataset, toDayPath(dataset, day, 0), bytes, statistics, keyAt));
}

/** The coverage of one UTC day by dataset, then by symbol. One file holds all of them. */
export type DayCoverage = Readonly<Record<CoveredDataset, Map<string, PublishedCoverage[]>>>;

/**
 * Reads the published coverage of a UTC day; `day` is its midnight in epoch ms.
 * @throws DamageError if the file is damaged
 */
export const readDayCoverage = (archive: Archive, base: Manifest, day: number): DayCoverage =>
  parseCoverageRows(readDayRows(archive, base, 'coverage', day));

/** Groups coverage rows by dataset and symbol. */
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
    const list = out[dataset].get(symbol);
    const window = { from, to, ticks, fetchedAt, origin, evidence };
    if (list === undefined) out[dataset].set(symbol, [window]);
    else list.push(window);
  }
  return out;
}

/** Overlays the order-book coverage of a day with the responses of that day. */
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

/** Reads the published conflicts of a UTC day. @throws DamageError if the file is damaged */
export const readDayConflicts = (archive: Archive, base: Manifest, day: number): Conflict[] =>
  readDayRows(archive, base, 'conflicts', day).map((row) => {
    const [symbol, t, kept, dropped, seenAt] = row as [string, number, number, number, number];
    return { symbol, t, kept, dropped, seenAt };
  });

/** Conflict rows sorted by key, one row per key. */
export function toConflictRows(conflicts: readonly Conflict[]): CellValue[][] {
  const byKey = new Map(conflicts.map((c) => [JSON.stringify([c.symbol, c.t, c.seenAt, c.dropped]), c]));
  return numberConflicts(
    [...byKey.values()]
      .sort((a, b) => compareUtf8(a.symbol, b.symbol) || a.t - b.t || a.seenAt - b.seenAt || a.dropped - b.dropped)
      .map((c) => [c.symbol, c.t, c.kept, c.dropped, c.seenAt, 0]),
  );
}

/** Sets `seq` in rows of `conflicts`, sorted by symbol, t, seen_at and dropped. Returns the rows. */
export function numberConflicts(rows: CellValue[][]): CellValue[][] {
  const isSame = (a: readonly CellValue[], b: readonly CellValue[]): boolean =>
    [0, 1, 4].every((column) => a[column] === b[column]);
  for (let i = 1; i < rows.length; i++)
    rows[i]![5] = isSame(rows[i - 1]!, rows[i]!) ? (rows[i - 1]![5] as number) + 1 : 0;
  return rows;
}

/**
 * Reads the published market rows of a UTC day; they have no opening time.
 * @throws DamageError if the file is damaged
 */
export const readDayMarkets = (archive: Archive, base: Manifest, day: number): MarketRow[] =>
  readDayRows(archive, base, 'markets', day).map((row) => {
    const [
      canonicalId,
      symbol,
      source,
      views,
      category,
      confidence,
      isActive,
      question,
      closesAt,
      resolvedAt,
      outcome,
    ] = row;
    const [firstSeen, lastSeen, extra, ...details] = row.slice(11);
    const facts = {
      canonicalId,
      symbol,
      source,
      views,
      category,
      confidence,
      isActive,
      question,
      closesAt,
      resolvedAt,
    };
    const [outcomeSource = null] = details;
    return {
      ...facts,
      ...Object.fromEntries(detailColumns.map(([field], i) => [field, details[i]])),
      outcomeSource: outcomeSource ?? getOlderOutcomeSource(outcome),
      opensAt: null,
      outcome,
      firstSeen,
      lastSeen,
      extra,
    } as MarketRow;
  });

/** Market rows sorted by canonical_id, symbol and first_seen. */
export const toMarketRows = (rows: readonly MarketRow[]): CellValue[][] =>
  [...rows]
    .sort(
      (a, b) =>
        compareUtf8(a.canonicalId, b.canonicalId) ||
        compareUtf8(a.symbol ?? '', b.symbol ?? '') ||
        a.firstSeen - b.firstSeen,
    )
    .map((m) => [
      m.canonicalId,
      m.symbol,
      m.source,
      m.views,
      m.category,
      m.confidence,
      m.isActive,
      m.question,
      m.closesAt,
      m.resolvedAt,
      m.outcome,
      m.firstSeen,
      m.lastSeen,
      m.extra,
      ...detailColumns.map(([field]) => m[field]),
    ]);
