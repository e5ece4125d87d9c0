import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { datasets } from '../../src/archive/format/datasets.ts';
import { type SeriesColumns, sliceSeries } from '../../src/archive/format/series.ts';
import { decompressPage } from '../../src/archive/parquet/page-decoder.ts';
import { createFileRecord, createSymbolKeyReader, readFileKeys } from '../../src/archive/parquet/row-group-index.ts';
import {
  type CellValue,
  decodeRows,
  decodeRowsWithArrow,
  encodeRowsWithArrow,
} from '../../src/archive/parquet/rows.ts';
import { decodeSeries, openSeriesFileWriter } from '../../src/archive/parquet/series-file.ts';
import { indexSymbolRows, readIndexedColumn } from '../../src/archive/parquet/symbol-row-index.ts';
import { rowGroupRows } from '../../src/archive/parquet/writer.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import { drawFrom } from '../faults/draw.ts';
import { expectSame } from '../harness/expect-same.ts';
import { checkAsyncProperty, checkProperty, printSeed } from '../harness/properties.ts';
import { share } from '../harness/share.ts';
import { encodeSeries } from './encode-series.ts';
import { day0, scratchFolder } from './scratch.ts';

// Files of a series, tested against parquet-wasm and DuckDB.

const seed = printSeed('series-file');

const pageRows = 20_480;

/** Which rows of a column are missing. */
const patterns = {
  none: () => false,
  all: () => true,
  alternating: (row) => row % 2 === 1,
  'first only': (row) => row === 0,
  'last only': (row, rows) => row === rows - 1,
  'all but the last': (row, rows) => row !== rows - 1,
  'runs of 8': (row) => (row >> 3) % 2 === 0,
  'runs of 13': (row) => Math.floor(row / 13) % 2 === 0,
  'a whole page': (row) => row >= pageRows && row < 2 * pageRows,
  random: (_, __, draw) => draw < 0.3,
} as const satisfies Record<string, (row: number, rows: number, draw: number) => boolean>;
type Pattern = keyof typeof patterns;

/** How the numbers repeat; `distinct` 0: all differ. */
interface Shape {
  readonly sizes: readonly number[];
  readonly names: readonly string[];
  readonly nulls: readonly [Pattern, Pattern, Pattern, Pattern];
  readonly distinct: number;
}

const special = [0, -0, 1e300, -1, Number.MIN_VALUE, -Number.MAX_VALUE, 0.1 + 0.2];

function createSeries({ sizes, names, nulls, distinct }: Shape, from: number): SeriesColumns {
  const draw = drawFrom(from);
  const symbols = [...new Set(sizes.map((_, i) => `${names[i % names.length]}${i}`))].sort(compareUtf8);
  const offsets = new Float64Array(symbols.length + 1);
  symbols.forEach((_, i) => {
    offsets[i + 1] = offsets[i]! + sizes[i]!;
  });
  const rows = offsets.at(-1)!;
  const t = new Float64Array(rows);
  symbols.forEach((_, s) => {
    for (let row = offsets[s]!, time = day0; row < offsets[s + 1]!; row++) t[row] = time += 1 + draw.below(50);
  });
  const values = nulls.map((pattern, c) =>
    Float64Array.from({ length: rows }, (_, row) => {
      const chance = draw();
      if (patterns[pattern](row, rows, chance)) return Number.NaN;
      if (distinct === 0) return draw();
      return c === 3 && row % 5 === 0 ? draw.one(special) : draw.below(distinct) / distinct;
    }),
  );
  // Half of the series have finer times, which need not lie near the row's.
  const toTimes = (pattern: Pattern): Float64Array =>
    Float64Array.from(t, (ms, row) =>
      patterns[pattern](row, rows, draw()) ? Number.NaN : ms * 1000 + draw.below(2e6),
    );
  const times = from % 2 === 0 ? undefined : [toTimes(nulls[0]), toTimes(nulls[2])];
  const hasTimes = times?.some((column) => !column.every(Number.isNaN)) === true;
  return { symbols, offsets, t, values, texts: [], ...(hasTimes && { times }) };
}

