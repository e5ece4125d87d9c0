import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { PartColumns } from '../../src/archive/format/tick-columns.ts';
import { decodeTicks, encodeTicks, indexTickFile, readSymbolTicks } from '../../src/archive/parquet/ticks-file.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import { checkAsyncProperty, checkProperty, printSeed } from '../harness/properties.ts';
import { share } from '../harness/share.ts';
import { decodeTicksWithArrow, encodeTicksWithArrow } from './arrow-ticks.ts';
import { scratchFolder } from './scratch.ts';

// Our own writer and reader of ticks, tested against parquet-wasm and DuckDB.

const seed = printSeed('ticks-file');

const [first, last] = [Date.UTC(2000, 0), Date.UTC(2100, 0) - 1];

/** How times and prices follow each other. `distinct` 0: all differ. */
interface PartShape {
  readonly sizes: readonly number[];
  readonly names: readonly string[];
  readonly times: 'equal steps' | 'shared' | 'random' | 'whole range';
  readonly distinct: number;
}

/** The linear congruential generator of Numerical Recipes, from 0 to 1: the same draws for the same seed. */
function draws(from: number): () => number {
  let state = from >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function partOf({ sizes, names, times, distinct }: PartShape, random: () => number): PartColumns {
  const symbols = sizes.map((_, i) => `${names[i % names.length]}${i}`).sort(compareUtf8);
  const offsets = new Float64Array(sizes.length + 1);
  sizes.forEach((size, i) => {
    offsets[i + 1] = offsets[i]! + size;
  });
  const rows = offsets.at(-1)!;
  const shared = Float64Array.from({ length: Math.max(...sizes) }, (_, i) => 1_780_272_000_000 + i * 120_000);
  const jitter = shared.map(() => Math.floor(random() * 1000));
  const t = new Float64Array(rows);
  sizes.forEach((size, s) => {
    // As many times as ticks, the first and the last at both ends of the valid range.
    const step = times === 'whole range' ? Math.floor((last - first) / Math.max(1, size - 1)) : 661;
    for (let i = 0; i < size; i++) {
      const at = offsets[s]! + i;
      if (times === 'shared') t[at] = shared[i]! + jitter[i]!;
      else if (times === 'random') t[at] = 1_780_272_000_000 + i * 20_000 + Math.floor(random() * 20_000);
      else if (times === 'whole range') t[at] = i === size - 1 && i > 0 ? last : first + i * step;
      else t[at] = first + i * step;
    }
  });
  const p = Float64Array.from({ length: rows }, () =>
    distinct === 0 ? random() : Math.floor(random() * distinct) / distinct,
  );
  return { symbols, offsets, t, p };
}

const bits = ({ buffer, byteOffset, byteLength }: Float64Array): Buffer => Buffer.from(buffer, byteOffset, byteLength);

function expectEqual(actual: PartColumns, expected: PartColumns): void {
  expect(actual.symbols).toEqual(expected.symbols);
  expect([...actual.offsets]).toEqual([...expected.offsets]);
  expect(bits(actual.t).equals(bits(expected.t))).toBe(true);
  expect(bits(actual.p).equals(bits(expected.p))).toBe(true);
}

/** Every reader of ours returns what was written, and writing it again gives the same bytes. */
function expectSame(part: PartColumns, groupRows?: number): Uint8Array {
  const bytes = encodeTicks(part, groupRows);
  expectEqual(decodeTicksWithArrow(bytes), part);
  expectEqual(decodeTicks(bytes), part);
  expectEqual(decodeTicks(encodeTicksWithArrow(part, groupRows)), part);
  const index = indexTickFile(bytes);
  expect([...index.keyIndexes.keys()]).toEqual(part.symbols);
  part.symbols.forEach((symbol, i) => {
    const { t, p } = readSymbolTicks(bytes, index, symbol)!;
    expect(bits(t).equals(bits(part.t.subarray(part.offsets[i], part.offsets[i + 1])))).toBe(true);
    expect(bits(p).equals(bits(part.p.subarray(part.offsets[i], part.offsets[i + 1])))).toBe(true);
  });
  expect(Buffer.compare(encodeTicks(decodeTicks(bytes), groupRows), bytes)).toBe(0);
  return bytes;
}

const groupRows = fc.constantFrom(7, 8, 9, 50, 257, 1000);
const drawPart = fc.record({
  sizes: groupRows.chain((rows) =>
    fc.array(fc.constantFrom(1, 2, 7, 8, 9, 31, 32, 33, 127, 128, 129, rows, rows + 1, Math.max(1, rows - 1)), {
      minLength: 1,
      maxLength: 8,
    }),
  ),
  names: fc.array(fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('', '🚀', 'é', '￿', '\u0000x', 'A.B C?')), {
    minLength: 1,
    maxLength: 5,
  }),
  times: fc.constantFrom<PartShape['times'][]>('equal steps', 'shared', 'random', 'whole range'),
  distinct: fc.constantFrom(0, 1, 2, 100, 256, 257, 1001),
});

