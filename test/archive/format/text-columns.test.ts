import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  compareTexts,
  concatTexts,
  copyTexts,
  createNullTexts,
  dropNullTexts,
  encodeTexts,
  findTextBounds,
  numberTexts,
  pickTexts,
  sliceTexts,
  viewTextBytes,
} from '../../../src/archive/format/text-columns.ts';
import { encodePlainByteArrays, encodePlainTexts } from '../../../src/archive/parquet/encodings.ts';
import { compareUtf8 } from '../../../src/base/symbol-name.ts';
import { checkProperty } from '../../harness/properties.ts';
import { listTexts } from '../texts.ts';

// Columns of texts as bytes, tested against arrays of strings.

type Texts = readonly (string | null)[];

const anyText = fc.oneof(
  fc.constantFrom(null, '', 'a', 'ab', 'b', 'é', '\u0000', '\ufeff', '\uffff', '😀', 'x'.repeat(100)),
  fc.string({ maxLength: 20 }),
  fc.string({ unit: 'grapheme', maxLength: 5 }),
);
const anyAscii = fc.option(fc.string({ unit: fc.constantFrom('0', '1', 'a', 'b'), maxLength: 3 }));
const anyTexts: fc.Arbitrary<Texts> = fc.oneof(
  fc.array(anyText, { maxLength: 30 }),
  fc.array(anyAscii, { maxLength: 60 }),
);
/** Texts, and rows of them in any order, some several times, others in a run. */
const anyRows = anyTexts.chain((texts) => {
  const row = fc.nat(Math.max(0, texts.length - 1));
  const run = fc.tuple(row, row).map(([a, b]) => Array.from({ length: Math.max(0, b - a) }, (_, i) => a + i));
  const rows = fc.oneof(
    fc.array(row, { maxLength: 40 }),
    fc.array(run, { maxLength: 4 }).map((runs) => runs.flat()),
  );
  return fc.tuple(fc.constant(texts), texts.length === 0 ? fc.constant([]) : rows);
});

const check = <T>(inputs: fc.Arbitrary<T>, body: (input: T) => void): void => checkProperty([inputs], 300, body);

const compareModel = (a: string | null, b: string | null): number =>
  a === b ? 0 : a === null ? -1 : b === null ? 1 : compareUtf8(a, b);

describe('a column of texts', () => {
  test('has the texts that it was made of', () => {
    check(anyTexts, (texts) => {
      expect(listTexts(encodeTexts(texts))).toEqual(texts);
    });
    expect(listTexts(createNullTexts(3))).toEqual([null, null, null]);
  });

  test('has U+FFFD for an unpaired surrogate, also where two would form a pair', () => {
    expect(listTexts(encodeTexts(['x\ud83d', '\ude00y', 'é']))).toEqual(['x\ufffd', '\ufffdy', 'é']);
  });

  test('is sliced, copied and joined', () => {
    check(fc.tuple(anyTexts, anyTexts, fc.nat(30), fc.nat(30)), ([texts, others, a, b]) => {
      const [from, to] = [Math.min(a, b, texts.length), Math.min(Math.max(a, b), texts.length)];
      const slice = sliceTexts(encodeTexts(texts), from, to);
      expect(listTexts(slice)).toEqual(texts.slice(from, to));
      expect(listTexts(copyTexts(encodeTexts(texts), from, to))).toEqual(texts.slice(from, to));
      expect(listTexts(concatTexts([slice, encodeTexts(others), slice]))).toEqual([
        ...texts.slice(from, to),
        ...others,
        ...texts.slice(from, to),
      ]);
      expect(Buffer.from(viewTextBytes(slice)).toString()).toBe(texts.slice(from, to).join(''));
    });
  });

  test('is picked from by row', () => {
    check(anyRows, ([texts, rows]) => {
      const padded = sliceTexts(encodeTexts(['before', ...texts, 'after']), 1, 1 + texts.length);
      expect(listTexts(pickTexts(padded, rows))).toEqual(rows.map((row) => texts[row]!));
    });
  });

  test('is compared by its bytes', () => {
    check(anyTexts, (texts) => {
      const column = encodeTexts(texts);
      for (let a = 0; a < texts.length; a++)
        for (let b = 0; b < texts.length; b++)
          expect(Math.sign(compareTexts(column, a, b))).toBe(Math.sign(compareModel(texts[a]!, texts[b]!)));
    });
  });

  test('numbers equal texts in the order of their first row, unless there are too many', () => {
    check(fc.tuple(anyRows, fc.nat(30)), ([[texts, rows], max]) => {
      const picked = rows.map((row) => texts[row]!);
      const distinct = [...new Set(picked)];
      const expected = {
        numbers: Uint32Array.from(picked, (text) => distinct.indexOf(text)),
        firsts: distinct.map((text) => picked.indexOf(text)),
      };
      expect(numberTexts(encodeTexts(texts), rows)).toEqual(expected);
      expect(numberTexts(encodeTexts(texts), rows, max)).toEqual(distinct.length > max ? undefined : expected);
    });
    // More than the table that is reused holds.
    const many = Array.from({ length: 140_000 }, (_, i) => `${i}`);
    expect(numberTexts(encodeTexts(many), many.map(Number))!.firsts).toHaveLength(many.length);
  });

  test('is stored as each text on its own would be', () => {
    check(fc.tuple(anyTexts, fc.nat(30)), ([texts, start]) => {
      const column = encodeTexts(texts);
      const present = dropNullTexts(column, texts.filter((text) => text !== null).length);
      const alone = texts.filter((text) => text !== null).map((text) => Buffer.from(text, 'utf8'));
      const from = Math.min(start, alone.length);
      const plain = Buffer.from(encodePlainByteArrays(alone.slice(from)));
      expect(Buffer.from(encodePlainTexts(present, from, alone.length)).equals(plain)).toBe(true);
      const sorted = alone.toSorted(Buffer.compare);
      const bounds = alone.length === 0 ? [] : [sorted[0]!, sorted.at(-1)!];
      expect(findTextBounds(present).map((bytes) => Buffer.from(bytes))).toEqual(bounds);
    });
  });
});
