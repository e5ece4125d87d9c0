import type { Archive } from '../../src/archive/archive.ts';
import { encodeTexts, readText } from '../../src/archive/format/text-columns.ts';
import type { SeriesRecord } from '../../src/archive/journal/journal-series.ts';
import { readSeriesCounts, type SeriesCounts } from '../../src/archive/journal/series-counts.ts';
import { decodedRows, seriesAnswer } from './quotes.ts';
import { publishedRows } from './scratch.ts';

// Trades in the tests of the archive.

export interface Trade {
  readonly t: number;
  readonly id: string;
  readonly price: number;
  readonly size: number;
  readonly aggressor: string | null;
  readonly block: boolean | null;
  readonly hash: string | null;
  readonly priceText: string | null;
  readonly sizeText: string | null;
}

export const trade = (t: number, id: string, price = 0.5, size = 1, rest: Partial<Trade> = {}): Trade => ({
  t,
  id,
  price,
  size,
  aggressor: null,
  block: null,
  hash: null,
  priceText: null,
  sizeText: null,
  ...rest,
});

/** An import of trades that covers `windows`, by default nothing. */
export function tradeAnswer(
  symbol: string,
  trades: readonly Trade[],
  rest?: Parameters<typeof seriesAnswer>[3],
): SeriesRecord {
  const rows = {
    t: Float64Array.from(trades, ({ t }) => t),
    values: [
      Float64Array.from(trades, ({ price }) => price),
      Float64Array.from(trades, ({ size }) => size),
      Float64Array.from(trades, ({ block }) => (block === null ? Number.NaN : Number(block))),
    ],
    texts: [
      trades.map(({ id }) => id),
      trades.map(({ aggressor }) => aggressor),
      trades.map(({ hash }) => hash),
      trades.map(({ priceText }) => priceText),
      trades.map(({ sizeText }) => sizeText),
    ].map(encodeTexts),
  };
  return seriesAnswer('trades', symbol, rows, rest);
}

/** Every published trade as a row of the dataset, in the order of the files. */
export const publishedTrades = (root: string) => publishedRows(root, 'trades');

/** The same as `decodeSeries` reads them: `[symbol, t, trade_id]`. */
export const decodedTrades = (root: string) =>
  decodedRows(root, 'trades', ({ texts }, row) => [readText(texts[0]!, row)]);

/** Published rows of `trade_conflicts`. */
export const tradeConflicts = (root: string) => publishedRows(root, 'trade_conflicts');

/** Published coverage rows of trades. */
export const tradeCoverage = (root: string) => publishedRows(root, 'coverage').filter((row) => row[0] === 'trades');

export const countTrades = (archive: Archive, runId = 'run'): SeriesCounts =>
  readSeriesCounts(archive.state.db, runId, 'trades');
