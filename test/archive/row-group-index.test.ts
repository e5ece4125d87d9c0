import { describe, expect, test } from 'vitest';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { candleIntervals, computeCandles } from '../../src/archive/format/candles.ts';
import { type DatasetName, datasets } from '../../src/archive/format/datasets.ts';
import { salvageRowGroups } from '../../src/archive/integrity/salvage-row-groups.ts';
import { encodeBooks } from '../../src/archive/parquet/books-file.ts';
import { createFileRecord, createRowKeyReader, readFileKeys } from '../../src/archive/parquet/row-group-index.ts';
import { type CellValue, decodeRows, encodeRows } from '../../src/archive/parquet/rows.ts';
import { decodeTicks, encodeCandles, encodeTicks } from '../../src/archive/parquet/ticks-file.ts';
import { rowGroupRows } from '../../src/archive/parquet/writer.ts';
import { drawFrom } from '../faults/seeds.ts';
import { day0 } from './scratch.ts';

const half = 150_000;
/** Two symbols with equally many ticks, half a second apart: three row groups as published. */
const part = {
  symbols: ['A', 'B 🚀'],
  offsets: Float64Array.of(0, half, 2 * half),
  t: Float64Array.from({ length: 2 * half }, (_, i) => day0 + (i % half) * 500),
  p: Float64Array.from({ length: 2 * half }, (_, i) => (i % 997) / 1000),
};

/** Every dataset in row groups of 50 rows, by its own writer. */
const files: readonly (readonly [DatasetName, Uint8Array])[] = (() => {
  const few = {
    symbols: part.symbols,
    offsets: Float64Array.of(0, 90, 200),
    t: new Float64Array(200),
    p: new Float64Array(200),
  };
  few.t.forEach((_, i) => {
    few.t[i] = day0 + (i < 90 ? i : i - 90) * 600_000;
    few.p[i] = i / 200;
  });
  const books = { ...few, side: new Uint8Array(200), level: new Int32Array(200), price: few.p, quantity: few.p };
  const rowsOf = (dataset: DatasetName): CellValue[][] =>
    Array.from({ length: 130 }, (_, i) =>
      datasets[dataset].columns.map(({ type, name, nullable }): CellValue => {
        if (datasets[dataset].order[0] === name) return `k${String(i).padStart(3, '0')}`;
        if (nullable && i % 3 === 0) return null;
        if (type === 'string') return `${name} ${i}`;
        if (type === 'strings') return ['x', `${i}`];
        if (type === 'boolean') return i % 2 === 0;
        return type === 'double' ? i / 8 : day0 % 2 ** 31;
      }),
    );
  return [
    ['ticks', encodeTicks(few, 50)],
    ['orderbooks', encodeBooks(books, 50)],
    ['candles_1h', encodeCandles(computeCandles(few, new Map(), candleIntervals['1h']), 10)],
    ...(['symbols', 'markets', 'coverage', 'conflicts'] as const).map((dataset): readonly [DatasetName, Uint8Array] => [
      dataset,
      encodeRows(datasets[dataset].columns, rowsOf(dataset), 50),
    ]),
  ];
})();

const recorded = (dataset: DatasetName, bytes: Uint8Array) =>
  createFileRecord('path', bytes, sha256(bytes), readFileKeys(dataset, bytes));

