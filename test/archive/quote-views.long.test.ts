import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import { printSeed } from '../harness/properties.ts';
import { appendQuotes, type Quote, quote } from './quote-records.ts';
import { answer, append, day0, dayMs, hourMs, opened, publishNow, scratchFolder } from './scratch.ts';
import { inFolder, type Row, readBoth, readOwn } from './views-folder.ts';

const seed = printSeed('quote views');

interface Tick {
  readonly symbol: string;
  readonly t: number;
  readonly p: number;
}

async function publishBoth(
  quotes: readonly Quote[],
  ticks: readonly Tick[],
): Promise<{ root: string; archive: Archive }> {
  const root = scratchFolder();
  const archive = opened({ root, parts: 2 });
  append(archive, answer('QUIET', [], { windows: [{ from: day0, to: day0 + hourMs }] }));
  if (quotes.length > 0) appendQuotes(archive, quotes);
  for (const [symbol, ofSymbol] of Map.groupBy(ticks, (tick) => tick.symbol))
    append(
      archive,
      answer(
        symbol,
        ofSymbol.toSorted((a, b) => a.t - b.t).map(({ t, p }) => [t, p]),
      ),
    );
  await publishNow(archive);
  return { root, archive };
}

const isoDate = 'date::VARCHAR AS date';
const selectSpreads = `SELECT symbol, epoch_ms(t)::DOUBLE AS t, * EXCLUDE (symbol, t, date), ${isoDate} FROM spreads ORDER BY symbol, t`;
const selectJoined = `SELECT symbol, epoch_ms(t)::DOUBLE AS t, * EXCLUDE (symbol, t, tick_t, date),
  epoch_ms(tick_t)::DOUBLE AS tick_t, ${isoDate} FROM quotes_with_ticks ORDER BY symbol, t`;

const formatDate = (t: number): string => new Date(t).toISOString().slice(0, 10);

const sortRows = <T extends { symbol: string; t: number }>(rows: readonly T[]): T[] =>
  rows.toSorted((a, b) => compareUtf8(a.symbol, b.symbol) || a.t - b.t);

function computeSpread({ symbol, t, bid, ask }: Quote): Row {
  const isTwoSided = bid !== null && ask !== null;
  return {
    symbol,
    t,
    bid,
    ask,
    mid: isTwoSided ? (bid + ask) / 2 : null,
    spread: isTwoSided ? ask - bid : null,
    date: formatDate(t),
  };
}

/** A quote with the last tick at or before it, found by looking at every tick. */
function computeJoined(one: Quote, ticks: readonly Tick[]): Row {
  let last: Tick | undefined;
  for (const tick of ticks)
    if (tick.symbol === one.symbol && tick.t <= one.t && (last === undefined || tick.t > last.t)) last = tick;
  return { ...one, p: last?.p ?? null, tick_t: last?.t ?? null, date: formatDate(one.t) };
}

/** Few times in three days, so that quotes and ticks share them, and days with only one of both. */
const moment = fc
  .tuple(fc.integer({ min: 0, max: 2 }), fc.integer({ min: 0, max: 23 }), fc.integer({ min: 0, max: 2 }))
  .map(([day, hour, millisecond]) => day0 + day * dayMs + hour * hourMs + millisecond);
const price = fc.integer({ min: 0, max: 1000 }).map((thousandths) => thousandths / 1000);
const anyNumber = fc.option(price, { freq: 3 });
const byKey = ({ symbol, t }: { symbol: string; t: number }): string => `${symbol} ${t}`;
const quotesArbitrary: fc.Arbitrary<Quote[]> = fc.uniqueArray(
  fc
    .record({
      symbol: fc.constantFrom('AAA', 'BBB', "it's", '😀', 'NO TICKS'),
      t: moment,
      bid: anyNumber,
      ask: anyNumber,
      bid_size: anyNumber,
      ask_size: anyNumber,
    })
    .filter(({ bid, ask }) => bid !== null || ask !== null),
  { selector: byKey, minLength: 120, maxLength: 120 },
);
const ticksArbitrary: fc.Arbitrary<Tick[]> = fc.uniqueArray(
  fc.record({ symbol: fc.constantFrom('AAA', 'BBB', "it's", '😀', 'NO QUOTES'), t: moment, p: price }),
  { selector: byKey, minLength: 60, maxLength: 60 },
);

