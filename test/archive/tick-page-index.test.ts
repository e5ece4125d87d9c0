import { Table, tableToIPC } from 'apache-arrow';
import fc from 'fast-check';
import { Compression, Table as WasmTable, WriterPropertiesBuilder, WriterVersion, writeParquet } from 'parquet-wasm';
import { describe, expect, test } from 'vitest';
import { type Column, datasets } from '../../src/archive/format/datasets.ts';
import type { PartColumns } from '../../src/archive/format/tick-columns.ts';
import { createRecordBatch, toArrowData, toArrowSchema } from '../../src/archive/parquet/arrow-data.ts';
import { encodeRows } from '../../src/archive/parquet/rows.ts';
import { decodeTicks, encodeTicks, indexTickFile, readSymbolTicks } from '../../src/archive/parquet/ticks-file.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import { checkProperty, printSeed } from '../harness/properties.ts';

const seed = printSeed('ticks-index');

interface Drawn {
  readonly sizes: readonly number[];
  /** The longest time between ticks, in ms. */
  readonly step: number;
  /** The number of distinct prices; 0: all differ. */
  readonly prices: number;
  readonly start: number;
}

/** A random part; `random` is from 0 to 1. */
function partOf({ sizes, step, prices, start }: Drawn, random: () => number): PartColumns {
  const symbols = sizes.map((_, i) => `${['S', 'é', '🚀'][i % 3]} ${i}`).sort(compareUtf8);
  const offsets = new Float64Array(sizes.length + 1);
  const rows = sizes.reduce((sum, size) => sum + size, 0);
  const [t, p] = [new Float64Array(rows), new Float64Array(rows)];
  let row = 0;
  sizes.forEach((size, s) => {
    for (let i = 0, time = start; i < size; i++, row++) {
      time += 1 + Math.floor(random() * step);
      t[row] = time;
      p[row] = prices === 0 ? random() : Math.floor(random() * prices) / 1000;
    }
    offsets[s + 1] = row;
  });
  return { symbols, offsets, t, p };
}

/** The linear congruential generator of Numerical Recipes: the same draws for the same seed. */
function draws(from: number): () => number {
  let state = from >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function expectSame(part: PartColumns): void {
  const file = encodeTicks(part);
  const index = indexTickFile(file);
  const plain = decodeTicks(file);
  expect([...index.keyIndexes.keys()]).toEqual(plain.symbols);
  plain.symbols.forEach((symbol, i) => {
    const [from, to] = [plain.offsets[i]!, plain.offsets[i + 1]!];
    const expected = { t: plain.t.subarray(from, to), p: plain.p.subarray(from, to) };
    const actual = readSymbolTicks(file, index, symbol);
    expect(Buffer.from(actual.t.buffer).equals(Buffer.from(expected.t.slice().buffer))).toBe(true);
    expect(Buffer.from(actual.p.buffer).equals(Buffer.from(expected.p.slice().buffer))).toBe(true);
  });
  expect(readSymbolTicks(file, index, 'none').t.length).toBe(0);
}

test("reading a symbol's pages equals decoding the whole part", () => {
  const drawn = fc.record({
    sizes: fc.array(fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 3000 })), {
      minLength: 1,
      maxLength: 30,
    }),
    step: fc.constantFrom(1, 2, 60_000, 3_000_000_000),
    prices: fc.constantFrom(0, 1, 2, 100, 1001),
    start: fc.constantFrom(946_684_800_000, 1_780_272_000_000, 4_102_444_000_000),
    from: fc.nat(),
  });
  checkProperty([drawn], 40, ({ from, ...rest }) => expectSame(partOf(rest, draws(from))));
});

test('it does over many pages and row groups, with dictionaries abandoned halfway', () => {
  const sizes = [1, 19_999, 20_001, 5, 80_000, 40_000, 1];
  for (const prices of [0, 500]) {
    for (const step of [1, 40_000])
      expectSame(partOf({ sizes, step, prices, start: 1_780_272_000_000 }, draws(seed + prices)));
  }
});

test('a truncated or changed file is an error or some ticks, and never hangs', () => {
  const file = encodeTicks(partOf({ sizes: [30, 200, 7], step: 1000, prices: 50, start: 1_780_272_000_000 }, draws(1)));
  const random = draws(seed);
  for (let iteration = 0; iteration < 2000; iteration++) {
    const damaged = Uint8Array.from(
      file.subarray(0, iteration % 2 === 0 ? file.length : Math.floor(random() * file.length)),
    );
    if (damaged.length > 0) damaged[Math.floor(random() * damaged.length)]! ^= 1 << Math.floor(random() * 8);
    try {
      const index = indexTickFile(damaged);
      for (const symbol of index.keyIndexes.keys()) readSymbolTicks(damaged, index, symbol);
    } catch (error) {
      expect(error).toBeInstanceOf(Error);
    }
  }
});

/** A file of these tick rows with the given writer properties. */
function storedAs(
  rows: readonly (readonly [string, number, number])[],
  properties: (builder: WriterPropertiesBuilder) => WriterPropertiesBuilder,
  columns: readonly Column[] = datasets.ticks.columns,
): Uint8Array {
  const schema = toArrowSchema(columns);
  const children = columns.map(({ type }, c) =>
    toArrowData(
      type,
      rows.map((row) => row[c]!),
    ),
  );
  const table = WasmTable.fromIPCStream(tableToIPC(new Table(schema, [createRecordBatch(schema, children)]), 'stream'));
  return writeParquet(table, properties(new WriterPropertiesBuilder().setCompression(Compression.ZSTD)).build());
}

describe("a file stored differently from our writer's", () => {
  const rows = [
    ['A', 1, 0.5],
    ['B', 1, 0.25],
  ] as const;
  const usual = (builder: WriterPropertiesBuilder) => builder;

  test('is read if the difference does not matter', () => {
    for (const hasSymbolDictionary of [true, false]) {
      const file = storedAs(rows, (builder) =>
        builder.setDictionaryEnabled(false).setColumnDictionaryEnabled('symbol', hasSymbolDictionary),
      );
      const index = indexTickFile(file);
      expect(readSymbolTicks(file, index, 'B')).toEqual({ t: Float64Array.of(1), p: Float64Array.of(0.25) });
      expect(index.memoryBytes).toBe(2 * 200 + 2 * 150);
    }
  });

  test('reports the memory of pages, symbols and cached dictionaries', () => {
    const index = indexTickFile(storedAs(rows, usual));
    // Two pages of times and prices, two symbols, one time and two prices of eight bytes.
    expect(index.memoryBytes).toBe(2 * 200 + 2 * 150 + 3 * 8);
  });

  test.each<[string, Uint8Array, string]>([
    ['without zstd', storedAs(rows, (b) => b.setCompression(Compression.SNAPPY)), 'not compressed with zstd'],
    ['with pages of version 2', storedAs(rows, (b) => b.setWriterVersion(WriterVersion.V2)), 'a page of unknown type'],
    ['with unsorted symbols', storedAs([...rows, rows[0]], usual), 'symbols are not sorted'],
    [
      'with a nullable column',
      storedAs(
        rows,
        usual,
        datasets.ticks.columns.map((column) => ({ ...column, nullable: column.name === 'p' })),
      ),
      'column p is nullable',
    ],
    ['with other columns', encodeRows(datasets.conflicts.columns, [['A', 1, 0.5, 0.25, 2, 0]]), 'column p is missing'],
    ['without content', new Uint8Array(7), ''],
  ])('%s is rejected', (_, file, sentence) => {
    expect(() => indexTickFile(file)).toThrow(sentence);
  });
});
