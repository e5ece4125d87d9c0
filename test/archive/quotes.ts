import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Archive } from '../../src/archive/archive.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import type { SeriesColumns } from '../../src/archive/format/series.ts';
import type { SeriesDataset } from '../../src/archive/format/series-datasets.ts';
import { sortSeriesByTime } from '../../src/archive/format/series-rows.ts';
import { appendSeries, type SeriesRecord } from '../../src/archive/journal/journal-series.ts';
import { readSeriesCounts, type SeriesCounts } from '../../src/archive/journal/series-counts.ts';
import { decodeSeries } from '../../src/archive/parquet/series-file.ts';
import type { Window } from '../../src/base/window.ts';
import { now, publishedRows, startRuns } from './scratch.ts';

// Quotes in the tests of the archive. A missing number is NaN in memory and null in files.

export type Quote = readonly [t: number, bid: number, ask: number, bidSize: number, askSize: number];

/** A quote without sizes. */
export const quote = (t: number, bid: number, ask = Number.NaN): Quote => [t, bid, ask, Number.NaN, Number.NaN];

type Rest = Partial<SeriesRecord> & { readonly windows?: readonly Window[] };

/** An import of rows of a series that covers `windows`, by default nothing. */
export function seriesAnswer(
  dataset: SeriesDataset,
  symbol: string,
  rows: SeriesRecord['rows'],
  { windows = [], ...rest }: Rest = {},
): SeriesRecord {
  const observedAt = rest.observedAt ?? now;
  return {
    runId: 'run',
    dataset,
    symbol,
    observedAt,
    origin: 'import',
    rank: precedenceRanks.import,
    rows: sortSeriesByTime(rows),
    rejected: [],
    covered: windows.map((window) => ({ ...window, fetchedAt: observedAt, evidence: 'declared' })),
    ...rest,
  };
}

export function quoteAnswer(symbol: string, quotes: readonly Quote[], rest?: Rest): SeriesRecord {
  const column = (index: number): Float64Array => Float64Array.from(quotes, (row) => row[index]!);
  return seriesAnswer('quotes', symbol, { t: column(0), values: [1, 2, 3, 4].map(column), texts: [] }, rest);
}

/** Makes rows of series durable, in one transaction, for runs that are then known. */
export function appendQuotes(archive: Archive, ...records: SeriesRecord[]): void {
  startRuns(archive, records);
  appendSeries(archive.state, records);
}

type Cell = string | number | null;

/** Every published row of a series as `decodeSeries` reads it: symbol, t and some cells, in the order of the files. */
export const decodedRows = (
  root: string,
  dataset: SeriesDataset,
  readCells: (columns: SeriesColumns, row: number) => Cell[],
): Cell[][] =>
  globSync(`${dataset}/date=*/*.parquet`, { cwd: root })
    .sort()
    .flatMap((path) => {
      const columns = decodeSeries(dataset, readFileSync(join(root, path)));
      const { symbols, offsets, t } = columns;
      return symbols.flatMap((symbol, s) =>
        Array.from({ length: offsets[s + 1]! - offsets[s]! }, (_, i) => {
          const row = offsets[s]! + i;
          return [symbol, t[row]!, ...readCells(columns, row)];
        }),
      );
    });

/** Every published quote as `[symbol, t, bid, ask, bid_size, ask_size]`. */
export const publishedQuotes = (root: string): Cell[][] =>
  decodedRows(root, 'quotes', ({ values }, row) =>
    values.map((column) => (Number.isNaN(column[row]!) ? null : column[row]!)),
  );

/** Published rows of `quote_conflicts`. */
export const quoteConflicts = (root: string) => publishedRows(root, 'quote_conflicts');

/** Published coverage rows of quotes. */
export const quoteCoverage = (root: string) => publishedRows(root, 'coverage').filter((row) => row[0] === 'quotes');

export const countQuotes = (archive: Archive, runId = 'run'): SeriesCounts =>
  readSeriesCounts(archive.state.db, runId, 'quotes');

/**
 * Runs whose counts do not add up, and rows that no run or several runs counted as accepted or recovered.
 * @param before rows of runs that the state has lost
 */
export function findSeriesCountErrors(archive: Archive, dataset: SeriesDataset, before = 0): string[] {
  const { db } = archive.state;
  const runs = db.all<{ run_id: string }>('select run_id from series_counts where dataset = ?', dataset);
  const counts = runs.map(({ run_id: runId }) => ({ runId, ...readSeriesCounts(db, runId, dataset) }));
  const waiting =
    db.one<{ n: number | null }>('select sum(n) as n from journal_series where dataset = ?', dataset)!.n ?? 0;
  const total = publishedRows(archive.layout.root, dataset).length + waiting;
  const sum = counts.reduce((all, { accepted, recovered }) => all + accepted + recovered, before);
  return [
    ...counts
      .filter((run) => run.fetched !== run.accepted + run.duplicates + run.conflicts + run.quarantined)
      .map((run) => `does not add up: ${JSON.stringify(run)}`),
    ...counts
      .filter((run) => Object.values(run).some((n) => (n as number) < 0))
      .map((run) => `negative: ${JSON.stringify(run)}`),
    ...(sum === total ? [] : [`${sum} ${dataset} were accepted, ${total} are published or journaled`]),
  ];
}

export const findQuoteCountErrors = (archive: Archive, before = 0): string[] =>
  findSeriesCountErrors(archive, 'quotes', before);