const toBytes = ({ buffer, byteOffset, byteLength }: Float64Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

function expectEqual(actual: SeriesColumns, expected: SeriesColumns): void {
  expect(actual.symbols).toEqual(expected.symbols);
  expect([...actual.offsets]).toEqual([...expected.offsets]);
  expect(toBytes(actual.t).equals(toBytes(expected.t))).toBe(true);
  expect(actual.values.length).toBe(expected.values.length);
  const unknown = new Float64Array(actual.t.length).fill(Number.NaN);
  const listNumbers = ({ values, times = [unknown, unknown] }: SeriesColumns): Float64Array[] => [...values, ...times];
  listNumbers(actual).forEach((column, c) => {
    // The bits of NaN are not stored. -0 and 0 differ.
    const numbers = listNumbers(expected)[c]!;
    expect(column.length).toBe(numbers.length);
    expect(
      column.every((n, row) => Object.is(n, numbers[row])),
      `column ${c}`,
    ).toBe(true);
  });
}

const toRows = ({ symbols, offsets, t, values, times }: SeriesColumns): CellValue[][] =>
  symbols.flatMap((symbol, s) =>
    Array.from({ length: offsets[s + 1]! - offsets[s]! }, (_, i) => {
      const row = offsets[s]! + i;
      const cells = [...values, ...(times ?? [null, null])].map((column) => column?.[row] ?? Number.NaN);
      return [symbol, t[row]!, ...cells.map((cell) => (Number.isNaN(cell) ? null : cell))];
    }),
  );

/** Rows `from` to `to`, as a reader of some row groups gets them. */
function pickRows(series: SeriesColumns, ranges: readonly (readonly [number, number])[]): SeriesColumns {
  const rows = ranges.flatMap(([from, to]) => Array.from({ length: to - from }, (_, i) => from + i));
  const symbols: string[] = [];
  const starts: number[] = [];
  rows.forEach((row, at) => {
    const symbol = series.symbols[series.offsets.findLastIndex((offset) => offset <= row)]!;
    if (symbols.at(-1) === symbol) return;
    symbols.push(symbol);
    starts.push(at);
  });
  const pick = (column: Float64Array): Float64Array => Float64Array.from(rows, (row) => column[row]!);
  return {
    symbols,
    offsets: Float64Array.from([...starts, rows.length]),
    t: pick(series.t),
    values: series.values.map(pick),
    times: series.times?.map(pick),
    texts: [],
  };
}

/** Both readers of ours return what was written, and writing it again gives the same bytes. */
function expectRoundTrip(series: SeriesColumns, groupRows?: number): Uint8Array {
  const bytes = encodeSeries('quotes', series, groupRows);
  expectSame(decodeRowsWithArrow(datasets.quotes.columns, bytes), toRows(series));
  const decoded = decodeSeries('quotes', bytes);
  expectEqual(decoded, series);
  expect(Buffer.compare(encodeSeries('quotes', decoded, groupRows), bytes)).toBe(0);
  return bytes;
}

const anyPattern = fc.constantFrom(...(Object.keys(patterns) as Pattern[]));
const anyGroupRows = fc.constantFrom(7, 8, 9, 50, 257, 1000);
const anyShape: fc.Arbitrary<Shape> = fc.record({
  sizes: anyGroupRows.chain((rows) =>
    fc.array(fc.constantFrom(1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 127, 128, 129, rows, rows + 1, rows - 1), {
      minLength: 1,
      maxLength: 8,
    }),
  ),
  names: fc.array(
    fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('', '🚀', 'é', '￿', '\u{e000}', '\u0000x', 'A.B C?')),
    { minLength: 1, maxLength: 5 },
  ),
  nulls: fc.tuple(anyPattern, anyPattern, anyPattern, anyPattern),
  distinct: fc.constantFrom(0, 1, 2, 100, 256, 257, 1001),
});

