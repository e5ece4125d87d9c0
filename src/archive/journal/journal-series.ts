import type { RejectedInput } from '../../base/ticks.ts';
import { floorToDay, splitByDay } from '../../base/window.ts';
import type { Origin } from '../../contract/raw-page.ts';
import type { CoveredWindow } from '../format/coverage.ts';
import type { DayPart } from '../format/day-parts.ts';
import { packTexts, unpackTexts } from '../format/packed-texts.ts';
import { type SeriesChunk, type SeriesRows, splitSeriesByDay } from '../format/series.ts';
import { listTextColumns, listValueColumns, type SeriesDataset } from '../format/series-datasets.ts';
import type { Database } from './database.ts';
import { appendHeader, deleteParts, ticksPerCoveredDay } from './journal.ts';
import { assertRowCount, type JournalIndex } from './journal-check.ts';
import { appendRejected } from './journal-rejected.ts';
import {
  insertJournalRow,
  type JournalRow,
  readJournalRows,
  toBytes,
  toCoveredWindow,
  toDoubles,
} from './journal-rows.ts';
import { addSeriesCounts } from './series-counts.ts';
import type { State } from './state.ts';
import { ensureSymbol } from './symbol-store.ts';

/** One validated response or file with rows of a series, written in one transaction. */
export interface SeriesRecord {
  readonly runId: string;
  readonly dataset: SeriesDataset;
  readonly symbol: string;
  /** When the response was generated or, for a file, when it was written; epoch ms. */
  readonly observedAt: number;
  readonly origin: Origin;
  readonly rank: number;
  /** Sorted by time. */
  readonly rows: SeriesRows;
  readonly rejected: readonly RejectedInput[];
  readonly covered: readonly Omit<CoveredWindow, 'origin'>[];
}

/** Appends rows of series; durable when it returns. */
export function appendSeries(state: State, records: readonly SeriesRecord[]): void {
  state.db.transaction(() => {
    for (const record of records) appendSeriesRecord(state, record);
  });
}

function appendSeriesRecord({ db }: State, record: SeriesRecord): void {
  const { runId, dataset, symbol, observedAt, origin, rank, rows, rejected } = record;
  // No publish would ever consume an empty record.
  if (rows.t.length + rejected.length + record.covered.length === 0) return;
  const days = [...splitSeriesByDay(rows)];
  const covered = record.covered.flatMap(({ from, to, fetchedAt, evidence }) =>
    splitByDay({ from, to }).map((piece) => ({ ...piece, fetchedAt, evidence })),
  );
  const head = { run_id: runId, kind: dataset, symbol, requested_from: null, requested_to: null };
  const { id, header } = appendHeader(
    db,
    { ...head, observed_at: observedAt, origin, rank },
    days.length + covered.length,
  );
  for (const { day, ...piece } of days) {
    const { t } = piece;
    const row = [id, dataset, symbol, day, t.length, toBytes(t), packColumns(piece)];
    insertJournalRow(db, 'journal_series', header, row);
  }
  for (const { from, to, fetchedAt, evidence } of covered) {
    const row = [id, dataset, symbol, floorToDay(from), from, to, fetchedAt, origin, evidence];
    insertJournalRow(db, 'journal_series_coverage', header, row);
  }
  if (days.length + covered.length > 0) ensureSymbol(db, symbol, observedAt);
  const items = rejected.map((item) => ({ symbol, at: observedAt, ...item }));
  appendRejected(db, { id, runId, header }, items);
  addSeriesCounts(db, runId, dataset, {
    fetched: rows.t.length + rejected.length,
    quarantined: rejected.length,
  });
}

/** Packs the columns of numbers one after another, followed by the texts and finer times. */
function packColumns({ t, values, ...rest }: SeriesRows): Uint8Array {
  const joined = new Float64Array(t.length * values.length);
  values.forEach((column, c) => {
    joined.set(column, c * t.length);
  });
  return Buffer.concat([toBytes(joined), packTexts(rest)]);
}

function unpackColumns(dataset: SeriesDataset, packed: Uint8Array, rows: number): Omit<SeriesRows, 't'> {
  const names = listValueColumns(dataset);
  const numberBytes = names.length * rows * Float64Array.BYTES_PER_ELEMENT;
  const joined = toDoubles(packed.subarray(0, numberBytes));
  return {
    values: names.map((_, c) => joined.subarray(c * rows, (c + 1) * rows)),
    ...unpackTexts(packed.subarray(numberBytes), rows),
  };
}

/**
 * A row of a series costs as many ticks as have its size: a tick is a time and one number. A text counts as two numbers.
 */
const ticksPerRow = (dataset: SeriesDataset): number =>
  (1 + listValueColumns(dataset).length + 2 * listTextColumns(dataset).length) / 2;

/** Computes the cost of publishing the journaled series without rejected input, expressed as a number of ticks. */
export function readSeriesLoad(db: Database): number {
  const rows = db.all<{ dataset: SeriesDataset; n: number } & Record<string, never>>(
    'select dataset, sum(n) as n from journal_series group by dataset',
  );
  const windows = db.one<{ n: number }>('select count(*) as n from journal_series_coverage')!.n;
  return rows.reduce((sum, { dataset, n }) => sum + n * ticksPerRow(dataset), ticksPerCoveredDay * windows);
}

/** The journaled rows and coverage of one part, by dataset. */
interface JournaledSeries {
  readonly dataset: SeriesDataset;
  readonly chunks: readonly SeriesChunk[];
  readonly covered: ReadonlyMap<string, readonly CoveredWindow[]>;
}

/**
 * Reads the rows and the coverage of one part by dataset, those of each symbol in the order of acceptance.
 * @throws JournalDamageError
 */
export function readPartSeries(db: Database, part: DayPart, index: JournalIndex): JournaledSeries[] {
  const { day } = part;
  const rows = [...readJournalRows(db, 'journal_series', { day }, index.end, part)];
  assertRowCount(index, 'journal_series', part, rows.length);
  const windows = [...readJournalRows(db, 'journal_series_coverage', { day }, index.end, part)];
  assertRowCount(index, 'journal_series_coverage', part, windows.length);
  const names = new Set([...rows, ...windows].map(({ dataset }) => dataset));
  return [...names].sort().map((name) => {
    const bySymbol = Map.groupBy(
      windows.filter(({ dataset }) => dataset === name),
      ({ symbol }) => symbol,
    );
    return {
      dataset: name,
      chunks: rows.filter(({ dataset }) => dataset === name).map(toSeriesChunk),
      covered: new Map([...bySymbol].map(([symbol, list]) => [symbol, list.map(toCoveredWindow)])),
    };
  });
}

function toSeriesChunk(row: JournalRow<'journal_series'>): SeriesChunk {
  const { symbol, head_run_id: runId, head_observed_at: observedAt, head_rank: rank } = row;
  return { symbol, t: toDoubles(row.t), ...unpackColumns(row.dataset, row.v, row.n), runId, observedAt, rank };
}

/** Deletes published rows, inside the publish's transaction, before the journal's records are deleted. */
export const consumeSeries = (db: Database, parts: readonly DayPart[], end: number): void =>
  deleteParts(db, ['journal_series', 'journal_series_coverage'], parts, end);
