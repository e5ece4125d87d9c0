import type { Archive } from '../../../src/archive/archive.ts';
import { type OrderBookSnapshot, toBookSide } from '../../../src/archive/format/order-book.ts';
import { precedenceRanks } from '../../../src/archive/format/precedence.ts';
import { appendBooks } from '../../../src/archive/journal/journal-books.ts';
import { appendSeries } from '../../../src/archive/journal/journal-series.ts';
import type { MarketState, OrderBook, SymbolSeries } from '../../../src/backtest/engine/symbol-series.ts';
import type { ResolvedStrategy } from '../../../src/backtest/resolve-strategy.ts';
import { type BacktestRunContext, runBacktest } from '../../../src/backtest/run/run-backtest.ts';
import { type BacktestSpec, parseBacktestSpec } from '../../../src/contract/backtest-request.ts';
import type { BacktestResult } from '../../../src/contract/backtests.ts';
import type { Strategy } from '../../../src/contract/strategy-language.ts';
import { answer, append, day0, dayMs, hourMs, market, opened, publishNow } from '../../archive/scratch.ts';
import { poll } from '../../server/historical-archive.ts';
import { madeOnce } from '../../server/made-once.ts';

// An archive for backtests, of three days in four parts; and the same data as the engine should see it.

export { day0, dayMs, hourMs };

const minute = 60_000;

/** Of the first twelve symbols, six per venue, pairs share a market at any time, but not always the same pairs. */
export const symbols = Array.from(
  { length: 20 },
  (_, i) => `${i % 2 === 0 ? 'K' : 'p'}-${i}${i === 3 ? " o'x 😀" : ''}`,
);
const days = 3;

interface Making {
  /** From this time, data depends on `future`. */
  readonly moment: number;
  readonly future: number;
}
const asItIs: Making = { moment: Number.POSITIVE_INFINITY, future: 0 };

/** A deterministic number in [0, 1). */
function draw(...keys: readonly number[]): number {
  let h = 0x9e3779b9;
  for (const key of keys) {
    h = Math.imul(h ^ key, 0x85ebca6b);
    h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
    h ^= h >>> 16;
  }
  return (h >>> 0) / 2 ** 32;
}

interface Drawn {
  readonly t: number[];
  readonly p: number[];
}

/** A walk that rests, moves and jumps. Gaps differ by symbol; one symbol is silent for more than a day. */
function ticksOf(i: number, { moment, future }: Making): Drawn {
  const drawn: Drawn = { t: [], p: [] };
  let [time, price] = [day0 + i * 97 + 1, 0.1 + 0.8 * draw(i, 1)];
  for (let k = 0; time < day0 + days * dayMs; k++) {
    const world = time < moment ? 0 : future;
    const kind = draw(i, k, 2, world);
    if (kind > 0.97) price = draw(i, k, 3, world);
    else if (kind > 0.4) price += 0.02 * (draw(i, k, 4, world) - 0.5);
    price = Math.round(Math.min(1, Math.max(0, price)) * 1e4) / 1e4;
    drawn.t.push(time);
    drawn.p.push(price);
    time += 2 * minute + Math.floor(draw(i, k, 5, world) * 9 * minute);
    if (i === 14 && k === 100) time += 45 * hourMs;
  }
  return drawn;
}

/** Market ID of a symbol in a poll at a time. */
function idAt(i: number, at: number, { moment, future }: Making): string {
  if (i >= 12) return `alone ${i}`;
  const world = at < moment ? 0 : future;
  const shift = i % 2 === 0 ? 0 : Math.floor(3 * draw(Math.floor((at - day0) / (20 * hourMs)), 12, world));
  return `market ${((i >> 1) + shift) % 6}`;
}

/** Market record of a symbol in a poll at a time. Every third resolves on the last day, and is listed so six hours later. */
function factsAt(i: number, at: number, making: Making) {
  const { moment, future } = making;
  const world = at < moment ? 0 : future;
  const resolvedAt = day0 + 2 * dayMs + 5 * hourMs + i * minute;
  const settled = i % 3 === 0 && at >= resolvedAt + 6 * hourMs;
  return {
    canonicalId: idAt(i, at, making),
    source: i % 2 === 0 ? 'kalshi' : 'polymarket',
    question: null,
    category: draw(i, Math.floor((at - day0) / (30 * hourMs)), 6, world) < 0.5 ? 'sports' : 'law',
    confidence: Math.round(draw(i, at - day0, 7, world) * 100) / 100,
    closesAt: resolvedAt + (draw(i, Math.floor(at / dayMs), 8, world) < 0.5 ? 0 : hourMs),
    ...(settled ? { isActive: false, resolvedAt, outcome: draw(i, 9, world) < 0.5 ? 0 : 1 } : {}),
  };
}

