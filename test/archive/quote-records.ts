import type { Archive } from '../../src/archive/archive.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import { sortSeriesByTime } from '../../src/archive/format/series-rows.ts';
import { appendSeries, type SeriesRecord } from '../../src/archive/journal/journal-series.ts';
import { startRun } from '../../src/archive/journal/runs.ts';
import { now } from './scratch.ts';

/** A quote; null where a side has no offer, or where no size is known. */
export interface Quote {
  readonly symbol: string;
  /** Epoch milliseconds. */
  readonly t: number;
  readonly bid: number | null;
  readonly ask: number | null;
  readonly bid_size: number | null;
  readonly ask_size: number | null;
}

export const quote = (symbol: string, t: number, bid: number | null, ask: number | null, sizes?: number): Quote => ({
  symbol,
  t,
  bid,
  ask,
  bid_size: bid === null ? null : (sizes ?? null),
  ask_size: ask === null ? null : (sizes ?? null),
});

/** Journals quotes of any symbols as one polled response for each of them, which covers its quotes. */
export function appendQuotes(archive: Archive, quotes: readonly Quote[], rest: Partial<SeriesRecord> = {}): void {
  if (archive.state.db.one("select 1 from runs where run_id = 'run'") === undefined)
    startRun(archive.state.db, 'run', 'test', process.pid, now);
  const toColumn = (rows: readonly Quote[], name: 'bid' | 'ask' | 'bid_size' | 'ask_size'): Float64Array =>
    Float64Array.from(rows, (row) => row[name] ?? Number.NaN);
  const records = [...Map.groupBy(quotes, ({ symbol }) => symbol)].map(([symbol, ofSymbol]): SeriesRecord => {
    const rows = sortSeriesByTime({
      t: Float64Array.from(ofSymbol, ({ t }) => t),
      values: (['bid', 'ask', 'bid_size', 'ask_size'] as const).map((name) => toColumn(ofSymbol, name)),
      texts: [],
    });
    return {
      runId: 'run',
      dataset: 'quotes',
      symbol,
      observedAt: now,
      origin: 'poll',
      rank: precedenceRanks.poll,
      rows,
      rejected: [],
      covered: [{ from: rows.t[0]!, to: rows.t.at(-1)! + 1, fetchedAt: now, evidence: 'confirmed' }],
      ...rest,
    };
  });
  appendSeries(archive.state, records);
}
