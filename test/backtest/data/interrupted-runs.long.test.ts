import { globSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../../src/archive/archive.ts';
import { type BacktestFiles, openBacktestData } from '../../../src/backtest/data/backtest-data.ts';
import { type Batch, batchTicksMax, planBatches, readUniverse } from '../../../src/backtest/data/batches.ts';
import { findSharedWindows, foldKnownIds, type MarketIndex } from '../../../src/backtest/data/markets.ts';
import { openBatchWorkers } from '../../../src/backtest/run/batch-pool.ts';
import type { BatchPlan } from '../../../src/backtest/run/batch-thread.ts';
import { DamageError } from '../../../src/base/errors.ts';
import { flip } from '../../archive/damaged.ts';
import { builtIn, curious } from './strategies.ts';
import { createArchive, createSpec, day0, dayMs, run } from './test-archive.ts';

const span = { from: day0, to: day0 + 3 * dayMs };
const never = new AbortController().signal;
const plan: BatchPlan = {
  span,
  readFrom: span.from,
  statesFrom: span.from,
  hasStates: true,
  hasBooks: true,
  hasQuotes: true,
  runPlan: { strategies: [curious], spans: [span], isDetailed: true },
};

/** Scratch folders of readers, and the threads of this process. */
const listPins = (archive: Archive): string[] => globSync('*', { cwd: join(archive.layout.privateFolder, 'pins') });
const threads = (): number => (process.report.getReport() as unknown as { workers: readonly unknown[] }).workers.length;

test('a cancelled run leaves no thread and no file behind', async () => {
  const archive = await createArchive();
  const before = threads();
  // After a finished batch, or after a number of milliseconds.
  for (const after of [null, 0, 30, 90, 200]) {
    const abort = new AbortController();
    const reason = new Error('enough');
    const progress = (): void => abort.abort(reason);
    const running = run(archive, {}, builtIn('threshold'), { threads: 2, progress, signal: abort.signal });
    if (after !== null) setTimeout(() => abort.abort(reason), after);
    await expect(running, `after ${after}`).rejects.toBe(reason);
    expect(listPins(archive)).toEqual([]);
    expect(threads()).toBe(before);
  }
  const gone = AbortSignal.abort(new Error('before it began'));
  await expect(run(archive, {}, builtIn('threshold'), { signal: gone })).rejects.toThrow('before it began');
  expect(listPins(archive)).toEqual([]);
});

test('a finished run leaves no thread and no file behind', async () => {
  const archive = await createArchive();
  const before = threads();
  const reported: [number, number][] = [];
  await run(archive, {}, curious, { threads: 2, progress: (done, total) => reported.push([done, total]) });
  expect(listPins(archive)).toEqual([]);
  expect(threads()).toBe(before);
  const batches = reported.length;
  expect(batches).toBeGreaterThanOrEqual(4);
  expect(reported).toEqual(reported.map((_, i) => [i + 1, batches]));
});

test('rejects a damaged file before using it', async () => {
  const archive = await createArchive();
  const [name] = globSync('ticks/*/part-01.parquet', { cwd: archive.layout.root }).sort();
  const path = join(archive.layout.root, name!);
  flip(path);
  const error = await run(archive, {}, builtIn('threshold')).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(DamageError);
  expect((error as Error).message).toContain(name!);
  expect(listPins(archive)).toEqual([]);
  // Other days do not need the file.
  const elsewhere = { from: day0 + 2 * dayMs };
  expect((await run(archive, elsewhere, builtIn('buy_and_hold'))).trades.count).toBe(20);
});

test('names a damaged file that a worker thread finds', async () => {
  const archive = await createArchive();
  const data = await openBacktestData(archive, { ...span, hasStates: true, symbols: [] }, Math.random, never);
  const file = data.uncheckedFiles.find(({ path }) => path.startsWith('ticks/'))!;
  const damaged = { ...file, sha256: 'f'.repeat(64) };
  const { signal } = new AbortController();
  const workers = await openBatchWorkers({ ...data, uncheckedFiles: [damaged] }, 1, signal, () => {});
  // The thread has started.
  await workers.computeCoverage([], span);
  // Before each file, the calling thread gives the other one time to take it.
  const pause = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const waits: string[] = [];
  signal.throwIfAborted = () => void waits.push(Atomics.wait(pause, 0, 0, 500));
  const error = await workers.checkFiles().catch((thrown: unknown) => thrown);
  expect(waits[0]).toBe('timed-out');
  expect(error).toBeInstanceOf(DamageError);
  expect((error as Error).message).toContain(file.path);
  await workers.close();
  await data.close();
});

test('passes errors of a thread on with their class', async () => {
  const archive = await createArchive();
  const data = await openBacktestData(archive, { ...span, hasStates: true, symbols: [] }, Math.random, never);
  const universe = await readUniverse(data.query, createSpec(), never);
  const batches = planBatches(universe, span, null);
  const playing = async (batch: readonly Batch[], over = data) => {
    const players = await openBatchWorkers(over, 1, never, () => {});
    try {
      return await players.runBatches(batch, plan).catch((thrown: unknown) => thrown);
    } finally {
      await players.close();
    }
  };
  const bad = join(data.root, 'date=2026-06-01', 'bad.parquet');
  mkdirSync(dirname(bad));
  writeFileSync(bad, 'PAR1 and then nothing that one could read PAR1');
  const over = (tickFiles: BacktestFiles['tickFiles']) => ({
    ...data,
    findFiles: () => ({ sources: [], tickFiles }),
  });
  const range = { from: '!', to: '~' };
  const file = { path: bad, bytes: statSync(bad).size, range, isInWindow: true };
  const damaged = await playing(batches, over([file]));
  expect(damaged).toBeInstanceOf(DamageError);
  expect((damaged as Error).message).toContain('bad.parquet');
  const unexpected = await playing(batches, over(null as never));
  expect(unexpected).toBeInstanceOf(Error);
  expect(unexpected).not.toBeInstanceOf(DamageError);
  await data.close();
});

const member = (symbol: string, ticks: number, rest: object = {}) => ({
  symbol,
  canonicalId: null,
  source: null,
  ticks,
  firstTick: day0,
  lastTick: day0 + 3 * dayMs - 1,
  lifetimeFrom: day0,
  lifetimeTo: Number.POSITIVE_INFINITY,
  settlement: null,
  ...rest,
});
const planned = (batches: readonly Batch[]) => batches.map(({ members }) => members.map(({ symbol }) => symbol));

test('bounds the ticks of a batch, and has several', () => {
  const members = ['a', 'b', 'c', 'd'].map((symbol) => member(symbol, 0.7 * batchTicksMax));
  expect(planned(planBatches({ members, others: [] }, span, null))).toEqual([['a'], ['b'], ['c'], ['d']]);
  // One day is a third of the ticks.
  const day = { from: day0, to: day0 + dayMs };
  const names = Array.from('badcfehg');
  const small = names.map((symbol) => member(symbol, 0.7 * batchTicksMax));
  expect(planned(planBatches({ members: small, others: [] }, day, null))).toEqual([
    ['a', 'b'],
    ['c', 'd'],
    ['e', 'f'],
    ['g', 'h'],
  ]);
});

test('keeps the venues of a market in one batch', () => {
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((symbol) => member(symbol, 0.7 * batchTicksMax));
  // Symbols that were ever of one market are loaded together.
  const ids = new Map([
    ['a', [{ from: 1, ids: ['x'] }]],
    ['b', [{ from: 1, ids: ['y'] }]],
    ['c', [{ from: 1, ids: ['z'] }]],
  ]);
  const markets: MarketIndex = {
    getIds: (symbol) => ids.get(symbol) ?? [],
    getGroup: (symbol) => (symbol === 'd' ? null : 'x'),
  };
  const batches = planBatches({ members: [a!, b!], others: [c!, d!] }, span, markets);
  expect(
    batches.map(({ members, otherVenues }) => [members, otherVenues].map((some) => some.map(({ symbol }) => symbol))),
  ).toEqual([[['a', 'b'], ['c']]]);
});

test('a match holds from the poll that shows it until a poll that does not', () => {
  const a = [
    { from: 10, ids: ['x'] },
    { from: 40, ids: ['y'] },
  ];
  const b = [
    { from: 20, ids: ['x'] },
    { from: 30, ids: ['z'] },
    { from: 50, ids: ['y'] },
  ];
  const together = [
    { from: 20, to: 30 },
    { from: 50, to: Number.POSITIVE_INFINITY },
  ];
  expect(findSharedWindows(a, b)).toEqual(together);
  expect(findSharedWindows(b, a)).toEqual(together);
  expect(findSharedWindows(a, [])).toEqual([]);
});

test('a symbol listed in two markets matches both', () => {
  const [night, noon] = [0, dayMs / 2];
  const reported = [
    { from: night, ids: ['x', 'y'] },
    // Another state of a market is another row.
    { from: noon, ids: ['y'] },
    { from: dayMs + night, ids: ['x', 'y'] },
    { from: 2 * dayMs + night, ids: ['y'] },
    { from: 2 * dayMs + noon, ids: ['z'] },
  ];
  const known = [reported[0], reported[3], reported[4]];
  expect(foldKnownIds(reported)).toEqual(known);
  const both = { from: night, to: 2 * dayMs };
  expect(findSharedWindows(foldKnownIds(reported), [{ from: night, ids: ['x'] }])).toEqual([both]);
  expect(findSharedWindows(foldKnownIds(reported), [{ from: night, ids: ['y'] }])).toEqual([
    { ...both, to: 2 * dayMs + noon },
  ]);
});