const polls = Array.from({ length: days * 4 }, (_, n) => day0 + hourMs + n * 6 * hourMs);

/** Occasional books of every fifth symbol, some thin or empty; one shortly before the end of a day. */
function booksOf(i: number, { moment, future }: Making): OrderBook[] {
  if (i % 5 !== 0) return [];
  return Array.from({ length: 120 }, (_, k): OrderBook => {
    const t = day0 + k * 35 * minute + (i + 1) * 1000;
    const world = t < moment ? 0 : future;
    const middle = 0.1 + 0.8 * draw(i, k, 10, world);
    const thin = draw(i, k, 11, world);
    const level = (price: number, quantity: number) => [Math.round(price * 1e3) / 1e3, quantity] as const;
    return {
      t,
      bids: thin > 0.9 ? [] : [level(middle - 0.01, 1), level(middle - 0.02, thin < 0.5 ? 1 : 30)],
      asks: thin > 0.9 ? [] : [level(middle + 0.01, 2), level(middle + 0.03, thin < 0.5 ? 1 : 30)],
    };
  });
}

/** Quotes of every third symbol, some without a side or a size, with gaps of hours; one is followed by a day of silence. */
function quotesOf(i: number, { moment, future }: Making): OrderBook[] {
  if (i % 3 !== 0) return [];
  let t = day0 + (i + 1) * 1500;
  return Array.from({ length: 60 }, (_, k): OrderBook => {
    t += k === 30 ? 26 * hourMs : Math.floor(draw(i, k, 13) ** 3 * 3 * hourMs) + 1;
    // Some have the time of an order book.
    if (i % 5 === 0 && k % 9 === 0) t = Math.max(t, booksOf(i, asItIs).find((book) => book.t > t)?.t ?? t);
    const world = t < moment ? 0 : future;
    const middle = 0.1 + 0.8 * draw(i, k, 14, world);
    const kind = draw(i, k, 15, world);
    const size = kind < 0.4 ? Number.POSITIVE_INFINITY : kind < 0.7 ? 1 : 30;
    const level = (price: number) => [Math.round(price * 1e3) / 1e3, size] as const;
    return {
      t,
      bids: kind > 0.92 ? [] : [level(middle - 0.01)],
      asks: kind > 0.86 && kind < 0.96 ? [] : [level(middle + 0.01)],
    };
  });
}

/** Makes the order books of a symbol durable. */
export function appendOrderBooks(
  archive: Archive,
  symbol: string,
  books: readonly OrderBook[],
  observedAt: number,
): void {
  const side = (levels: OrderBook['bids']) => levels.map(([price, quantity]) => ({ price, quantity }));
  const snapshots: OrderBookSnapshot[] = books.map(({ t, bids, asks }) => ({
    t,
    bids: toBookSide(side(bids), 'highest'),
    asks: toBookSide(side(asks), 'lowest'),
  }));
  if (snapshots.length > 0)
    appendBooks(archive.state, [{ runId: 'run', symbol, observedAt, snapshots, rejected: [], understood: true }]);
}

/** Quotes as rows of the dataset: a missing value is NaN. */
function toSeriesRows(quotes: readonly OrderBook[]) {
  const column = (of: (quote: OrderBook) => number | undefined) =>
    Float64Array.from(quotes, (quote) => {
      const value = of(quote) ?? Number.NaN;
      return Number.isFinite(value) ? value : Number.NaN;
    });
  return {
    t: Float64Array.from(quotes, ({ t }) => t),
    values: [
      column(({ bids }) => bids[0]?.[0]),
      column(({ asks }) => asks[0]?.[0]),
      column(({ bids }) => bids[0]?.[1]),
      column(({ asks }) => asks[0]?.[1]),
    ],
    texts: [],
  };
}

/** Makes the quotes of a symbol durable. */
export function appendQuotes(archive: Archive, symbol: string, quotes: readonly OrderBook[], observedAt: number): void {
  appendSeries(archive.state, [
    {
      runId: 'run',
      dataset: 'quotes',
      symbol,
      observedAt,
      origin: 'poll',
      rank: precedenceRanks.poll,
      rows: toSeriesRows(quotes),
      rejected: [],
      covered: [],
    },
  ]);
}

/** Hours without coverage. */
const gapOf = (i: number) => ({ from: day0 + dayMs + i * hourMs, to: day0 + dayMs + i * hourMs + 90 * minute });