describe('spreads and quotes_with_ticks', () => {
  test('have one row for each quote, as computed plainly', async () => {
    const quotes = sortRows(fc.sample(quotesArbitrary, { seed, numRuns: 1 })[0]!);
    const ticks = fc.sample(ticksArbitrary, { seed: seed + 1, numRuns: 1 })[0]!;
    const { root, archive } = await publishBoth(quotes, ticks);
    expect(await readBoth(root, archive, selectSpreads)).toEqual(quotes.map(computeSpread));
    expect(await readBoth(root, archive, selectJoined)).toEqual(quotes.map((one) => computeJoined(one, ticks)));
  });

  test('have no mid price and no spread without both sides', async () => {
    const { root, archive } = await publishBoth(
      [
        quote('ASK', day0, null, 0.5, 3),
        quote('BID', day0, 0.25, null, 3),
        quote('BOTH', day0, 0.25, 0.5),
        quote('CROSSED', day0, 0.5, 0.25),
        quote('LOCKED', day0, 0.5, 0.5),
      ],
      [],
    );
    const rows = await readBoth(root, archive, 'SELECT symbol, bid, ask, mid, spread FROM spreads ORDER BY 1');
    expect(rows.map((row) => Object.values(row))).toEqual([
      ['ASK', null, 0.5, null, null],
      ['BID', 0.25, null, null, null],
      ['BOTH', 0.25, 0.5, 0.375, 0.25],
      ['CROSSED', 0.5, 0.25, 0.375, -0.25],
      ['LOCKED', 0.5, 0.5, 0.5, 0],
    ]);
  });

  test('a quote has the tick of its own millisecond, or one of an earlier day', async () => {
    const quotes = [day0 + 5, day0 + 6, day0 + 2 * dayMs].map((t) => quote('AAA', t, 0.25, null));
    const { root, archive } = await publishBoth(quotes, [
      { symbol: 'AAA', t: day0 + 6, p: 0.5 },
      { symbol: 'AAA', t: day0 + 2 * dayMs + 1, p: 0.75 },
    ]);
    const sql = 'SELECT p, epoch_ms(tick_t)::DOUBLE AS tick_t FROM quotes_with_ticks ORDER BY t';
    expect(await readBoth(root, archive, sql)).toEqual([
      { p: null, tick_t: null },
      { p: 0.5, tick_t: day0 + 6 },
      { p: 0.5, tick_t: day0 + 6 },
    ]);
  });

  test('a condition on a tick does not select an earlier tick', async () => {
    const { root, archive } = await publishBoth(
      [quote('AAA', day0 + 9, 0.25, null)],
      [
        { symbol: 'AAA', t: day0 + 1, p: 0.5 },
        { symbol: 'AAA', t: day0 + 2, p: 0.75 },
      ],
    );
    for (const condition of [
      'p = 0.5',
      'p IS NULL',
      `epoch_ms(tick_t) = ${day0 + 1}`,
      `tick_t < '2026-06-01 00:00:00.002+00'`,
    ])
      expect(await readBoth(root, archive, `SELECT p FROM quotes_with_ticks WHERE ${condition}`), condition).toEqual(
        [],
      );
  });

  test('are empty, with their columns, in an archive without quotes, and have quotes without ticks', async () => {
    const ticks = [{ symbol: 'AAA', t: day0, p: 0.5 }];
    const quotes = [quote('AAA', day0 + 1, 0.25, 0.5)];
    const [none, both, noTicks] = [
      await publishBoth([], ticks),
      await publishBoth(quotes, ticks),
      await publishBoth(quotes, []),
    ];
    const describeView = (root: string, view: string) =>
      inFolder(root, [`SELECT column_name, column_type FROM (DESCRIBE FROM ${view})`])[0];
    for (const view of ['spreads', 'quotes_with_ticks']) {
      const described = describeView(both.root, view);
      expect(described).toHaveLength(view === 'spreads' ? 7 : 9);
      expect(describeView(none.root, view)).toEqual(described);
      expect(describeView(noTicks.root, view)).toEqual(described);
    }
    for (const sql of [selectSpreads, selectJoined]) expect(await readBoth(none.root, none.archive, sql)).toEqual([]);
    expect(await readBoth(noTicks.root, noTicks.archive, selectJoined)).toEqual([computeJoined(quotes[0]!, [])]);
  });

  test('a symbol selects the rows of both datasets, a day the files of quotes', async () => {
    const rows = ['AAA', 'BBB', 'CCC', 'DDD'].flatMap((symbol) => [day0, day0 + dayMs].map((t) => ({ symbol, t })));
    const { root, archive } = await publishBoth(
      rows.map(({ symbol, t }) => quote(symbol, t, 0.25, 0.5)),
      rows.map((row) => ({ ...row, p: 0.5 })),
    );
    const explain = async (view: string): Promise<string[]> => {
      const where = `symbol = 'AAA' AND date = '${formatDate(day0)}' AND t >= '2026-06-01 00:00:00+00'`;
      const sql = `EXPLAIN SELECT * FROM ${view} WHERE ${where}`;
      return [inFolder(root, [sql])[0]!, await readOwn(archive, sql)].map((plan) => plan[0]!.explain_value as string);
    };
    for (const [view, scans] of [
      ['spreads', 1],
      ['quotes_with_ticks', 2],
    ] as const)
      for (const plan of await explain(view)) {
        expect(plan.match(/Function:/g), plan).toHaveLength(scans);
        expect(plan.match(/symbol='AAA'/g), plan).toHaveLength(scans);
        expect(plan.match(/t>='2026-06-01/g), plan).toHaveLength(1);
        expect(plan.match(/Scanning Files: 2\/4/g), plan).toHaveLength(1);
      }
  });
});