describe('a file of a series', () => {
  test('decodes with both readers in any row groups', () => {
    checkProperty([anyShape, anyGroupRows, fc.nat()], share * 60, (shape, rows, from) => {
      expectRoundTrip(createSeries(shape, from), rows);
    });
  });

  test.each(Object.keys(patterns) as Pattern[])('decodes with %s of the numbers missing', (pattern) => {
    for (const rows of [1, 7, 8, 9, 63, 64, 65, 1000]) {
      const nulls = [pattern, 'none', pattern, 'all'] as const;
      expectRoundTrip(createSeries({ sizes: [rows], names: ['A'], nulls, distinct: 9 }, seed + rows), 50);
    }
  });

  const longer = [
    pageRows - 1,
    pageRows,
    pageRows + 1,
    2 * pageRows + 7,
    rowGroupRows - 1,
    rowGroupRows,
    rowGroupRows + 1,
  ];
  test.each(share === 1 ? longer : [pageRows + 1])('decodes with %i rows', (rows) => {
    for (const nulls of [
      ['a whole page', 'random', 'none', 'all but the last'],
      ['alternating', 'last only', 'all', 'first only'],
    ] as const)
      for (const distinct of [0, 100])
        expectRoundTrip(createSeries({ sizes: [3, rows - 5, 2], names: ['A'], nulls, distinct }, seed));
  });

  test('decodes from row groups of one row each', () => {
    const nulls = ['none', 'alternating', 'all', 'first only'] as const;
    expectRoundTrip(createSeries({ sizes: [3, 1, 5], names: ['A'], nulls, distinct: 2 }, seed), 1);
  });

  test('decodes any of its row groups', () => {
    checkProperty(
      [anyShape, fc.constantFrom(7, 8, 9, 50), fc.nat(), fc.nat()],
      share * 40,
      (shape, rows, from, mask) => {
        const series = createSeries(shape, from);
        const bytes = encodeSeries('quotes', series, rows);
        const all = Array.from({ length: Math.ceil(series.t.length / rows) }, (_, i) => i);
        const groups = all.filter((i) => (mask >> (i % 30)) % 2 === 1);
        const expected = pickRows(
          series,
          groups.map((i) => [i * rows, Math.min((i + 1) * rows, series.t.length)] as const),
        );
        expectEqual(decodeSeries('quotes', bytes, groups), expected);
        if (groups.length > 0)
          expectSame(decodeRowsWithArrow(datasets.quotes.columns, bytes, groups), toRows(expected));
        expect(() => decodeSeries('quotes', bytes, [all.length])).toThrow();
      },
    );
  });

  test('decodes if parquet-wasm wrote it, whose nulls are stored in runs', () => {
    checkProperty([anyShape, anyGroupRows, fc.nat()], share * 30, (shape, rows, from) => {
      const series = createSeries(shape, from);
      expectEqual(decodeSeries('quotes', encodeRowsWithArrow(datasets.quotes.columns, toRows(series), rows)), series);
    });
  });

  test('has the rows that other readers of ours get', () => {
    checkProperty([anyShape, anyGroupRows, fc.nat()], share * 20, (shape, rows, from) => {
      const series = createSeries(shape, from);
      expectSame(decodeRows(datasets.quotes.columns, encodeSeries('quotes', series, rows)), toRows(series));
    });
  });

  test('has the same bytes however its symbols are added', () => {
    checkProperty(
      [anyShape, anyGroupRows, fc.nat(), fc.array(fc.nat(8), { maxLength: 8 })],
      share * 40,
      (shape, rows, from, cuts) => {
        const series = createSeries(shape, from);
        const ends = [0, ...new Set(cuts.map((cut) => Math.min(cut, series.symbols.length))), series.symbols.length];
        ends.sort((a, b) => a - b);
        const file = openSeriesFileWriter('quotes', rows);
        const reused = series.values.map(() => new Float64Array(series.t.length));
        for (const [i, end] of ends.entries()) {
          if (i === 0 || end === ends[i - 1]) continue;
          const part = sliceSeries(series, ends[i - 1]!, end);
          // A caller may reuse its columns after it added them.
          const values = part.values.map((column, c) => {
            reused[c]!.fill(7);
            reused[c]!.set(column);
            return reused[c]!.subarray(0, column.length);
          });
          file.add({ ...part, t: part.t.slice(), values });
        }
        for (const column of reused) column.fill(8);
        expect(Buffer.compare(file.end(), encodeSeries('quotes', series, rows))).toBe(0);
      },
    );
  });

  test('gives the rows of one symbol, or any of its rows, without reading the others', () => {
    const { columns } = datasets.quotes;
    checkProperty([anyShape, anyGroupRows, fc.nat(), fc.nat(), fc.nat()], share * 40, (shape, rows, from, a, b) => {
      const series = createSeries(shape, from);
      const files = [encodeSeries('quotes', series, rows), encodeRowsWithArrow(columns, toRows(series), rows)];
      for (const file of files) {
        const index = indexSymbolRows(columns, ['symbol'], file);
        const unknown = new Float64Array(series.t.length).fill(Number.NaN);
        const numbers = [...series.values, ...(series.times ?? [unknown, unknown])];
        expect([...index.keyIndexes.keys()]).toEqual(series.symbols);
        expect([...index.offsets]).toEqual([...series.offsets]);
        const [first, last] = [a % (series.t.length + 1), b % (series.t.length + 1)].sort((x, y) => x - y) as [
          number,
          number,
        ];
        const ranges = [[first, last], ...series.symbols.map((_, s) => [series.offsets[s]!, series.offsets[s + 1]!])];
        for (const [start, end] of ranges as [number, number][]) {
          columns.slice(2).forEach(({ name }, c) => {
            const expected = numbers[c]!.subarray(start, end);
            const read = readIndexedColumn(file, index, name, start, end, decompressPage);
            if (read === null) expect(expected.every(Number.isNaN)).toBe(true);
            else expectSame([...(read as Float64Array)], [...expected]);
          });
          expectSame(readIndexedColumn(file, index, 't', start, end, decompressPage), series.t.slice(start, end));
        }
      }
    });
  });

  test('has a record of its row groups that equals the one that a verification makes', () => {
    checkProperty([anyShape, anyGroupRows, fc.nat()], share * 20, (shape, rows, from) => {
      const series = createSeries(shape, from);
      const bytes = encodeSeries('quotes', series, rows);
      const record = createFileRecord(
        'quotes/x',
        bytes,
        'x',
        createSymbolKeyReader(series, (row) => [series.t[row]!]),
      );
      expect(createFileRecord('quotes/x', bytes, 'x', readFileKeys('quotes', bytes))).toEqual(record);
      expect(record.groups.map((group) => group.rows).reduce((a, b) => a + b)).toBe(series.t.length);
    });
  });
});

