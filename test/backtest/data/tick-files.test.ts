import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { expect, test } from 'vitest';
import { encodeTicks } from '../../../src/archive/parquet/ticks-file.ts';
import { openQueryEngine } from '../../../src/archive/query/open-query.ts';
import { openBacktestData } from '../../../src/backtest/data/backtest-data.ts';
import { planBatches, readUniverse } from '../../../src/backtest/data/batches.ts';
import { readTicks, TooManyTicksError } from '../../../src/backtest/data/tick-columns.ts';
import { createTickMemory, readTickFiles, type TickFile } from '../../../src/backtest/data/tick-files.ts';
import { type BatchPlan, runBatch } from '../../../src/backtest/run/batch-thread.ts';
import { compareUtf8, computePartNumber } from '../../../src/base/symbol-name.ts';
import type { TickColumns } from '../../../src/base/ticks.ts';
import type { Window } from '../../../src/base/window.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { curious } from './strategies.ts';
import { createArchive, createSpec, day0, dayMs, hourMs, symbols } from './test-archive.ts';

const never = new AbortController().signal;
const parts = 4;
const all = { from: day0, to: day0 + 3 * dayMs };
const windows: readonly Window[] = [
  all,
  { from: day0 + 5 * hourMs + 123, to: day0 + 2 * dayMs + 17 },
  { from: day0 + dayMs + 1, to: day0 + dayMs + 2 },
  { from: day0 + dayMs, to: day0 + dayMs + hourMs },
];
const copy = ({ t, p }: TickColumns) => ({ t: [...t], p: [...p] });

async function openData() {
  const archive = await createArchive();
  const data = await openBacktestData(archive, { ...all, hasStates: true, symbols: [] }, Math.random, never);
  const options = { threads: 1, memoryBytesMax: 2 ** 28, scratch: scratchFolder() };
  return { data, engine: await openQueryEngine(data.root, options) };
}

test('reads the same ticks as DuckDB, of any symbols and window', async () => {
  const { data, engine } = await openData();
  const memory = createTickMemory(2000);
  const sorted = [...symbols, 'nobody'].sort(compareUtf8);
  for (const window of windows) {
    const { sources, tickFiles, hasRowsOutsideWindow } = data.findFiles(symbols, window, day0);
    const query = await engine.openQuery(sources, []);
    for (let part = 0; part < parts; part++) {
      const ofPart = sorted.filter((symbol) => computePartNumber(symbol, parts) === part);
      for (const some of [ofPart, ofPart.slice(1, 3), ofPart.slice(-1)]) {
        for (const bySymbol of [true, false]) {
          const filter = { time: hasRowsOutsideWindow, symbols: bySymbol };
          const plain = await readTicks(query, { part, symbols: some, window, filter }, 1e9, never);
          const request = { files: tickFiles.get(part)!, symbols: some, window };
          memory.reset();
          expect(readTickFiles(request, memory, 1e9, () => {}).map(copy)).toEqual(plain.map(copy));
          const count = plain.reduce((sum, { t }) => sum + t.length, 0);
          expect(() => readTickFiles(request, memory, count, () => {})).not.toThrow();
          if (count > 0) expect(() => readTickFiles(request, memory, count - 1, () => {})).toThrow(TooManyTicksError);
        }
      }
    }
    await query.close();
  }
  await engine.close();
  await data.close();
});

test('stops between row groups', async () => {
  const { data, engine } = await openData();
  const { tickFiles } = data.findFiles(symbols, all, day0);
  const stop = (): never => {
    throw new Error('stopped');
  };
  const request = { files: tickFiles.get(0)!, symbols, window: all };
  expect(() => readTickFiles(request, createTickMemory(0), 1e9, stop)).toThrow('stopped');
  await engine.close();
  await data.close();
});

/** Writes the rows of a file as DuckDB stores them: other encodings, and nullable columns. */
async function rewriteFile(path: string): Promise<string> {
  const to = join(scratchFolder(), 'other.parquet');
  const instance = await DuckDBInstance.create();
  const connection = await instance.connect();
  await connection.run(`COPY (SELECT symbol, t, p FROM '${path}') TO '${to}' (FORMAT parquet)`);
  instance.closeSync();
  return to;
}

/** Changes bytes of a file to noise. */
function damageFile(path: string, from: number, count: number): string {
  const bytes = readFileSync(path);
  for (let i = 0; i < count; i++) bytes[from + i] = (bytes[from + i]! + 1 + 37 * i) & 255;
  const to = join(scratchFolder(), 'damaged.parquet');
  writeFileSync(to, bytes);
  return to;
}

