import fc from 'fast-check';
import type { Level, MarketState, OrderBook, SymbolSeries, Venue } from '../../src/backtest/engine/symbol-series.ts';
import { union } from '../../src/base/window.ts';
import { at, day, minute } from './series.ts';

// Random symbols: prices that rest and jump, some of them invalid; books and quotes, some of them stale, thin or empty; changing
// market states; other venues; optionally an outcome.

const minutesMax = 60;

/** Multiples of a millionth, to avoid denormal differences. */
const millionths = (least: number, most: number) =>
  fc.integer({ min: least * 1e6, max: most * 1e6 }).map((n) => n / 1e6);
/** No recurring price is the mean of others, because comparisons would depend on rounding. */
const price = fc.oneof(
  { weight: 12, arbitrary: millionths(0, 1) },
  { weight: 4, arbitrary: fc.constantFrom(0, 1, 0.431) },
  { weight: 1, arbitrary: millionths(-0.2, 1.3) },
);

/** Times that are equal or differ by a millisecond. */
const quarter = 15_000;
const odd = fc.constantFrom(0, 0, 0, 1);

/** Ticks at such times; prices may repeat. */
const ticks = fc
  .array(fc.tuple(fc.integer({ min: 1, max: 12 }), odd, price, fc.boolean()), { maxLength: 50, size: 'max' })
  .map((steps) => {
    let [time, last] = [at(0), 0.5];
    const rows = steps.map(([step, late, p, stays]) => {
      time += step * quarter;
      last = stays ? last : p;
      return [time + late, last] as const;
    });
    return { t: Float64Array.from(rows, ([t]) => t), p: Float64Array.from(rows, ([, p]) => p) };
  });

const moment = fc
  .tuple(fc.integer({ min: -4, max: minutesMax * 4 }), odd)
  .map(([n, late]) => at(0) + n * quarter + late);
/** Weighted towards times with many events. */
const ending = moment.map((t) => t + 20 * minute);
const orderOf = <T>(rows: readonly T[], of: (row: T) => number): T[] => {
  const byTime = new Map(rows.map((row) => [of(row), row]));
  return [...byTime.values()].sort((a, b) => of(a) - of(b));
};

const level = fc.tuple(price, millionths(0, 8));
const levels = (sign: number) =>
  fc.array(level, { maxLength: 4 }).map((rows): Level[] => rows.sort((a, b) => sign * (a[0] - b[0])));
const book: fc.Arbitrary<OrderBook> = fc.record({ t: moment, bids: levels(-1), asks: levels(1) });

/** Sides with a known and an unknown size, and sides without an offer. */
const quoteSide: fc.Arbitrary<Level[]> = fc.oneof(
  { weight: 3, arbitrary: level.map((one): Level[] => [one]) },
  { weight: 2, arbitrary: price.map((p): Level[] => [[p, Number.POSITIVE_INFINITY]]) },
  { weight: 1, arbitrary: fc.constant(null).map((): Level[] => []) },
);
/** Some expire while the ticks last. */
const quoteTime = fc.oneof({ weight: 4, arbitrary: moment }, { weight: 1, arbitrary: moment.map((t) => t - day) });
const quote: fc.Arbitrary<OrderBook> = fc.record({ t: quoteTime, bids: quoteSide, asks: quoteSide });

const state: fc.Arbitrary<MarketState> = fc.record({
  from: moment,
  category: fc.option(fc.constantFrom('sports', 'crypto', 'law')),
  confidence: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
  closesAt: fc.option(moment),
});

/** Mostly matched all the time, sometimes only in some windows. */
const together = fc.oneof(
  fc.constant([{ from: 0, to: Number.POSITIVE_INFINITY }]),
  fc
    .array(fc.tuple(moment, moment), { maxLength: 3 })
    .map((pairs) => union(pairs.map(([a, b]) => ({ from: Math.min(a, b), to: Math.max(a, b) })))),
);
const venue: fc.Arbitrary<Venue> = fc.tuple(ticks, together).map(([of, known]) => ({ ...of, sharedWindows: known }));

export const symbol: fc.Arbitrary<SymbolSeries> = fc
  .record({
    symbol: fc.constant('S'),
    ticks,
    states: fc.array(state, { maxLength: 4 }).map((rows) => orderOf(rows, ({ from }) => from)),
    books: fc.array(book, { maxLength: 20, size: 'max' }).map((rows) => orderOf(rows, ({ t }) => t)),
    quotes: fc.array(quote, { maxLength: 12, size: 'max' }).map((rows) => orderOf(rows, ({ t }) => t)),
    settlement: fc.option(fc.record({ at: ending, outcome: fc.constantFrom(0, 1, 0.5) })),
    otherVenues: fc.array(venue, { maxLength: 2, size: 'max' }),
  })
  .map(({ ticks: { t, p }, ...rest }) => ({ t, p, ...rest }));

/** A window with some or all ticks. */
export const span = fc
  .tuple(moment, moment, fc.nat(3))
  .map(([a, b, some]) =>
    some > 0 ? { from: at(-10), to: at(1000) } : { from: Math.min(a, b), to: Math.max(a, b) + 1 },
  );
