import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { expect, onTestFinished, test } from 'vitest';
import { datasets } from '../../../src/archive/format/datasets.ts';
import { encodeTicks } from '../../../src/archive/parquet/ticks-file.ts';
import { openQuery } from '../../../src/archive/query/open-query.ts';
import { openBacktestData } from '../../../src/backtest/data/backtest-data.ts';
import {
  createTickMemory,
  readTickFiles,
  type TickFile,
  TooManyTicksError,
} from '../../../src/backtest/data/tick-files.ts';
import { DamageError } from '../../../src/base/errors.ts';
import { compareUtf8 } from '../../../src/base/symbol-name.ts';
import { isInRange } from '../../../src/base/symbol-range.ts';
import type { TickColumns } from '../../../src/base/ticks.ts';
import type { Window } from '../../../src/base/window.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { createArchive, day0, dayMs, hourMs, symbols } from './test-archive.ts';

const never = new AbortController().signal;
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
  return await openBacktestData(archive, { ...all, hasStates: true, symbols: [] }, Math.random, never);
}

/** The ticks that DuckDB reads from all files of ticks. */
async function readReference(root: string): Promise<(symbols: readonly string[], window: Window) => Promise<object[]>> {
  const options = { threads: 1, memoryBytesMax: 2 ** 28, scratch: scratchFolder() };
  const paths = globSync('ticks/*/*.parquet', { cwd: root }).map((path) => join(root, path));
  const query = await openQuery([{ dataset: 'ticks', columns: datasets.ticks.columns, dated: true, paths }], options);
  onTestFinished(() => query.close());
  return async (symbols, { from, to }) => {
    const out: object[] = [];
    for (const symbol of symbols) {
      const sql =
        'SELECT epoch_ms(t), p FROM ticks WHERE symbol = $1 AND epoch_ms(t) >= $2 AND epoch_ms(t) < $3 ORDER BY t';
      const rows = await query.readRows(sql, [symbol, from, to]);
      out.push({ t: rows.map((row) => Object.values(row)[0]), p: rows.map(({ p }) => p) });
    }
    return out;
  };
}

test('reads the same ticks as DuckDB, of any symbols and window', async () => {
  const data = await openData();
  const memory = createTickMemory(2000);
  const sorted = [...symbols, 'nobody'].sort(compareUtf8);
  const readPlain = await readReference(data.root);
  for (const window of windows) {
    const { tickFiles } = data.findFiles(symbols, window, day0);
    for (const from of [0, 5, 10, 15]) {
      const several = sorted.slice(from, from + 6);
      for (const some of [several, several.slice(1, 3), several.slice(-1)]) {
        const request = { files: tickFiles, symbols: some, window };
        memory.reset();
        const read = readTickFiles(request, memory, 1e9, () => {}).map(copy);
        expect(read).toEqual(await readPlain(some, window));
        const count = read.reduce((sum, { t }) => sum + t.length, 0);
        expect(() => readTickFiles(request, memory, count, () => {})).not.toThrow();
        if (count > 0) expect(() => readTickFiles(request, memory, count - 1, () => {})).toThrow(TooManyTicksError);
      }
    }
  }
  await data.close();
});

test('stops between row groups', async () => {
  const data = await openData();
  const { tickFiles } = data.findFiles(symbols, all, day0);
  const stop = (): never => {
    throw new Error('stopped');
  };
  const request = { files: tickFiles, symbols, window: all };
  expect(() => readTickFiles(request, createTickMemory(0), 1e9, stop)).toThrow('stopped');
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
  const to = join(scratchFolder(), `damaged-${from}.parquet`);
  writeFileSync(to, bytes);
  return to;
}

test('a file that is stored differently or damaged is an error that names it', async () => {
  const data = await openData();
  const { tickFiles } = data.findFiles(symbols, all, day0);
  const [first, ...others] = tickFiles;
  const ofPart = symbols.filter((symbol) => isInRange(first!.range, symbol)).sort(compareUtf8);
  const other = await rewriteFile(first!.path);
  const damaged = [0, 20, first!.bytes - 4, first!.bytes - 8, first!.bytes - 60].map((at) =>
    damageFile(first!.path, at, 4),
  );
  for (const path of [other, ...damaged]) {
    const files = [{ ...first!, path, bytes: readFileSync(path).length }, ...others];
    const read = () => readTickFiles({ files, symbols: ofPart, window: all }, createTickMemory(0), 1e9, () => {});
    expect(read).toThrow(DamageError);
    expect(read).toThrow(`${path} cannot be decoded`);
  }
  await data.close();
});

test('ticks out of order are an error, wherever the window is', () => {
  const path = join(scratchFolder(), 'part.parquet');
  // A binary search for the end of the window finds the second one, so that the last one would be left out.
  const t = Float64Array.of(day0, day0 + 20, day0 + 30, day0 + 10);
  writeFileSync(path, encodeTicks({ symbols: ['A'], offsets: Float64Array.of(0, 4), t, p: t.map(() => 0.5) }));
  const { length: bytes } = readFileSync(path);
  for (const isInWindow of [true, false]) {
    const request = {
      files: [{ path, bytes, range: { from: 'A', to: 'A' }, isInWindow }],
      symbols: ['A'],
      window: { from: day0, to: day0 + 15 },
    };
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
    return { path, bytes: readFileSync(path).length, range: { from: 'A', to: 'B' }, isInWindow: true };
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
