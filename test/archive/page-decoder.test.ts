import { zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { encodings } from '../../src/archive/parquet/metadata.ts';
import {
  cachedDictionaryBytesMax,
  type DataPage,
  decompressPage,
  readColumnValues,
  visitIndexes,
} from '../../src/archive/parquet/page-decoder.ts';
import { checkProperty } from '../harness/properties.ts';

// Pages are built from the format's description, with widths, runs and blocks that our writer does not produce too.

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))];
}
const zigzag = (value: number): number[] => varint(value < 0 ? -2 * value - 1 : 2 * value);

/** Values of `width` bits each, lowest first. */
function packed(values: readonly number[], width: number): number[] {
  const bytes = new Array<number>(Math.ceil((values.length * width) / 8)).fill(0);
  values.forEach((value, i) => {
    for (let bit = 0; bit < width; bit++) {
      const at = i * width + bit;
      if (Math.floor(value / 2 ** bit) % 2 === 1) bytes[at >> 3]! |= 1 << (at & 7);
    }
  });
  return bytes;
}

/** A run of equal indexes, or of eight, sixteen, … bit-packed ones. */
type Run = { readonly index: number; readonly count: number } | { readonly indexes: readonly number[] };

const indexPage = (width: number, runs: readonly Run[]): Uint8Array =>
  Uint8Array.from([
    width,
    ...runs.flatMap((run) =>
      'count' in run
        ? [...varint(run.count * 2), ...packed([run.index], Math.ceil(width / 8) * 8)]
        : [...varint((run.indexes.length / 8) * 2 + 1), ...packed(run.indexes, width)],
    ),
  ]);

/** Integers as deltas, in blocks of `miniblocks` times `size` values. */
function deltaPage(values: readonly number[], miniblocks: number, size: number): Uint8Array {
  const out = [...varint(miniblocks * size), ...varint(miniblocks), ...varint(values.length), ...zigzag(values[0]!)];
  const deltas = values.slice(1).map((value, i) => value - values[i]!);
  for (let at = 0; at < deltas.length; at += miniblocks * size) {
    const block = deltas.slice(at, at + miniblocks * size);
    const least = Math.min(...block);
    const minis = Array.from({ length: miniblocks }, (_, m) =>
      block.slice(m * size, (m + 1) * size).map((delta) => delta - least),
    );
    const widths = minis.map((mini) => (mini.every((delta) => delta === 0) ? 0 : Math.max(...mini).toString(2).length));
    out.push(...zigzag(least), ...widths);
    minis.forEach((mini, m) => {
      if (mini.length > 0) out.push(...packed([...mini, ...Array<number>(size - mini.length).fill(0)], widths[m]!));
    });
  }
  return Uint8Array.from(out);
}

interface BuiltFile {
  readonly plain: Uint8Array;
  readonly rows: number;
  readonly encoding: number;
  readonly dictionary?: DataPage['dictionary'];
}

/** A file of these pages after a dictionary, and their positions in it. */
function fileOf(made: readonly BuiltFile[], dictionary: Float64Array | BigInt64Array = new Float64Array()) {
  const bodies = [new Uint8Array(dictionary.buffer), ...made.map((page) => page.plain)];
  const stored = bodies.map((body) => zstdCompressSync(body));
  let at = 7;
  const places = stored.map((body, i) => {
    const place = { offset: at, compressedBytes: body.length, uncompressedBytes: bodies[i]!.length };
    at += body.length;
    return place;
  });
  const ofPages = { ...places[0]!, values: dictionary.length };
  let first = 0;
  const pages = made.map(({ rows, encoding, dictionary: own }, i): DataPage => {
    const indexed = encoding === encodings.rleDictionary || encoding === encodings.plainDictionary;
    const page = { ...places[i + 1]!, firstRow: first, rows, encoding, dictionary: indexed ? (own ?? ofPages) : null };
    first += rows;
    return page;
  });
  return { file: Buffer.concat([Buffer.alloc(7), ...stored]), pages, rows: first };
}

