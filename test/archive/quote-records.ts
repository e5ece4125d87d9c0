import type { Archive } from '../../src/archive/archive.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import type { SeriesRecord } from '../../src/archive/journal/journal-series.ts';
import { appendQuotes as appendRecords, quoteAnswer } from './quotes.ts';
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
  const records = [...Map.groupBy(quotes, ({ symbol }) => symbol)].map(([symbol, ofSymbol]) => {
    const rows = ofSymbol.map(
      ({ t, bid, ask, bid_size: bidSize, ask_size: askSize }) =>
        [t, bid ?? Number.NaN, ask ?? Number.NaN, bidSize ?? Number.NaN, askSize ?? Number.NaN] as const,
    );
    const times = ofSymbol.map(({ t }) => t);
    const window = { from: Math.min(...times), to: Math.max(...times) + 1 };
    const covered = [{ ...window, fetchedAt: now, evidence: 'confirmed' as const }];
    return quoteAnswer(symbol, rows, { origin: 'poll', rank: precedenceRanks.poll, covered, ...rest });
  });
  appendRecords(archive, ...records);
}
