import type { Archive } from '../../src/archive/archive.ts';
import type { MarketFacts } from '../../src/archive/format/market.ts';
import { toBookSide } from '../../src/archive/format/order-book.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { appendBooks } from '../../src/archive/journal/journal-books.ts';
import { appendSeries } from '../../src/archive/journal/journal-series.ts';
import { startRun } from '../../src/archive/journal/runs.ts';
import { recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { fullDetails } from '../archive/format/facts.ts';
import { appendQuotes, type Quote, quote } from '../archive/quote-records.ts';
import { answer, append, day0, dayMs, hourMs, market, now, publishNow } from '../archive/scratch.ts';
import { type Trade, trade, tradeAnswer } from '../archive/trades.ts';
import { madeOnce } from './made-once.ts';

// An archive of three days with symbols that are difficult for SQL, paths and sorting.

export const symbols = ['AAA', 'BBB', "O'Neil; --", 'a b?', 'ﬀ', '🚀'];

/** Ticks of one symbol on one day, in some of the hours. */
export const ticksOf = (symbol: string, day: number): [t: number, p: number][] =>
  Array.from({ length: 3 + symbols.indexOf(symbol) * 2 }, (_, i) => [
    day0 + day * dayMs + i * 47 * 60_000 + symbols.indexOf(symbol),
    (i + day + 1) / 100,
  ]);

export const answerOf = (symbol: string, day: number) =>
  answer(symbol, ticksOf(symbol, day), {
    // The afternoon of the second day was never requested.
    windows: [{ from: day0 + day * dayMs, to: day0 + day * dayMs + (day === 1 ? 12 : 24) * hourMs }],
  });

/** Records a poll of the market list and its symbols. */
export function poll(archive: Archive, atMs: number, markets: readonly MarketFacts[]): void {
  if (archive.state.db.one("select 1 from runs where run_id = 'run'") === undefined)
    startRun(archive.state.db, 'run', 'test', process.pid, now);
  appendMarkets(archive.state, { runId: 'run', observedAt: atMs, markets: [...markets] }, []);
  recordMarkets(archive.state.db, markets, atMs, true);
}

/** The markets on a day: BBB is resolved on the last, 🚀 changes its category on the second. */
export const marketsOn = (day: number): MarketFacts[] =>
  symbols.map((symbol, i) =>
    market(symbol, {
      canonicalId: `id-${i % 3}`,
      question: `Will ${symbol} rise above 100%?`,
      confidence: 0.9,
      ...fullDetails,
      outcomeSource: null,
      source: i % 2 === 0 ? 'kalshi' : 'polymarket',
      category: symbol === '🚀' && day > 0 ? 'space' : 'crypto',
      ...(symbol === 'BBB' && day === 2
        ? { isActive: false, resolvedAt: day0 + 2 * dayMs, outcome: 1, outcomeSource: 'reported' as const }
        : {}),
    }),
  );

export const snapshots = (day: number, count: number) =>
  Array.from({ length: count }, (_, i) => ({
    t: day0 + day * dayMs + i * 60_000,
    bids: toBookSide(
      i === 1
        ? []
        : [
            { price: 0.4, quantity: i + 1 },
            { price: 0.39, quantity: 5 },
          ],
      'highest',
    ),
    asks: toBookSide(i === 1 ? [] : [{ price: 0.5, quantity: 2 }], 'lowest'),
  }));

/** Symbols with quotes and trades. */
export const quoted = ['AAA', "O'Neil; --", '🚀'];

/** Quotes of one symbol on one day: with both sides and their sizes, and with one side of unknown size. */
export const quotesOf = (symbol: string, day: number): Quote[] => {
  const t = day0 + day * dayMs + quoted.indexOf(symbol);
  return [
    quote(symbol, t, 0.4 + day / 100, 0.5, 7.5),
    quote(symbol, t + 60_000, 0.25, null),
    quote(symbol, t + 5 * hourMs, null, 0.75),
  ];
};

/** Trades of one symbol on one day, in the order of the dataset: three of one millisecond, and one of which all facts are known. */
const tradesOf = (symbol: string, day: number): Trade[] => {
  const t = day0 + day * dayMs + quoted.indexOf(symbol);
  return [
    trade(t, `${day}9`, 0.4, 7.5),
    trade(t, `${day}10`, 0.25, 1 / 3, { aggressor: 'buy', block: false }),
    trade(t, `${day}é`, 0.5, 2, { aggressor: 'sell' }),
    trade(t + 5 * hourMs, `${day}`, 0.75, 3, {
      aggressor: 'buy',
      block: true,
      hash: '0xab',
      priceText: '0.75000000000000000001',
      sizeText: '3.00000000000000000001',
    }),
  ];
};

export const lake = madeOnce(async (archive) => {
  for (let day = 0; day < 3; day++) {
    poll(archive, day0 + day * dayMs + hourMs, marketsOn(day));
    append(archive, ...symbols.map((symbol) => answerOf(symbol, day)));
    appendBooks(
      archive.state,
      ['BBB', 'AAA'].map((symbol) => ({
        runId: 'run',
        symbol,
        observedAt: now,
        snapshots: snapshots(day, 3),
        rejected: [],
        understood: true,
      })),
    );
    appendQuotes(
      archive,
      quoted.flatMap((symbol) => quotesOf(symbol, day)),
    );
    const windows = [{ from: day0 + day * dayMs, to: day0 + (day + 1) * dayMs }];
    appendSeries(
      archive.state,
      quoted.map((symbol) => tradeAnswer(symbol, tradesOf(symbol, day), { windows })),
    );
  }
  await publishNow(archive);
});

/** All pages of a list. */
export async function pagesOf<T>(
  json: (path: string) => Promise<{ status: number; body: unknown }>,
  path: string,
  name: string,
  between: (page: number) => Promise<void> = async () => {},
): Promise<T[][]> {
  const pages: T[][] = [];
  let cursor: string | null = null;
  do {
    const more: string = cursor === null ? '' : `${path.includes('?') ? '&' : '?'}cursor=${cursor}`;
    const { status, body } = await json(`${path}${more}`);
    if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`);
    const answered = body as { next_cursor: string | null; count: number } & Record<string, T[]>;
    if (answered.count !== answered[name]!.length) throw new Error(`count ${answered.count}`);
    pages.push(answered[name]!);
    cursor = answered.next_cursor;
    await between(pages.length);
    if (pages.length > 1000) throw new Error(`${path} never ends`);
  } while (cursor !== null);
  return pages;
}