describe('the record of a file', () => {
  test.each(files)('of %s contains every byte once, and the first and last key of each row group', (dataset, bytes) => {
    const { groups, footer } = recorded(dataset, bytes);
    expect(groups.length).toBeGreaterThan(2);
    expect(groups[0]!.start).toBe(4);
    groups.forEach((group, i) => {
      expect(group.end).toBe(groups[i + 1]?.start ?? bytes.length - footer.length);
      expect(sha256(bytes.subarray(group.start, group.end))).toBe(group.sha256);
    });
    expect(Buffer.compare(footer, bytes.subarray(bytes.length - footer.length))).toBe(0);
    const rows = decodeRows(datasets[dataset].columns, bytes);
    const keyAt = createRowKeyReader(dataset, rows);
    let row = 0;
    for (const group of groups) {
      expect(group.first).toEqual(keyAt(row));
      row += group.rows;
      expect(group.last).toEqual(keyAt(row - 1));
    }
    expect(row).toBe(rows.length);
  });

  test('of a part of usual size has row groups of usual size', () => {
    const { groups } = recorded('ticks', encodeTicks(part));
    expect(groups.map((group) => group.rows)).toEqual([rowGroupRows, rowGroupRows, 2 * half - 2 * rowGroupRows]);
  });
});

describe('salvage of a damaged file', () => {
  test.each(files)('of %s keeps every row group except that with the flipped bit', (dataset, bytes) => {
    const record = recorded(dataset, bytes);
    const rows = decodeRows(datasets[dataset].columns, bytes);
    const draw = drawFrom(7);
    for (let n = 0; n < 40; n++) {
      const at = draw.below(bytes.length);
      const bad = bytes.slice();
      bad[at]! ^= 1 << draw.below(8);
      const damagedGroup = record.groups.findIndex((group) => group.start <= at && at < group.end);
      const { wholeFile, intactGroups, readableFile, lostRanges } = salvageRowGroups(bad, record, rows.length);
      if (damagedGroup < 0) {
        expect(sha256(wholeFile!)).toBe(record.sha256);
        continue;
      }
      expect([wholeFile, intactGroups.length, intactGroups.includes(damagedGroup)]).toEqual([
        null,
        record.groups.length - 1,
        false,
      ]);
      const { first, last, rows: lostRows } = record.groups[damagedGroup]!;
      expect(lostRanges).toEqual([{ keys: { first, last }, rows: lostRows }]);
      const before = record.groups.slice(0, damagedGroup).reduce((sum, group) => sum + group.rows, 0);
      expect(decodeRows(datasets[dataset].columns, readableFile!, intactGroups)).toEqual([
        ...rows.slice(0, before),
        ...rows.slice(before + lostRows),
      ]);
    }
  });

  test('keeps the rows before a truncation at any length', () => {
    const [, bytes] = files[0]!;
    const record = recorded('ticks', bytes);
    for (let length = 0; length <= bytes.length; length++) {
      const { wholeFile, intactGroups } = salvageRowGroups(bytes.slice(0, length), record, 200);
      const end = record.groups.at(-1)!.end;
      expect(intactGroups).toEqual(record.groups.flatMap((group, i) => (group.end <= length ? [i] : [])));
      expect(wholeFile !== null).toBe(length >= end);
    }
  });

  test('loses only the row group with added or missing bytes', () => {
    const [, bytes] = files[0]!;
    const record = recorded('ticks', bytes);
    const draw = drawFrom(9);
    for (let n = 0; n < 200; n++) {
      const at = draw.below(bytes.length);
      const added = Buffer.alloc(draw.below(9), 7);
      const removed = draw.below(9);
      const bad = Buffer.concat([bytes.subarray(0, at), added, bytes.subarray(Math.min(bytes.length, at + removed))]);
      const { intactGroups } = salvageRowGroups(bad, record, 200);
      const touched = record.groups.filter((group) => group.start <= at + removed && at <= group.end).length;
      expect(intactGroups.length).toBeGreaterThanOrEqual(record.groups.length - touched);
      for (const i of intactGroups)
        expect(decodeTicks(salvageRowGroups(bad, record, 200).readableFile!, [i]).t.length).toBe(
          record.groups[i]!.rows,
        );
    }
  });

  test('keeps nothing without a record, since nothing can be proven', () => {
    const [, bytes] = files[0]!;
    expect(salvageRowGroups(bytes, undefined, 200)).toEqual({
      wholeFile: null,
      intactGroups: [],
      readableFile: null,
      lostRanges: [{ keys: null, rows: 200 }],
    });
  });
});
