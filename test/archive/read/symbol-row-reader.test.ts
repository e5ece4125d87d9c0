import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { PublishedFile } from '../../../src/archive/format/manifest.ts';
import { encodeCandles, encodeTicks } from '../../../src/archive/parquet/ticks-file.ts';
import { openSymbolRowReader } from '../../../src/archive/read/symbol-row-reader.ts';
import { checkAsyncProperty } from '../../harness/properties.ts';
import { share } from '../../harness/share.ts';
import { encodeSeries } from '../encode-series.ts';

/** Rows of the symbols of a part. That of B has more pages than are decoded at once. */
const counts = { A: 300, B: 150_000, C: 2 };
const symbols = Object.keys(counts);
const offsets = [0, 300, 150_300, 150_302];
const t = Float64Array.from({ length: 150_302 }, (_, i) => 1_000_000 + 7 * i - (i % 3));
const p = Float64Array.from(t, (_, i) => (i % 97) / 97);
const part = { symbols, offsets: Float64Array.from(offsets), t, p };

const toFile = (sha256: string): PublishedFile => ({ path: `ticks/${sha256}`, sha256 }) as PublishedFile;

test('reads the first rows of a symbol in a window, however many it has', async () => {
  for (const groupRows of [122_880, 7000]) {
    const bytes = encodeTicks(part, groupRows);
    let reads = 0;
    const readBytes = async () => {
      reads++;
      return bytes;
    };
    const reader = openSymbolRowReader(1 << 20);
    const time = fc.oneof(
      fc.integer({ min: 999_990, max: 1_000_000 + 7 * 150_400 }),
      // The first and the last rows of pages and row groups.
      fc.constantFrom(...[6999, 7000, 20_479, 20_480, 40_959, 40_960, 122_879, 122_880].map((row) => t[row]!)),
    );
    await checkAsyncProperty(
      [fc.constantFrom('A', 'B', 'C'), time, time, fc.integer({ min: 1, max: 2000 })],
      share * 200,
      async (key, a, b, rowsMax) => {
        const [from, to] = [Math.min(a, b), Math.max(a, b) + 1];
        const file = toFile(`${groupRows}`);
        const found = await reader.readRows({ dataset: 'ticks', file, key, from, to, rowsMax, readBytes });
        const s = symbols.indexOf(key);
        const wanted: [number, number][] = [];
        for (let i = offsets[s]!; i < offsets[s + 1]! && wanted.length < rowsMax; i++)
          if (from <= t[i]! && t[i]! < to) wanted.push([t[i]!, p[i]!]);
        expect(found.count).toBe(wanted.length);
        const [times, prices] = [found.columns.t as Float64Array, found.columns.p as Float64Array];
        expect(wanted.map((_, i) => [times[i], prices[i]])).toEqual(wanted);
      },
    );
    expect(reads).toBeGreaterThan(0);
  }
});

test('reads missing numbers of quotes as NaN, from any page, and a column without a number as null', async () => {
  const toColumn = (isKnown: (row: number) => boolean) =>
    Float64Array.from(p, (price, i) => (isKnown(i) ? price : Number.NaN));
  // Some rows, all rows, rows of other pages than the first, and no row.
  const values = [
    (i: number) => i % 3 !== 0,
    () => true,
    (i: number) => i > 30_000 && i % 50_000 > 100,
    () => false,
  ].map(toColumn);
  const names = ['bid', 'ask', 'bid_size', 'ask_size'];
  for (const groupRows of [122_880, 7000]) {
    const bytes = encodeSeries('quotes', { ...part, values, texts: [] }, groupRows);
    const reader = openSymbolRowReader(1 << 20);
    for (const first of [0, 299, 6999, 20_479, 40_000, 122_879, 150_000, 150_301]) {
      const s = offsets.findIndex((_, i) => offsets[i + 1]! > first);
      const rows = Math.min(500, offsets[s + 1]! - first);
      const found = await reader.readRows({
        dataset: 'quotes',
        file: toFile(`quotes ${groupRows}`),
        key: symbols[s]!,
        from: t[first]!,
        to: t[first + rows - 1]! + 1,
        rowsMax: 1000,
        readBytes: async () => bytes,
      });
      expect(found.columns.t).toEqual(t.slice(first, first + rows));
      for (const [c, name] of names.entries())
        expect(found.columns[name], `${name} from ${first}`).toEqual(
          name === 'ask_size' ? null : values[c]!.slice(first, first + rows),
        );
    }
  }
});

test('reads missing whole numbers of candles as NaN', async () => {
  const trades = Float64Array.from(p, (_, i) => (i % 3 === 0 ? Number.NaN : i));
  const none = new Float64Array(t.length).fill(Number.NaN);
  const prices = { open: p, high: p, low: p, close: p, covered: p, bid: p, ask: none, volume: p, vwap: none };
  const candles = { symbols, offsets: part.offsets, t, ...prices, ticks: Int32Array.from(p, (_, i) => i), trades };
  for (const groupRows of [122_880, 7000]) {
    const bytes = encodeCandles(candles, groupRows);
    const reader = openSymbolRowReader(1 << 20);
    for (const [key, first, end] of [
      ['A', 0, 300],
      ['B', 20_470, 20_490],
      ['C', 150_300, 150_302],
    ] as const) {
      const found = await reader.readRows({
        dataset: 'candles_1h',
        file: toFile(`candles ${groupRows}`),
        key,
        from: t[first]!,
        to: t[end - 1]! + 1,
        rowsMax: 1000,
        readBytes: async () => bytes,
      });
      expect(found.columns.trades, key).toEqual(trades.slice(first, end));
      expect(found.columns.ticks, key).toEqual(Float64Array.from(candles.ticks.slice(first, end)));
      expect(found.columns.ask).toBeNull();
    }
  }
});

test('reads a symbol again, or one that the file does not have, without its bytes', async () => {
  const reader = openSymbolRowReader(1 << 20);
  const bytes = encodeTicks(part);
  const read = (key: string, readBytes: () => Promise<Uint8Array>) =>
    reader.readRows({ dataset: 'ticks', file: toFile('x'), key, from: 0, to: 9e15, rowsMax: 10, readBytes });
  const failing = () => Promise.reject(new Error('read again'));
  expect((await read('A', async () => bytes)).count).toBe(10);
  expect((await read('A', failing)).count).toBe(10);
  expect((await read('D', failing)).count).toBe(0);
  await expect(read('C', failing)).rejects.toThrow('read again');
});

test('refuses a file that is stored differently', async () => {
  const reader = openSymbolRowReader(1 << 20);
  for (const bytes of [Buffer.from('PAR1 is no file PAR1'), encodeTicks(part).with(-20, 0xff), new Uint8Array(0)]) {
    const readBytes = async () => bytes;
    const query = { dataset: 'ticks', file: toFile('y'), key: 'A', from: 0, to: 9e15, rowsMax: 10, readBytes } as const;
    await expect(reader.readRows(query)).rejects.toThrow(/^ticks\/y cannot be decoded, although /);
  }
});