test('a batch gives the same result by either reader, and if a file is stored differently', async () => {
  const { data, engine } = await openData();
  const universe = await readUniverse(data.query, createSpec(), never);
  const [batch] = planBatches(universe, all, 1, null);
  const { sources, tickFiles } = data.findFiles(symbols, all, day0);
  const query = await engine.openQuery(sources, []);
  const plan: BatchPlan = {
    parts,
    span: all,
    readFrom: all.from,
    statesFrom: all.from,
    hasStates: true,
    hasBooks: true,
    hasQuotes: true,
    runPlan: { strategies: [curious], spans: [all], isDetailed: true },
  };
  const run = (files: ReadonlyMap<number, readonly TickFile[]>) =>
    runBatch(
      { openQuery: async () => query, tickFiles: files, filter: { time: false, symbols: false } },
      batch!,
      plan,
      { scratch: scratchFolder(), memory: createTickMemory(5000), signal: never, checkStopped() {} },
    );
  const plain = await run(new Map());
  expect(plain.trades.length).toBeGreaterThan(100);
  expect(await run(tickFiles)).toEqual(plain);
  const [first, ...others] = tickFiles.get(1)!;
  // DuckDB reads its own view, of the files as they are published.
  const replaceFirst = (path: string) =>
    new Map([...tickFiles, [1, [{ ...first!, path, bytes: readFileSync(path).length }, ...others]]]);
  expect(await run(replaceFirst(await rewriteFile(first!.path)))).toEqual(plain);
  for (const at of [0, 20, first!.bytes - 4, first!.bytes - 8, first!.bytes - 60])
    expect(await run(replaceFirst(damageFile(first!.path, at, 4)))).toEqual(plain);
  await query.close();
  await engine.close();
  await data.close();
});

test('ticks out of order are an error, wherever the window is', () => {
  const path = join(scratchFolder(), 'part.parquet');
  // A binary search for the end of the window finds the second one, so that the last one would be left out.
  const t = Float64Array.of(day0, day0 + 20, day0 + 30, day0 + 10);
  writeFileSync(path, encodeTicks({ symbols: ['A'], offsets: Float64Array.of(0, 4), t, p: t.map(() => 0.5) }));
  const { length: bytes } = readFileSync(path);
  for (const isInWindow of [true, false]) {
    const request = { files: [{ path, bytes, isInWindow }], symbols: ['A'], window: { from: day0, to: day0 + 15 } };
    expect(() => readTickFiles(request, createTickMemory(9), 9, () => {})).toThrow('the ticks of A are out of order');
  }
});

test('ticks that go back in the next file are an error', () => {
  const files = [
    [10, 20],
    [20, 30],
  ].map((minutes): TickFile => {
    const path = join(scratchFolder(), 'part.parquet');
    const t = Float64Array.from(minutes, (minute) => day0 + minute);
    const columns = { t, p: t.map(() => 0.5) };
    writeFileSync(path, encodeTicks({ symbols: ['A', 'B'], offsets: Float64Array.of(0, 1, 2), ...columns }));
    return { path, bytes: readFileSync(path).length, isInWindow: true };
  });
  const readBoth = (symbols: readonly string[], inOrder: readonly TickFile[]) =>
    readTickFiles({ files: inOrder, symbols, window: all }, createTickMemory(9), 9, () => {});
  expect(readBoth(['A', 'B'], files).map(({ t }) => [...t].map((at) => at - day0))).toEqual([
    [10, 20],
    [20, 30],
  ]);
  expect(() => readBoth(['B'], files.toReversed())).toThrow('the ticks of B are out of order');
  expect(() => readBoth(['A', 'B'], [files[0]!, files[0]!])).toThrow('the ticks of A are out of order');
});

test('memory is used again by the next batch', () => {
  const memory = createTickMemory(100);
  const first = memory.take(60);
  const second = memory.take(30);
  expect(second.t.buffer).not.toBe(first.t.buffer);
  memory.reset();
  memory.take(5);
  memory.reset();
  const [third, fourth] = [memory.take(70), memory.take(20)];
  expect(fourth.t.buffer).toBe(third.t.buffer);
  expect([fourth.t.length, fourth.p.length, fourth.t.byteOffset]).toEqual([20, 20, 560]);
  // Not kept, because it is too large.
  memory.reset();
  expect(memory.take(101).t.buffer.byteLength).toBe(808);
  memory.reset();
  expect(memory.take(1).t.buffer).toBe(third.t.buffer);
});