/** Fails unless each of these row ranges reads as that part of `values`. */
function expectRanges(
  { file, pages }: ReturnType<typeof fileOf>,
  type: 'double' | 'int64',
  values: readonly number[],
  ranges: readonly (readonly [number, number])[],
): void {
  for (const [a, b] of [[0, values.length] as const, ...ranges]) {
    const [from, to] = [Math.min(a, b, values.length), Math.min(Math.max(a, b), values.length)];
    expect([...readColumnValues(file, pages, type, from, to)]).toEqual(values.slice(from, to));
  }
}

const anyRanges = fc.array(fc.tuple(fc.nat(90), fc.nat(90)), { maxLength: 6 });

describe('page values', () => {
  test('decode from deltas of any width, for any range', () => {
    const values = fc.tuple(fc.constantFrom(0, 1, 3, 8, 20, 24, 25, 26, 33, 49), fc.nat(90)).chain(([width, more]) =>
      fc.array(fc.nat(2 ** width), { minLength: 1, maxLength: 1 + more }).map((deltas) => {
        let value = 1_780_272_000_000;
        return deltas.map((delta) => (value += delta - Math.floor(2 ** (width - 2))));
      }),
    );
    checkProperty(
      [values, fc.constantFrom(1, 2, 4), fc.constantFrom(8, 32), anyRanges],
      300,
      (times, minis, size, ranges) => {
        const page = { plain: deltaPage(times, minis, size), rows: times.length, encoding: 5 };
        expectRanges(fileOf([page, { ...page, plain: deltaPage(times, 4, 8) }]), 'int64', [...times, ...times], ranges);
      },
    );
  });

  test('decode from dictionary indexes, in runs and bit-packed, for any range', () => {
    const pageOf = fc.integer({ min: 1, max: 12 }).chain((width) => {
      const index = fc.nat(2 ** width - 1);
      const own = fc
        .integer({ min: 1, max: 3 })
        .chain((n) => fc.array(index, { minLength: 8 * n, maxLength: 8 * n }))
        .map((indexes): Run => ({ indexes }));
      const equal = fc.record({ index, count: fc.integer({ min: 1, max: 20 }) });
      return fc
        .array(fc.oneof(own, equal), { minLength: 1, maxLength: 4 })
        .map((runs) => ({ plain: indexPage(width, runs), runs }));
    });
    const dictionary = Float64Array.from({ length: 4096 }, (_, i) => i / 8);
    checkProperty([fc.array(pageOf, { minLength: 1, maxLength: 3 }), anyRanges], 200, (drawn, ranges) => {
      const all = drawn.map(({ runs }) =>
        runs.flatMap((run) => ('count' in run ? Array<number>(run.count).fill(run.index) : run.indexes)),
      );
      const made = drawn.map(({ plain }, i) => ({ plain, rows: all[i]!.length, encoding: i % 2 === 0 ? 8 : 2 }));
      const values = all.flat().map((index) => dictionary[index]!);
      expectRanges(fileOf(made, dictionary), 'double', values, ranges);
    });
  });

  test('decode from PLAIN as doubles and times', () => {
    const doubles = [0.1, -0, 1e300, Number.MIN_VALUE, 0.5];
    const plain = new Uint8Array(Float64Array.from(doubles).buffer);
    const shared = fileOf(Array<BuiltFile>(2).fill({ plain, rows: 5, encoding: 0 }));
    expectRanges(
      shared,
      'double',
      [...doubles, ...doubles],
      [
        [3, 7],
        [1, 2],
        [4, 4],
      ],
    );
    const times = [0, -1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, -(2 ** 33) - 5, 4_102_444_800_000];
    const stored = new Uint8Array(BigInt64Array.from(times, BigInt).buffer);
    expectRanges(fileOf([{ plain: stored, rows: 7, encoding: 0 }]), 'int64', times, [[2, 6]]);
  });

  test('decode from a dictionary of times, and from one too large to cache', () => {
    const times = BigInt64Array.from({ length: 5000 }, (_, i) => 1_780_272_000_000n + BigInt(i));
    expect(times.byteLength).toBeGreaterThan(cachedDictionaryBytesMax);
    const plain = indexPage(13, [{ index: 4999, count: 9 }]);
    expectRanges(fileOf([{ plain, rows: 9, encoding: 8 }], times), 'int64', Array(9).fill(1_780_272_004_999), []);
  });
});

