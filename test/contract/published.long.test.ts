import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Summary } from '../../src/archive/journal/run-summary.ts';
import { decodeArrowTable } from '../../src/archive/parquet/rows.ts';
import { systemClock } from '../../src/base/system.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { access, jobArgs, manifestOf, minuteMs } from '../e2e/lake.ts';
import { run } from '../e2e/run-program.ts';
import {
  columns,
  dayFields,
  fileFields,
  keys,
  manifestFields,
  manifestFieldsAtTimes,
  openDayFields,
  orders,
  rootFiles,
  summaryFields,
} from './promises.ts';

/** Clock of the upstream, slightly behind that of the program. */
const nowMs = Date.now() - 41 * minuteMs;

/** An archive with rows in every dataset: two polls with revised prices in between. */
const output = mkdtempSync(join(tmpdir(), 'oddslake-promises-'));
let box: Sandbox;
let summary: Summary;

beforeAll(async () => {
  // Every recent price is revised: with a share of them, a quiet hour had no conflict at all.
  const revised = { reviseShare: 1, reviseAfterMs: 30 * minuteMs };
  box = await startSandbox({ seed: 5, markets: 6, nowMs, ...revised }, { clock: systemClock });
  const flags = ['--set', 'orderbooks.all_live=true', '--set', 'source.first_lookback_days=2'];
  const nightly = () => run(jobArgs('nightly', output, ...flags), access(box.url));
  const first = await nightly();
  expect(first.code, first.stderr).toBe(0);
  box.set({ nowMs: nowMs + 40 * minuteMs });
  const second = await nightly();
  expect(second.code, second.stderr).toBe(0);
  summary = second.summary;
  // The upstream has no quotes and no trades: they come from two files that disagree.
  for (const bid of [0.4, 0.41]) {
    const file = join(output, `quotes-${bid}.csv`);
    writeFileSync(file, `symbol,t,bid,ask,bid_size,ask_size\nA,${nowMs - minuteMs},${bid},0.5,,3\n`);
    const imported = await run(jobArgs('import', output, file, '--dataset', 'quotes'), access(box.url));
    expect(imported.code, imported.stderr).toBe(0);
  }
  for (const price of [0.4, 0.41]) {
    const file = join(output, `trades-${price}.csv`);
    const rows = ['9', '10'].map((id) => `A,${nowMs - minuteMs},${id},${price},2,buy`);
    writeFileSync(file, `symbol,t,trade_id,price,size,aggressor\n${rows.join('\n')}\n`);
    const imported = await run(jobArgs('import', output, file, '--dataset', 'trades'), access(box.url));
    expect(imported.code, imported.stderr).toBe(0);
  }
});

afterAll(async () => {
  await box.stop();
  rmSync(output, { recursive: true, force: true });
});

const files = (dataset: string): string[] => globSync(`${dataset}/**/*.parquet`, { cwd: output }).sort();

describe.each(Object.entries(columns))('published %s', (dataset, promised) => {
  test('have exactly the promised columns, types and nulls', () => {
    expect(files(dataset).length).toBeGreaterThan(0);
    for (const path of files(dataset)) {
      const { fields } = decodeArrowTable(readFileSync(join(output, path))).schema;
      const found = fields.map(({ name, type, nullable }) => [name, `${nullable ? '?' : ''}${type}`]);
      expect(found, path).toEqual(Object.entries(promised));
    }
  });

  test('are sorted, without duplicate keys', () => {
    for (const path of files(dataset)) {
      const rowKeys = rowsOf(path, keys[dataset]!).map((row) => row.join('\n'));
      expect(new Set(rowKeys).size, path).toBe(rowKeys.length);
      const rows = rowsOf(path, orders[dataset]!);
      for (let i = 1; i < rows.length; i++) {
        expect(compare(rows[i - 1]!, rows[i]!), `${path} row ${i}: ${rows[i - 1]} then ${rows[i]}`).toBeLessThan(0);
      }
    }
  });
});

type Key = readonly (string | number | bigint | null)[];

function rowsOf(path: string, names: readonly string[]): Key[] {
  const table = decodeArrowTable(readFileSync(join(output, path)));
  const vectors = names.map((name) => table.getChild(name)!);
  return Array.from({ length: table.numRows }, (_, r) => vectors.map((vector) => vector.get(r) as string | number));
}

/** Compares strings by their UTF-8 bytes. */
function compare(a: Key, b: Key): number {
  for (const [i, x] of a.entries()) {
    const y = b[i]!;
    if (typeof x === 'string' && typeof y === 'string') {
      const order = Buffer.compare(Buffer.from(x), Buffer.from(y));
      if (order !== 0) return order;
    } else if (x !== y) return Number(x) < Number(y) ? -1 : 1;
  }
  return 0;
}

test('the manifest, its days and its files have exactly the promised fields', () => {
  const manifest = manifestOf(output);
  const atTimes: readonly string[] = manifestFieldsAtTimes;
  expect(Object.keys(manifest).filter((name) => !atTimes.includes(name))).toEqual([...manifestFields]);
  expect(Object.keys(manifest.datasets).sort()).toEqual(Object.keys(columns).sort());
  for (const day of Object.values(manifest.days)) {
    const isOpen = day.state !== 'complete' && day.state !== 'empty';
    expect(Object.keys(day)).toEqual([...dayFields, ...(isOpen ? openDayFields : [])]);
  }
  for (const { files } of Object.values(manifest.datasets)) {
    for (const file of files) expect(Object.keys(file)).toEqual([...fileFields]);
  }
});

test('the manifest describes every file correctly', () => {
  for (const [dataset, { files }] of Object.entries(manifestOf(output).datasets)) {
    const time = dataset === 'coverage' ? 't_from' : 't';
    for (const file of files) {
      const bytes = readFileSync(join(output, file.path));
      const table = decodeArrowTable(bytes);
      expect([table.numRows, bytes.length], file.path).toEqual([file.rows, file.bytes]);
      const times = [...(table.getChild(time)?.toArray() ?? [])].map(Number);
      if (times.length > 0) expect(Math.min(...times), file.path).toBe(file.t_min);
      const symbols = new Set(table.getChild('symbol')!);
      expect(symbols.size, file.path).toBe(file.symbols);
      expect(file.path.startsWith(file.date === null ? `${dataset}/part-` : `${dataset}/date=${file.date}/`)).toBe(
        true,
      );
    }
  }
});

test('the root has the promised files', () => {
  for (const name of rootFiles) expect(existsSync(join(output, name)), name).toBe(true);
});

test('the last line of --json has the promised fields', () => {
  for (const path of summaryFields) expect(summary, path).toHaveProperty(path);
  expect(summary.ticks.conflicts).toBeGreaterThan(0);
});
