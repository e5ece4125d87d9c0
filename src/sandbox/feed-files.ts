import { splitByDay, type Window } from '../base/window.ts';
import type { Feed } from './feed.ts';
import { readQuotes, readTrades } from './simulated-series.ts';

/** The datasets of the sandbox that can be written to files. */
export type FeedDataset = 'ticks' | 'quotes' | 'trades';

/** The columns of each file, with the names that `oddslake import` knows. Times are epoch ms. */
const columnNames: Readonly<Record<FeedDataset, readonly string[]>> = {
  ticks: ['symbol', 't', 'p'],
  quotes: ['symbol', 't', 'bid', 'ask', 'bid_size', 'ask_size'],
  trades: ['symbol', 't', 'trade_id', 'price', 'size', 'aggressor', 'block'],
};

type Cell = string | number | boolean | null;

/** A piece of a CSV file: whole lines, and the number of rows in them. */
export interface CsvPiece {
  readonly text: string;
  readonly rows: number;
}

/**
 * Formats the rows of all symbols in the window as a CSV file with a header: a symbol after the other, ascending by time.
 * Generates one symbol and UTC day at a time, so that memory is bounded. Simulated symbols need no quotes.
 */
export function* formatFeedCsv(
  dataset: FeedDataset,
  feed: Feed,
  seed: number,
  symbols: readonly string[],
  window: Window,
): Generator<CsvPiece> {
  yield { text: `${columnNames[dataset].join(',')}\n`, rows: 0 };
  for (const symbol of symbols) {
    for (const day of splitByDay(window)) {
      const rows = listRows[dataset](feed, seed, symbol, day);
      if (rows.length > 0)
        yield { text: rows.map((cells) => formatLine([symbol, ...cells])).join(''), rows: rows.length };
    }
  }
}

const formatLine = (cells: readonly Cell[]): string => `${cells.map((cell) => cell ?? '').join(',')}\n`;

/** The cells of each row after the symbol. */
const listRows: Readonly<
  Record<FeedDataset, (feed: Feed, seed: number, symbol: string, window: Window) => readonly (readonly Cell[])[]>
> = {
  ticks(feed, _seed, symbol, window) {
    const { t, p } = feed.ticks(symbol, window);
    return Array.from(t, (at, i) => [at, p[i]!]);
  },
  quotes: (feed, seed, symbol, window) =>
    readQuotes(feed, seed, symbol, window).map(({ t, bid, ask, bidSize, askSize }) => [t, bid, ask, bidSize, askSize]),
  trades: (feed, seed, symbol, window) =>
    readTrades(feed, seed, symbol, window).map((trade) => [
      trade.t,
      trade.tradeId,
      trade.price,
      trade.size,
      trade.aggressor,
      trade.isBlock,
    ]),
};