test('decompress a small dictionary once while its pages are held, a large one each time', () => {
  for (const [values, small] of [
    [cachedDictionaryBytesMax / 8, true],
    [cachedDictionaryBytesMax / 8 + 1, false],
  ] as const) {
    const { file, pages } = fileOf(
      [{ plain: indexPage(1, [{ index: 1, count: 4 }]), rows: 4, encoding: 8 }],
      Float64Array.from({ length: values }, (_, i) => i),
    );
    readColumnValues(file, pages, 'double', 0, 4);
    file.fill(0, pages[0]!.dictionary!.offset, pages[0]!.offset);
    const again = () => [...readColumnValues(file, pages, 'double', 0, 4)];
    if (small) expect(again()).toEqual([1, 1, 1, 1]);
    else expect(again).toThrow();
  }
});

describe('indexes', () => {
  const visitAll = (bytes: Uint8Array, to: number, from = 0) => {
    const out: [number, number][] = [];
    visitIndexes(bytes, from, to, (index, count) => out.push([index, count]));
    return out;
  };

  test('of a run are visited at once, and only those in the range', () => {
    const page = indexPage(3, [{ index: 5, count: 10 }, { indexes: [0, 1, 2, 3, 4, 5, 6, 7] }, { index: 2, count: 5 }]);
    expect(visitAll(page, 12, 4)).toEqual([
      [5, 6],
      [0, 1],
      [1, 1],
    ]);
    expect(visitAll(page, 20, 17)).toEqual([
      [7, 1],
      [2, 2],
    ]);
    expect(visitAll(page, 11, 10)).toEqual([[0, 1]]);
    // The last eight of a page are padded.
    expect(visitAll(page, 15)).toEqual([[5, 10], ...[0, 1, 2, 3, 4].map((index) => [index, 1])]);
  });

  test('of a single value take no bits', () => {
    expect(visitAll(indexPage(0, [{ index: 0, count: 7 }, { indexes: Array(8).fill(0) }]), 15)).toEqual([
      [0, 7],
      ...Array(8).fill([0, 1]),
    ]);
  });

  test('may be up to 32 bits wide', () => {
    const wide = [2 ** 32 - 1, 0, 2 ** 31, 1, 2 ** 25, 2 ** 26 + 1, 7, 8];
    expect(visitAll(indexPage(32, [{ indexes: wide }]), 8).map(([index]) => index)).toEqual(wide);
    expect(() => visitAll(indexPage(33, [{ index: 1, count: 8 }]), 8)).toThrow('an invalid width');
    expect(() => visitAll(new Uint8Array(), 1)).toThrow('an invalid width');
  });

  test('are rejected if truncated or endless', () => {
    const page = indexPage(9, [{ index: 300, count: 4 }, { indexes: [1, 2, 3, 4, 5, 6, 7, 8] }]);
    for (let length = 1; length < page.length; length++)
      expect(() => visitAll(page.subarray(0, length), 12), `${length}`).toThrow('a page is truncated');
    expect(() => visitAll(Uint8Array.of(1, 0, 0, 0), 3)).toThrow('an empty run');
    expect(() => visitAll(Uint8Array.of(1, 8 + 128, ...Array(7).fill(128), 0, 1), 3)).toThrow('too long');
    expect(visitAll(Uint8Array.of(1, 8 + 128, ...Array(6).fill(128), 0, 1), 4)).toEqual([[1, 4]]);
  });
});

