import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { encodeNumberChunk, noDefinitionLevels, type PageRange } from '../../src/archive/parquet/column-chunk.ts';
import { computeBounds } from '../../src/archive/parquet/column-statistics.ts';
import { encodings } from '../../src/archive/parquet/metadata.ts';
import { checkProperty } from '../harness/properties.ts';
import { share } from '../harness/share.ts';
import { day0 } from './scratch.ts';

const pages = (rows: number, pageRows: number): PageRange[] =>
  Array.from({ length: Math.ceil(rows / pageRows) }, (_, i) => {
    const [from, to] = [i * pageRows, Math.min(rows, (i + 1) * pageRows)];
    return { from, to, rows: to - from, definitionLevels: noDefinitionLevels };
  });

const encodeTimes = (times: readonly number[]) =>
  encodeNumberChunk(Float64Array.from(times), 'int64', pages(times.length, 300));
const hasDictionary = ({ encodings: used }: { readonly encodings: readonly number[] }): boolean =>
  used.includes(encodings.rleDictionary);

describe('times', () => {
  const repeat = (length: number, rows: number): number[] =>
    Array.from({ length: rows }, (_, i) => day0 + 7919 * ((i * i) % 97) + 60_000 * (i % length));

  test('may use a dictionary up to one distinct time in eight rows, also if they ascend', () => {
    const shared = Array.from({ length: 2000 }, (_, i) => day0 + 1e5 * Math.floor(Math.sin(i % 250) * 1e5) + (i % 250));
    expect(hasDictionary(encodeTimes(shared))).toBe(true);
    const ascending = Array.from({ length: 2000 }, (_, i) => day0 + (i % 250) ** 3);
    expect(hasDictionary(encodeTimes(ascending))).toBe(true);
  });

  test('use none above that, whether an ascending run or the distinct times show it', () => {
    const ascending = Array.from({ length: 2000 }, (_, i) => day0 + (i % 251) ** 3);
    expect(hasDictionary(encodeTimes(ascending))).toBe(false);
    const scattered = Array.from({ length: 2000 }, (_, i) => day0 + ((i * 83) % 251) ** 3);
    expect(hasDictionary(encodeTimes(scattered))).toBe(false);
    expect(hasDictionary(encodeTimes(repeat(1999, 2000)))).toBe(false);
  });

  test('have the bytes that each page has alone', () => {
    // The page in the middle is compressed to choose the encoding, and that result is stored.
    const times = Array.from({ length: 900 }, (_, i) => day0 + i * 1000 + ((i * 7919) % 997));
    const whole = encodeTimes(times).pieces;
    const middle = encodeNumberChunk(Float64Array.from(times.slice(300, 600)), 'int64', pages(300, 300)).pieces;
    expect(whole.slice(2, 4).map((piece) => Buffer.from(piece))).toEqual(middle.map((piece) => Buffer.from(piece)));
  });
});

test('the bounds of numbers are those of a sort, without NaN', () => {
  const numbers = fc.array(fc.double(), { maxLength: 9 });
  checkProperty([numbers], share * 2000, (values) => {
    const sorted = Float64Array.from(values.filter((value) => !Number.isNaN(value))).sort();
    const expected =
      sorted.length === 0
        ? { min: Number.POSITIVE_INFINITY, max: Number.NEGATIVE_INFINITY }
        : { min: sorted[0], max: sorted.at(-1) };
    expect(computeBounds(Float64Array.from(values))).toEqual(expected);
  });
});
