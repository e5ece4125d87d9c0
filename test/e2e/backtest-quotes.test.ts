import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { OrderBook } from '../../src/backtest/engine/symbol-series.ts';
import type { BacktestResult } from '../../src/contract/backtests.ts';
import { answer, append, day0, hourMs, now, opened, type Pairs, publishNow } from '../archive/scratch.ts';
import { appendOrderBooks, appendQuotes } from '../backtest/data/test-archive.ts';
import { expectDone, folder } from './lake.ts';
import { run as runProgram } from './run-program.ts';

const hour = (n: number): number => day0 + n * hourMs;

/** Hourly ticks. */
const prices = { RAIN: [0.4, 0.4, 0.6, 0.6, 0.4, 0.4], SNOW: [0.4, 0.4, 0.7, 0.7, 0.7, 0.7] };

const all = Number.POSITIVE_INFINITY;
const quote = (t: number, bid: number, ask: number, [bidSize, askSize] = [all, all]): OrderBook => ({
  t,
  bids: [[bid, bidSize]],
  asks: [[ask, askSize]],
});

/** An archive with these ticks and quotes. */
async function lakeWith(
  quotes: Readonly<Record<string, readonly OrderBook[]>>,
  books: readonly OrderBook[] = [],
): Promise<string> {
  const archive = opened({ root: join(folder(), 'lake') });
  for (const [symbol, ofSymbol] of Object.entries(prices)) {
    const pairs: Pairs = ofSymbol.map((p, i) => [hour(i), p]);
    append(archive, answer(symbol, pairs, { windows: [{ from: day0, to: hour(6) }] }));
  }
  for (const [symbol, ofSymbol] of Object.entries(quotes)) appendQuotes(archive, symbol, ofSymbol, now);
  appendOrderBooks(archive, 'RAIN', books, now);
  await publishNow(archive);
  archive.close();
  return archive.layout.root;
}

/** Buys ten contracts below 0.5, and sells them above. */
const swing = {
  rules: [
    {
      side: 'yes',
      size: { contracts: 10 },
      entry: { measure: 'price', below: 0.5 },
      exit: { measure: 'price', above: 0.5 },
    },
  ],
};

const run = async (lake: string, args: readonly string[], rest: object = {}): Promise<string> => {
  const file = join(folder(), 'swing.json');
  writeFileSync(file, JSON.stringify({ ...swing, ...rest }));
  const { stdout } = await expectDone(runProgram(['backtest', 'run', file, '--output', lake, ...args]));
  return stdout;
};
const resultOf = async (lake: string, args: readonly string[] = [], rest: object = {}): Promise<BacktestResult> =>
  JSON.parse(await run(lake, ['--json', '--quiet', ...args], rest)) as BacktestResult;
const rain = ['--symbol', 'RAIN'];

/** A quote before each fill of RAIN: at hours 1, 3 and 5. The first one is of the day before the ticks. */
const rainQuotes = [
  quote(day0 - hourMs, 0.38, 0.42),
  quote(hour(2.5), 0.57, 0.63),
  quote(hour(3), 0.56, 0.64),
  quote(hour(4.5), 0.38, 0.43),
  quote(hour(5) + 1, 0.01, 0.99),
];

test('with quotes, a result is lower by the half spread of every fill', async () => {
  const [without, withQuotes] = [await lakeWith({}), await lakeWith({ RAIN: rainQuotes })];
  const [before, after] = [await resultOf(without, rain), await resultOf(withQuotes, rain)];
  // Bought at 0.4, sold at 0.6, bought at 0.4 and valued there.
  expect(before.value).toBeCloseTo(10 * (0.6 - 0.4), 12);
  expect(before.assumptions).toMatchObject({
    note: 'Filled at tick prices, not bid and ask, without fees or spread.',
    tick_fills: 3,
    book_fills: 0,
    quote_fills: 0,
  });
  // Bought at 0.42, sold at 0.56, bought at 0.43 and valued at 0.4.
  expect(after.value).toBeCloseTo(10 * (0.56 - 0.42 + (0.4 - 0.43)), 12);
  expect(before.value! - after.value!).toBeCloseTo(10 * (0.02 + 0.04 + 0.03), 12);
  expect(after.assumptions).toMatchObject({ note: 'Without fees.', tick_fills: 0, book_fills: 0, quote_fills: 3 });
  const facts = ({ trades }: BacktestResult) =>
    trades.items.map(({ price, decided_at, filled_at, exited_at, exit_reason, contracts }) => [
      ...[price, decided_at, filled_at, exited_at],
      ...[exit_reason, contracts],
    ]);
  expect(facts(after)).toEqual(facts(before));
  expect(facts(after)).toEqual([
    [0.4, hour(0), hour(1), hour(3), 'sold', 10],
    [0.4, hour(4), hour(5), hour(5), 'open', 10],
  ]);
  expect(after.trades.items.map(({ entry_fill, exit_fill }) => [entry_fill, exit_fill])).toEqual([
    ['quote', 'quote'],
    ['quote', null],
  ]);
  // Every fill has the spread and fees: nothing to note.
  const fees = [...rain, '--fees', 'kalshi'];
  expect((await run(withQuotes, fees)).split('\n')[0]).toBe('  strategy   swing');
  const { assumptions, summary } = await resultOf(withQuotes, fees);
  expect(assumptions!.note).toBe(null);
  // 0.07 × 10 × p (1 - p) at 0.42, 0.56 and 0.43, each rounded up to a cent.
  expect(summary.fees).toBeCloseTo(0.18 + 0.18 + 0.18, 12);
  // Slippage is only for fills at ticks.
  expect((await resultOf(withQuotes, rain, { slippage: 0.05 })).value).toBe(after.value);
  expect((await resultOf(without, rain, { slippage: 0.05 })).value).toBeCloseTo(before.value! - 10 * 0.15, 12);
});

test('a mix of quotes and ticks says how many fills rest on ticks, in text, JSON and files', async () => {
  const lake = await lakeWith({ RAIN: rainQuotes });
  const trades = join(folder(), 'trades.csv');
  const text = await run(lake, ['--trades', trades]);
  const note = '2 of 5 fills at tick prices, not bid and ask, without fees or spread.';
  expect(text.split('\n')[0]).toBe(`  note       ${note}`);
  expect(text).toMatch(/^ {2}costs +no fees, slippage 0; 2 fills at tick prices, 0 from order books, 3 at quotes$/m);
  const result = await resultOf(lake);
  expect(result.assumptions).toMatchObject({ note, tick_fills: 2, book_fills: 0, quote_fills: 3 });
  // SNOW is bought and sold at ticks.
  expect(result.value).toBeCloseTo(10 * (0.56 - 0.42 + (0.4 - 0.43)) + 10 * (0.7 - 0.4), 12);
  const [header, ...rows] = readFileSync(trades, 'utf8').trimEnd().split('\n');
  const column = header!.split(',').indexOf('entry_fill');
  expect(rows.map((row) => row.split(',')[column]).sort()).toEqual(['quote', 'quote', 'tick']);
});
