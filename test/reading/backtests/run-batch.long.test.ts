import { expect, test } from 'vitest';
import { openQuery } from '../../../src/query/open-query.ts';
import { openGround } from '../../../src/reading/backtests/backtest-data.ts';
import { planBatches } from '../../../src/reading/backtests/batches.ts';
import { readMarkets } from '../../../src/reading/backtests/markets.ts';
import { type BatchPlan, playBatch } from '../../../src/reading/backtests/run-batch.ts';
import { readUniverse } from '../../../src/reading/backtests/select-symbols.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { asked, day0, dayMs, lake, symbols } from './lake.ts';
import { builtIn, curious } from './strategies.ts';

const span = { from: day0, to: day0 + 3 * dayMs };
const never = new AbortController().signal;
const cut = { time: false, symbols: false };
const around = () => ({ scratch: scratchFolder(), signal: never, look() {} });
const plan: BatchPlan = {
  parts: 4,
  span,
  lookFrom: span.from,
  statesFrom: span.from,
  states: true,
  books: true,
  plan: { strategies: [curious], spans: [span], detailed: true },
};

test('a batch with more ticks than were guessed is played in halves, and comes to the same', async () => {
  const archive = await lake();
  const ground = await openGround(archive, { ...span, states: true, symbols: [] }, Math.random, never);
  const universe = await readUniverse(ground.query, asked(), never);
  const options = { threads: 1, memoryBytesMax: 2 ** 28, scratch: scratchFolder() };
  const query = await openQuery(ground.files(symbols, { from: 0, to: span.to }, 0).sources, options);
  const [batch, ...others] = planBatches(universe, span, 1, await readMarkets(ground.query, span.to, never));
  expect(others).toEqual([]);
  const whole = await playBatch(query, batch!, plan, cut, around());
  const ticks = universe.members.reduce((sum, member) => sum + member.ticks, 0);
  for (const most of [ticks, ticks / 2, 3000, 1]) {
    const run = await playBatch(query, batch!, plan, cut, around(), most);
    expect(run.trades).toEqual(whole.trades);
    expect(run.symbols).toEqual(whole.symbols);
    expect(run.ticks).toBe(ticks);
    expect([...run.calibration.ticks]).toEqual([...whole.calibration.ticks]);
    expect(run.tallies[0]![0]!.pnl).toBeCloseTo(whole.tallies[0]![0]!.pnl, 9);
  }
  // What is of one market is never torn apart: its venues would not see each other.
  const spread = { ...plan, plan: { ...plan.plan, strategies: [builtIn('cross_venue_spread')] } };
  const together = await playBatch(query, batch!, spread, cut, around());
  expect(together.trades.length).toBeGreaterThan(100);
  expect((await playBatch(query, batch!, spread, cut, around(), 1)).trades).toEqual(together.trades);
  await query.close();
  await ground.close();
});
