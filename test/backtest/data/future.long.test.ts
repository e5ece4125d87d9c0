import { expect, test } from 'vitest';
import type { BacktestResult } from '../../../src/contract/backtests.ts';
import type { Condition } from '../../../src/contract/strategy-language.ts';
import { bound, builtIn, curious } from './strategies.ts';
import { createArchive, day0, dayMs, hourMs, run } from './test-archive.ts';

const span = { from: day0, to: day0 + 3 * dayMs };

const grid = { buy_below: [0.2, 0.35, 0.5, 0.65], sell_above: [0.4, 0.6] };

test('chooses the best grid point without held-out data', async () => {
  const splitAt = span.to - 0.3 * (span.to - span.from);
  const [one, two] = [
    await createArchive({ moment: splitAt, future: 1 }),
    await createArchive({ moment: splitAt, future: 2 }),
  ];
  const [a, b] = [one, two].map((archive) => run(archive!, { ...span, grid, held_out: 0.3 }, builtIn('threshold')));
  const [first, second] = [(await a)!, (await b)!];
  expect(first.grid!.split_at).toBe(splitAt);
  const known = ({ grid }: BacktestResult) =>
    grid!.points.map(({ parameters, value, trades }) => [parameters, value, trades]);
  expect(known(second)).toEqual(known(first));
  expect(second.grid!.best).toBe(first.grid!.best);
  expect(second.grid!.points).not.toEqual(first.grid!.points);
  const values = first.grid!.points.map(({ value }) => value!);
  expect(values[first.grid!.best!]).toBe(Math.max(...values));
  expect(new Set(values).size).toBeGreaterThan(4);
});

test('the result of the best point equals its held-out value', async () => {
  const archive = await createArchive();
  // The strategy with lookback, books and states has the same past in both.
  const windows = { ...curious, parameters: { window: hourMs } };
  // One symbol has no ticks from long before the held-out window until shortly after its start.
  const mean = { measure: 'moving_average', window_ms: { parameter: 'window' } } as const;
  const rise: Condition = { measure: 'price', above: mean };
  const looking = {
    ...windows,
    rules: windows.rules.map((rule) => ({
      ...rule,
      entry: { any: [rule.entry, rise] },
    })),
  };
  const json = { ...span, grid: { window: [2 * hourMs, 2.5 * hourMs, 3 * hourMs] }, held_out: 0.25 };
  const result = await run(archive, json, looking, { threads: 2 });
  const { points, best, split_at } = result.grid!;
  expect([result.from, result.to]).toEqual([split_at, span.to]);
  expect(result.strategy.parameters).toEqual(points[best!]!.parameters);
  expect(points[best!]!.held_out_trades).toBe(result.trades.count);
  expect(points[best!]!.held_out_value).toBe(result.value);
  expect(new Set(points.map(({ held_out_value }) => held_out_value)).size).toBe(3);
});

const moment = day0 + 2 * dayMs + 2 * hourMs + 1;

/** All fills before a time, with their decisions. */
function doneBefore({ trades }: BacktestResult, before: number) {
  expect(trades.count).toBe(trades.items.length);
  return trades.items
    .filter(({ filled_at }) => filled_at < before)
    .map(
      ({
        symbol,
        rule,
        contracts,
        decided_at,
        filled_at,
        price,
        entry_price,
        exit_decided_at,
        exited_at,
        exit_price,
      }) => {
        const isOver = exit_decided_at !== null && exited_at < before;
        return {
          symbol,
          rule,
          decided_at,
          filled_at,
          price,
          entry_price,
          // Later partial sales belong to the future.
          ...(isOver ? { contracts, exit_decided_at, exited_at, exit_price } : {}),
        };
      },
    )
    .filter((one, i, all) => i === 0 || JSON.stringify(one) !== JSON.stringify(all[i - 1]));
}

test('different later data in the archive changes no earlier trade', async () => {
  const [one, two] = [await createArchive({ moment, future: 1 }), await createArchive({ moment, future: 2 })];
  const strategies = [curious, builtIn('cross_venue_spread'), bound('mean_reversion', { window_ms: 2 * hourMs })];
  for (const strategy of strategies) {
    const [a, b] = [await run(one!, span, strategy), await run(two!, span, strategy)];
    expect(JSON.stringify(a.trades)).not.toBe(JSON.stringify(b.trades));
    const before = doneBefore(a, moment);
    expect(before.length).toBeGreaterThan(20);
    expect(doneBefore(b, moment)).toEqual(before);
  }
});
