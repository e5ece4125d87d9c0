import { expect, test } from 'vitest';
import type { BacktestResult } from '../../../src/backtest/result.ts';
import { bound, builtIn, curious } from './strategies.ts';
import { createArchive, day0, dayMs, hourMs, run } from './test-archive.ts';

const moment = day0 + 2 * dayMs + 2 * hourMs + 1;
const span = { from: day0, to: day0 + 3 * dayMs };

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
