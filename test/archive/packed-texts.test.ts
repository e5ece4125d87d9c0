import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { packTexts, unpackTexts } from '../../src/archive/format/packed-texts.ts';
import type { SeriesRows } from '../../src/archive/format/series.ts';
import { encodeTexts } from '../../src/archive/format/text-columns.ts';
import { readPartSeries } from '../../src/archive/journal/journal-series.ts';
import { listSpilledDays, openSpillFile, openSpillReader } from '../../src/archive/publish/spill-file.ts';
import { checkProperty } from '../harness/properties.ts';
import { appendQuotes } from './quotes.ts';
import { day0, indexed, opened, scratchFolder } from './scratch.ts';
import { listTexts } from './texts.ts';
import { trade, tradeAnswer } from './trades.ts';

const anyText = fc.option(
  fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('', '"', '\\', '\u0000', '😀', '\ufeff')),
);
const anyTexts = fc
  .tuple(fc.nat(20), fc.nat(4))
  .chain(([rows, width]) =>
    fc.tuple(
      fc.constant(rows),
      fc.array(
        fc.oneof(
          fc.array(anyText, { minLength: rows, maxLength: rows }),
          fc.constant(new Array<null>(rows).fill(null)),
        ),
        { minLength: width, maxLength: width },
      ),
    ),
  );

/** No times, or two columns of them, of which some are unknown. */
const drawTimes = (rows: number, salt: number): Float64Array[] | undefined =>
  salt === 0
    ? undefined
    : [1, 2].map((c) =>
        Float64Array.from({ length: rows }, (_, i) => ((i + c) % salt === 0 ? c * 1e15 + i : Number.NaN)),
      );

test('texts and finer times are the same after packing', () => {
  checkProperty([anyTexts], 200, ([rows, texts]) => {
    const times = drawTimes(rows, texts.length % 3);
    const unpacked = unpackTexts(packTexts({ texts: texts.map(encodeTexts), times }), rows);
    expect(unpacked.texts.map(listTexts)).toEqual(texts);
    expect(unpacked.times).toEqual(times);
  });
});

test('texts in an unknown form are an error', () => {
  expect(() => unpackTexts(Uint8Array.of(9), 3)).toThrow('unknown form: 9');
});

/** Rows with their texts as strings. */
const listRows = ({ texts, ...rows }: SeriesRows) => ({ ...rows, texts: texts.map(listTexts) });

test('rows with texts are the same after a scratch file, wherever they are in it', () => {
  checkProperty([fc.array(anyTexts, { minLength: 1, maxLength: 5 })], 30, (drawn) => {
    const file = openSpillFile(join(scratchFolder(), 'rows'));
    const written = drawn.map(([rows, texts], i): SeriesRows => {
      const numbers = (salt: number): Float64Array => Float64Array.from({ length: rows }, (_, row) => row * salt + i);
      return {
        t: numbers(1),
        values: [numbers(2), numbers(0.1)],
        texts: texts.map(encodeTexts),
        times: drawTimes(rows, i % 3),
      };
    });
    const spilled = written.map((rows) => file.append(rows));
    file.close();
    using reader = openSpillReader();
    for (const i of [...spilled.keys()].reverse()) {
      const days = [...listSpilledDays(spilled[i]!)].map((one) => one.spilled);
      expect(reader.read(days).map(listRows)).toEqual(written[i]!.t.length === 0 ? [] : [listRows(written[i]!)]);
    }
  });
});

test('journaled trades are the same when they are read', () => {
  const archive = opened({ parts: 2 });
  const trades = [
    trade(day0, 'a', 0.5, 1, { aggressor: 'buy', block: true, hash: '' }),
    trade(day0, 'ü"\u0000', 0.1 + 0.2, 3, { block: false, priceText: '0.30000000000000004001' }),
  ];
  const record = tradeAnswer('A', trades);
  appendQuotes(archive, record);
  const part = { day: day0, part: 0, from: 'A', to: 'A' };
  const [read] = readPartSeries(archive.state.db, part, indexed(archive));
  expect(read!.dataset).toBe('trades');
  const [{ t, values, texts }] = read!.chunks as unknown as [SeriesRows];
  expect(listRows({ t, values, texts })).toEqual(listRows(record.rows));
});