describe('a part of ticks', () => {
  test('decodes with every reader in any row groups', () => {
    checkProperty([drawPart, groupRows, fc.nat()], share * 40, (part, rows, from) => {
      expectSame(partOf(part, draws(from)), rows);
    });
  });

  test('decodes from row groups of one row each', () => {
    expectSame(partOf({ sizes: [3, 1, 5], names: ['A'], times: 'random', distinct: 2 }, draws(seed)), 1);
  });

  test('decodes with runs of equal prices of any length', () => {
    checkProperty(
      [fc.array(fc.tuple(fc.nat(300), fc.nat(500)), { minLength: 1, maxLength: 30 })],
      share * 60,
      (runLength) => {
        const p = Float64Array.from(runLength.flatMap(([rows, price]) => Array<number>(rows + 1).fill(price / 500)));
        const t = p.map((_, i) => first + i * 1000);
        expectSame({ symbols: ['A'], offsets: Float64Array.of(0, p.length), t, p }, 1000);
      },
    );
  });

  test('is encoded from a view of larger columns as it is alone', () => {
    const part = partOf({ sizes: [100, 50], names: ['A'], times: 'random', distinct: 9 }, draws(seed));
    const [t, p] = [new Float64Array(151), new Float64Array(151)];
    t.set(part.t, 1);
    p.set(part.p, 1);
    const larger = encodeTicks({ ...part, t: t.subarray(1), p: p.subarray(1) });
    expect(Buffer.compare(larger, encodeTicks(part))).toBe(0);
  });

  const parts: [string, PartShape][] = [
    ['one tick', { sizes: [1], names: ['A'], times: 'random', distinct: 1 }],
    ['exactly full pages', { sizes: [20_480, 20_480, 40_960], names: ['A'], times: 'shared', distinct: 500 }],
    [
      'full pages and one row',
      { sizes: [20_481, 10_239, 1, 10_240, 20_479], names: ['B'], times: 'random', distinct: 300 },
    ],
    ['one exactly full row group', { sizes: [122_880], names: ['C'], times: 'equal steps', distinct: 256 }],
    ['one row group and one row', { sizes: [122_879, 2], names: ['D'], times: 'random', distinct: 257 }],
    ['distinct prices', { sizes: [60_000, 70_000], names: ['E'], times: 'random', distinct: 0 }],
    ['as many prices as indexes', { sizes: [240_000], names: ['F'], times: 'whole range', distinct: 65_536 }],
    ['shared times', { sizes: Array(400).fill(700), names: ['G 🚀', ''], times: 'shared', distinct: 1001 }],
  ];
  test.each(share === 1 ? parts : parts.filter((_, i) => i < 3 || i === 4))('of %s decodes', (_, part) => {
    expectSame(partOf(part, draws(seed)));
  });

  test('decodes with as many distinct prices as indexes, and with more', () => {
    for (const distinct of share === 1 ? [65_536, 65_537] : [65_537]) {
      const rows = 2 * distinct + 2;
      const part = partOf({ sizes: [rows], names: ['A'], times: 'random', distinct: 1 }, draws(seed));
      part.p.forEach((_, i) => {
        part.p[i] = (i % distinct) / 2 ** 17;
      });
      expectSame(part, rows);
    }
  });

  test('is smaller than by parquet-wasm, whether times differ or are shared', () => {
    for (const times of ['random', 'shared'] as const) {
      const part = partOf({ sizes: Array(300).fill(700), names: ['A'], times, distinct: 500 }, draws(seed));
      expect(encodeTicks(part).length).toBeLessThan(encodeTicksWithArrow(part).length);
    }
  });
});

test('has the same rows and types in DuckDB, and bounds that skip no row', async () => {
  const folder = scratchFolder();
  const duckdb = await (await DuckDBInstance.create(':memory:')).connect();
  const rowsOf = async (sql: string) => (await duckdb.runAndReadAll(sql)).getRowsJson();
  let file = 0;
  // parquet-wasm shortens bounds of more than 64 bytes. Ours are exact.
  const shortNames = drawPart.filter(({ names }) => names.every((name) => Buffer.byteLength(name) < 64));
  await checkAsyncProperty([shortNames, groupRows, fc.nat()], share * 20, async (made, rows, from) => {
    const part = partOf(made, draws(from));
    const [native, reference] = [join(folder, `own-${file}.parquet`), join(folder, `plain-${file++}.parquet`)];
    writeFileSync(native, encodeTicks(part, rows));
    writeFileSync(reference, encodeTicksWithArrow(part, rows));
    expect(await rowsOf(`describe from '${native}'`)).toEqual(await rowsOf(`describe from '${reference}'`));
    expect(await rowsOf(`from '${native}'`)).toEqual(await rowsOf(`from '${reference}'`));
    const row = Math.floor(part.t.length / 2);
    for (const where of [`t = make_timestamptz(${part.t[row]! * 1000})`, `p = ${part.p[row]}`, `symbol >= '🚀'`]) {
      const count = (path: string) => rowsOf(`select count(*) from '${path}' where ${where}`);
      expect(await count(native)).toEqual(await count(reference));
    }
    const bounds = (path: string) =>
      rowsOf(
        `select row_group_id, path_in_schema, stats_min_value, stats_max_value, stats_null_count, num_values
           from parquet_metadata('${path}') order by all`,
      );
    expect(await bounds(native)).toEqual(await bounds(reference));
  });
  duckdb.closeSync();
});