describe('a damaged page', () => {
  const times = [5, 9, 4];
  const valid = { plain: deltaPage(times, 4, 8), rows: 3, encoding: 5 };
  const readAll = ({ file, pages, rows }: ReturnType<typeof fileOf>, type: 'double' | 'int64' = 'int64') =>
    readColumnValues(file, pages, type, 0, rows);

  test('is rejected if truncated, or longer or shorter than its header says', () => {
    const { file, pages } = fileOf([valid]);
    const [page] = pages;
    expect(() => decompressPage(file.subarray(0, file.length - 1), page!)).toThrow('past the end of its file');
    expect(() => decompressPage(file, { ...page!, uncompressedBytes: page!.uncompressedBytes + 1 })).toThrow(
      'differs from its header',
    );
    expect(() => decompressPage(file, { ...page!, uncompressedBytes: page!.uncompressedBytes - 1 })).toThrow(
      // Rejected before decompression: it may be a hundred times as long.
      expect.objectContaining({ code: 'ERR_BUFFER_TOO_LARGE' }),
    );
  });

  test('decodes to nothing from nothing', () => {
    const { file, pages } = fileOf([{ plain: new Uint8Array(), rows: 0, encoding: 0 }]);
    expect(decompressPage(file, pages[0]!)).toHaveLength(0);
  });

  test('is rejected with fewer values than its header says', () => {
    expect(() => readAll(fileOf([{ ...valid, rows: 4 }]))).toThrow('too few values');
    expect(() => readAll(fileOf([{ ...valid, plain: Uint8Array.of(8, 0, 3, 0) }]))).toThrow('too few values');
    expect(() => readAll(fileOf([{ ...valid, plain: Uint8Array.of(8, 3, 3, 0) }]))).toThrow('too few values');
    expect(() => readAll(fileOf([{ plain: new Uint8Array(23), rows: 3, encoding: 0 }]))).toThrow('a page is truncated');
  });

  test('is rejected with deltas of more than fifty bits', () => {
    const page = (width: number) => Uint8Array.from([8, 1, 2, 0, 0, width, ...Array(60).fill(0)]);
    expect([...readAll(fileOf([{ plain: page(50), rows: 2, encoding: 5 }]))]).toEqual([0, 0]);
    expect(() => readAll(fileOf([{ plain: page(51), rows: 2, encoding: 5 }]))).toThrow('too wide');
    expect(() => readAll(fileOf([{ plain: page(0).subarray(0, 5), rows: 2, encoding: 5 }]))).toThrow('too wide');
  });

  test('is ignored outside the range, as are the widths of empty blocks', () => {
    const { file, pages } = fileOf([valid, valid, valid]);
    for (const { offset } of [pages[0]!, pages[2]!]) file.fill(0, offset, offset + 4);
    expect([...readColumnValues(file, pages, 'int64', 3, 6)]).toEqual(times);
    const unused = Uint8Array.of(16, 2, 2, ...zigzag(7), ...zigzag(1), 1, 255, 1);
    expect([...readAll(fileOf([{ plain: unused, rows: 2, encoding: 5 }]))]).toEqual([7, 9]);
  });

  test('is rejected with an index outside its dictionary, or an unknown encoding', () => {
    const indexed = { plain: indexPage(2, [{ index: 3, count: 3 }]), rows: 3, encoding: 8 };
    expect(() => readAll(fileOf([indexed], Float64Array.of(1, 2, 3)), 'double')).toThrow('outside its dictionary');
    expect(() => readAll(fileOf([{ ...valid, encoding: 6 }]))).toThrow('unknown encoding 6');
    // Delta encoding is for integers.
    expect(() => readAll(fileOf([valid]), 'double')).toThrow('unknown encoding 5');
  });

  test('is detected if it is missing', () => {
    const { file, pages } = fileOf([valid, valid, valid]);
    expect(() => readColumnValues(file, pages, 'int64', 0, 10)).toThrow('pages are missing');
    expect(() => readColumnValues(file, [pages[0]!, pages[2]!], 'int64', 1, 8)).toThrow('pages are missing');
  });
});