test('DuckDB reads the same rows, types and nulls as from parquet-wasm, and no bound skips a row', async () => {
  const folder = scratchFolder();
  const duckdb = await (await DuckDBInstance.create(':memory:')).connect();
  const query = async (sql: string) => (await duckdb.runAndReadAll(sql)).getRowsJson();
  let file = 0;
  await checkAsyncProperty([anyShape, anyGroupRows, fc.nat()], share * 15, async (shape, rows, from) => {
    const series = createSeries(shape, from);
    const [native, reference] = [join(folder, `own-${file}.parquet`), join(folder, `plain-${file++}.parquet`)];
    writeFileSync(native, encodeSeries('quotes', series, rows));
    writeFileSync(reference, encodeRowsWithArrow(datasets.quotes.columns, toRows(series), rows));
    for (const sql of [
      `describe from '%'`,
      `from '%'`,
      `select name, type, repetition_type, converted_type, logical_type from parquet_schema('%') offset 1`,
      `select row_group_id, path_in_schema, stats_null_count, num_values from parquet_metadata('%') order by all`,
      `select count(bid), count(ask), count(bid_size), count(ask_size) from '%'`,
    ])
      expectSame(await query(sql.replace('%', native)), await query(sql.replace('%', reference)), sql);
    // What is missing is null for SQL, never NaN.
    expect(
      await query(
        `select count(*) from '${native}' where isnan(bid) or isnan(ask) or isnan(bid_size) or isnan(ask_size)`,
      ),
    ).toEqual([['0']]);
    for (const name of ['bid', 'ask', 'bid_size', 'ask_size']) {
      for (const where of [
        `${name} is null`,
        `${name} is not null`,
        `${name} >= 0.5`,
        `${name} = 0`,
        `${name} < 0`,
        `${name} > 1e299`,
      ]) {
        const sql = `select count(*) from '%' where ${where}`;
        expectSame(await query(sql.replace('%', native)), await query(sql.replace('%', reference)), sql);
      }
      // Bounds of each row group include its numbers.
      const outside = await query(
        `with bounds as (
             select row_group_id as g, stats_min_value::double as lo, stats_max_value::double as hi
             from parquet_metadata('${native}') where path_in_schema = '${name}'),
           rows as (select file_row_number // ${rows} as g, ${name} as v from read_parquet('${native}', file_row_number = true))
           select count(*) from rows join bounds using (g) where v is not null and (lo is null or v < lo or v > hi)`,
      );
      expect(outside).toEqual([['0']]);
    }
    const row = from % series.t.length;
    const symbol = series.symbols[series.offsets.findLastIndex((offset) => offset <= row)]!;
    if (!symbol.includes('\0')) {
      const where = `symbol = '${symbol.replaceAll("'", "''")}' and t = make_timestamptz(${series.t[row]! * 1000})`;
      expect(await query(`select count(*) from '${native}' where ${where}`)).toEqual([['1']]);
    }
  });
  duckdb.closeSync();
});