const groupRows = 500;

/** The archive; every test gets a copy. */
const asMade = madeOnce((archive) => fill(archive, asItIs), { groupRows });

export async function createArchive(making?: Making, rest: Parameters<typeof opened>[0] = {}): Promise<Archive> {
  if (making === undefined && Object.keys(rest).length === 0) return await asMade();
  const archive = opened({ groupRows, ...rest });
  await fill(archive, making ?? asItIs);
  return archive;
}

async function fill(archive: Archive, making: Making): Promise<void> {
  for (const at of polls)
    poll(
      archive,
      at,
      symbols.map((symbol, i) => market(symbol, factsAt(i, at, making))),
    );
  for (const [i, symbol] of symbols.entries()) {
    const { t, p } = ticksOf(i, making);
    const gap = gapOf(i);
    const pairs = t.flatMap((time, k) => (time < gap.from || time >= gap.to ? [[time, p[k]!] as const] : []));
    const windows = [
      { from: day0, to: gap.from },
      { from: gap.to, to: day0 + days * dayMs },
    ];
    append(archive, answer(symbol, pairs, { windows }));
    appendOrderBooks(archive, symbol, booksOf(i, making), day0 + days * dayMs);
    appendQuotes(archive, symbol, quotesOf(i, making), day0 + days * dayMs);
  }
  await publishNow(archive);
}

/** Matching symbols on the other venue, with the windows in which the match was known. */
function venuesOf(i: number, making: Making) {
  return symbols.flatMap((_, other) => {
    if (other % 2 === i % 2) return [];
    const together: { from: number; to: number }[] = [];
    for (const [n, from] of polls.entries()) {
      if (idAt(i, from, making) !== idAt(other, from, making)) continue;
      const to = polls[n + 1] ?? Number.POSITIVE_INFINITY;
      if (together.at(-1)?.to === from) together.at(-1)!.to = to;
      else together.push({ from, to });
    }
    return together.length === 0 ? [] : [{ other, together }];
  });
}

/** All series as the engine should see them. */
export function seriesOf(making: Making = asItIs): SymbolSeries[] {
  const ticks = symbols.map((_, i) => {
    const { t, p } = ticksOf(i, making);
    const gap = gapOf(i);
    const kept = [...t.keys()].filter((k) => t[k]! < gap.from || t[k]! >= gap.to);
    return { t: Float64Array.from(kept, (k) => t[k]!), p: Float64Array.from(kept, (k) => p[k]!) };
  });
  return symbols.map((symbol, i) => {
    const { outcome = null, resolvedAt = null } = factsAt(i, polls.at(-1)!, making);
    return {
      symbol,
      ...ticks[i]!,
      states: statesOf(i, making),
      books: booksOf(i, making),
      quotes: quotesOf(i, making),
      settlement: outcome === null ? null : { at: resolvedAt!, outcome },
      otherVenues: venuesOf(i, making).map(({ other, together }) => ({ ...ticks[other]!, sharedWindows: together })),
    };
  });
}

/** Category and end are known from the first poll of a row; only the confidence of its last poll is stored. */
function statesOf(i: number, making: Making): MarketState[] {
  const rowOf = (at: number): string => {
    const { category, closesAt, outcome } = factsAt(i, at, making);
    return JSON.stringify([Math.floor(at / dayMs), category, closesAt, outcome]);
  };
  let confidence: number | null = null;
  return polls.map((at, n) => {
    const facts = factsAt(i, at, making);
    const isLast = polls[n + 1] === undefined || rowOf(polls[n + 1]!) !== rowOf(at);
    if (isLast) confidence = facts.confidence;
    return { from: at, category: facts.category, confidence, closesAt: facts.closesAt };
  });
}

export function createSpec(json: object = {}): BacktestSpec {
  const read = parseBacktestSpec({ entry_executable: { name: 'mine' }, objective: 'total_pnl', ...json });
  if ('faults' in read) throw new Error(JSON.stringify(read.faults));
  return read.spec;
}

const createRunContext = (rest: Partial<BacktestRunContext> = {}): BacktestRunContext => ({
  random: Math.random,
  signal: new AbortController().signal,
  threads: 1,
  progress() {},
  ...rest,
});

export const run = (
  archive: Archive,
  json: object,
  strategy: Strategy,
  rest: Partial<BacktestRunContext> = {},
): Promise<BacktestResult> => {
  const found: ResolvedStrategy = { strategy, version: null };
  return runBacktest(archive, createSpec(json), found, createRunContext(rest));
};
