import { createHash } from 'node:crypto';
import { unknownDetails } from '../../../src/archive/format/market-details.ts';
import { toBookSide } from '../../../src/archive/format/order-book.ts';
import { precedenceRanks } from '../../../src/archive/format/precedence.ts';
import { appendBooks } from '../../../src/archive/journal/journal-books.ts';
import { appendSeries } from '../../../src/archive/journal/journal-series.ts';
import { appendQuotes, quote } from '../../archive/quote-records.ts';
import { answer, append, day0, dayMs, hourMs, market, now, publishNow } from '../../archive/scratch.ts';
import { trade, tradeAnswer } from '../../archive/trades.ts';
import { poll } from '../historical-archive.ts';
import { madeOnce } from '../made-once.ts';
import { rubbish } from './lake.ts';

// The archive of the tests of a symbol's page: three days of a market with everything that the page shows, its neighbors, and
// symbols with harmful names.

const minuteMs = 60_000;

/** Everything: gaps, all kinds of evidence, order books, quotes, trades, conflicts, and a resolution. */
export const rich = 'KXRATE-26JUN-T4.25';
/** Of the same event, with prices at other times. */
export const sibling = 'KXRATE-26JUN-T4.50';
/** The same market on another venue. */
export const twin = 'fed-june-425';
export const event = 'KXRATE-26JUN';
export const rules = 'Resolves to yes if the upper bound is at least 4.25 %.\n<b>No</b> otherwise.';
export const hostile = [...rubbish, "O'Neil; DROP TABLE ticks; --", 'NA', '007', '\u202egnp.exe', '`$(touch hit)`"\\'];

export const richGap = { from: day0 + dayMs + 6 * hourMs, to: day0 + dayMs + 9 * hourMs };

/** Prices that wander, every `stepMs`. */
function walk(from: number, to: number, stepMs: number, seed: number): [number, number][] {
  const out: [number, number][] = [];
  let [state, price] = [seed, 0.5];
  for (let t = from; t < to; t += stepMs) {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    price = Math.min(0.97, Math.max(0.03, price + (state / 2_147_483_648 - 0.5) * 0.02));
    out.push([t, Math.round(price * 1000) / 1000]);
  }
  return out;
}

/** Ticks of the rich symbol, without those in its gap. */
export const richTicks = walk(day0, day0 + 2 * dayMs + 12 * hourMs, 5 * minuteMs, 7).filter(
  ([t]) => t < richGap.from || t >= richGap.to,
);

/** The times of conflicts and the dropped prices. */
export const conflicts = [20, 400, 410].map((i) => ({ t: richTicks[i]![0], kept: richTicks[i]![1], dropped: 0.05 }));

const levels = (mid: number, side: 'bid' | 'ask') =>
  Array.from({ length: 8 }, (_, i) => ({
    price: Math.round((mid + (side === 'bid' ? -1 : 1) * (i + 1) * 0.01) * 100) / 100,
    quantity: 100 * (i + 1) + (side === 'bid' ? 40 : 0),
  }));

/** Snapshots of every hour. */
export const richBooks = Array.from({ length: 60 }, (_, i) => ({
  t: day0 + i * hourMs,
  bids: toBookSide(levels(0.5, 'bid'), 'highest'),
  asks: toBookSide(levels(0.5 + (i % 3) / 100, 'ask'), 'lowest'),
}));

export const richTrades = Array.from({ length: 40 }, (_, i) =>
  trade(day0 + i * hourMs + 1, `t${i}`, 0.4 + (i % 10) / 100, 10 + i, { aggressor: i % 3 === 0 ? 'sell' : 'buy' }),
);

const details = {
  ...unknownDetails,
  event,
  exclusive: true,
  rules,
  rulesSha256: createHash('sha256').update(rules).digest('hex'),
};

export const symbolLake = madeOnce(async (archive) => {
  const listed = (day: number) => [
    market(rich, {
      canonicalId: 'fed-425',
      question: 'Will the rate be at least 4.25 % after the June meeting?',
      category: 'economics',
      source: 'kalshi',
      confidence: 0.9,
      opensAt: day0,
      closesAt: day0 + 2 * dayMs + 12 * hourMs,
      ...details,
      isActive: day < 2,
      ...(day < 2
        ? {}
        : { resolvedAt: day0 + 2 * dayMs + 13 * hourMs, outcome: 1, outcomeSource: 'reported' as const }),
    }),
    market(sibling, {
      question: 'Will the rate be at least 4.50 %?',
      category: 'economics',
      source: 'kalshi',
      ...details,
    }),
    market(twin, { canonicalId: 'fed-425', question: 'Fed at 4.25 % in June?', source: 'polymarket', confidence: 0.8 }),
    ...hostile.map((symbol) => market(symbol, { question: symbol, category: 'hostile' })),
  ];
  for (let day = 0; day < 3; day++) poll(archive, day0 + day * dayMs + 14 * hourMs, listed(day));
  const part = (from: number, to: number) => richTicks.filter(([t]) => from <= t && t < to);
  const evidenceOf = (evidence: 'confirmed' | 'inferred' | 'stated', from: number, to: number) =>
    answer(rich, part(from, to), { covered: [{ from, to, fetchedAt: now, evidence }] });
  append(
    archive,
    evidenceOf('confirmed', day0, day0 + dayMs),
    evidenceOf('stated', day0 + dayMs, richGap.from),
    evidenceOf('stated', richGap.to, day0 + 2 * dayMs),
    evidenceOf('inferred', day0 + 2 * dayMs, day0 + 2 * dayMs + 12 * hourMs),
    // Another response claims other prices at some times.
    answer(
      rich,
      conflicts.map(({ t, dropped }) => [t, dropped]),
      { windows: [], observedAt: now - hourMs, origin: 'import', rank: precedenceRanks.import },
    ),
    answer(sibling, walk(day0 + 60_001, day0 + 2 * dayMs, 11 * minuteMs, 99), {
      windows: [{ from: day0, to: day0 + 2 * dayMs }],
    }),
    ...hostile.map((symbol, i) =>
      answer(symbol, walk(day0, day0 + 6 * hourMs, 10 * minuteMs, i + 1), {
        windows: [{ from: day0, to: day0 + dayMs }],
      }),
    ),
  );
  appendBooks(archive.state, [
    { runId: 'run', symbol: rich, observedAt: now, snapshots: richBooks, rejected: [], understood: true },
  ]);
  appendQuotes(
    archive,
    richTicks
      .filter((_, i) => i % 3 === 0)
      .map(([t, p], i) => quote(rich, t, p - 0.01, i % 50 === 0 ? null : p + 0.02, 50)),
  );
  appendSeries(archive.state, [tradeAnswer(rich, richTrades, { windows: [{ from: day0, to: day0 + 2 * dayMs }] })]);
  await publishNow(archive);
});