test('DuckDB reads files of several pages, some of them without any number', async () => {
  const folder = scratchFolder();
  const duckdb = await (await DuckDBInstance.create(':memory:')).connect();
  const query = async (sql: string) => (await duckdb.runAndReadAll(sql)).getRowsJson();
  for (const [i, distinct] of [0, 2, 100].entries()) {
    const nulls = ['a whole page', 'all', 'random', 'all but the last'] as const;
    const series = createSeries({ sizes: [5, 3 * pageRows, 9], names: ['A'], nulls, distinct }, seed + i);
    const [native, reference] = [join(folder, `own-${i}.parquet`), join(folder, `plain-${i}.parquet`)];
    writeFileSync(native, encodeSeries('quotes', series, 3 * pageRows - 100));
    writeFileSync(reference, encodeRowsWithArrow(datasets.quotes.columns, toRows(series)));
    const of = (path: string): string => `read_parquet('${path}', file_row_number = true)`;
    const isDifferent = datasets.quotes.columns.map(({ name }) => `a.${name} is distinct from b.${name}`).join(' or ');
    const compared = await query(
      `select count(*), count(*) filter (${isDifferent}) from ${of(native)} a join ${of(reference)} b using (file_row_number)`,
    );
    expect(compared).toEqual([[String(series.t.length), '0']]);
    // A reader may start anywhere.
    for (const from of [0, pageRows - 1, pageRows, 2 * pageRows + 8, 3 * pageRows - 101]) {
      const rows = (path: string) => query(`from '${path}' limit 3 offset ${from}`);
      expect(await rows(native)).toEqual(await rows(reference));
    }
  }
  duckdb.closeSync();
});

describe('a damaged file of a series', () => {
  const nulls = ['random', 'none', 'all', 'runs of 13'] as const;
  const series = createSeries({ sizes: [40, 60, 30], names: ['A', '🚀'], nulls, distinct: 50 }, seed);
  const bytes = encodeSeries('quotes', series, 50);

  test('cannot be read if it is cut anywhere', () => {
    for (let length = 0; length < bytes.length; length += length < 400 || length > bytes.length - 400 ? 1 : 37) {
      expect(() => decodeSeries('quotes', bytes.subarray(0, length)), `${length}`).toThrow();
    }
  });

  test('with a flipped bit gives an error or as many rows as it says, and never hangs', () => {
    const draw = drawFrom(seed);
    let readable = 0;
    for (let n = 0; n < 400; n++) {
      const flipped = bytes.slice();
      flipped[draw.below(flipped.length)]! ^= 1 << draw.below(8);
      let read: SeriesColumns;
      try {
        read = decodeSeries('quotes', flipped);
      } catch (error) {
        expect(error).toBeDefined();
        continue;
      }
      readable++;
      expect(read.offsets.at(-1)).toBe(read.t.length);
      for (const column of read.values) expect(column.length).toBe(read.t.length);
    }
    expect(readable).toBeLessThan(400);
  });

  test('with other columns, or in another order, is refused', () => {
    const rows = toRows(series);
    const without = datasets.quotes.columns.filter(({ name }) => name !== 'ask_size');
    const others = [
      encodeRowsWithArrow(
        without,
        rows.map((row) => row.slice(0, 5)),
      ),
      encodeRowsWithArrow(
        datasets.quotes.columns.toReversed(),
        rows.map((row) => row.toReversed()),
      ),
    ];
    for (const file of others)
      expect(() => decodeSeries('quotes', file)).toThrow('does not have the columns of quotes');
  });
});
