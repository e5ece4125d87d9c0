import { expect, test } from 'vitest';
import { openQuery } from '../../../src/archive/query/open-query.ts';
import { openBacktestData } from '../../../src/backtest/data/backtest-data.ts';
import { planBatches, readUniverse } from '../../../src/backtest/data/batches.ts';
import { readMarketIndex } from '../../../src/backtest/data/markets.ts';
import { createTickMemory } from '../../../src/backtest/data/tick-files.ts';
import { type BatchPlan, runBatch } from '../../../src/backtest/run/batch-thread.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { builtIn, curious } from './strategies.ts';
import { createArchive, createSpec, day0, dayMs, symbols } from './test-archive.ts';

const span = { from: day0, to: day0 + 3 * dayMs };
const never = new AbortController().signal;
const cut = { time: false, symbols: false };
const around = () => ({
  scratch: scratchFolder(),
  memory: createTickMemory(1000),
  signal: never,
  throwIfStopped() {},
});
const plan: BatchPlan = {
  span,
  readFrom: span.from,
  statesFrom: span.from,
  hasStates: true,
  hasBooks: true,
  hasQuotes: true,
  runPlan: { strategies: [curious], spans: [span], isDetailed: true },
};

test('splits a batch with more ticks than estimated, with the same result', async () => {
  const archive = await createArchive();
  const data = await openBacktestData(archive, { ...span, hasStates: true, symbols: [] }, Math.random, never);
  const universe = await readUniverse(data.query, createSpec(), never);
  const options = { threads: 1, memoryBytesMax: 2 ** 28, scratch: scratchFolder() };
  const { sources, tickFiles } = data.findFiles(symbols, { from: 0, to: span.to }, 0);
  const query = await openQuery(sources, options);
  const files = { openQuery: async () => query, tickFiles, filter: cut };
  const batches = planBatches(universe, span, await readMarketIndex(data.query, span.to, never));
  const batch = {
    members: batches.flatMap(({ members }) => members),
    otherVenues: batches.flatMap(({ otherVenues }) => otherVenues),
  };
  const whole = await runBatch(files, batch, plan, around());
  const ticks = universe.members.reduce((sum, member) => sum + member.ticks, 0);
  for (const most of [ticks, ticks / 2, 3000, 1]) {
    const run = await runBatch(files, batch, plan, around(), most);
    expect(run.trades).toEqual(whole.trades);
    expect(run.symbols).toEqual(whole.symbols);
    expect(run.ticks).toBe(ticks);
    expect([...run.calibration.ticks]).toEqual([...whole.calibration.ticks]);
    expect(run.totals[0]![0]!.pnl).toBeCloseTo(whole.totals[0]![0]!.pnl, 9);
  }
  // A market is never split, because its venues need each other.
  const spread = { ...plan, runPlan: { ...plan.runPlan, strategies: [builtIn('cross_venue_spread')] } };
  const together = await runBatch(files, batch, spread, around());
  expect(together.trades.length).toBeGreaterThan(100);
  expect((await runBatch(files, batch, spread, around(), 1)).trades).toEqual(together.trades);
  await query.close();
  await data.close();
});
