import { describe, expect, test } from 'vitest';
import { type RawQuoteRows, readQuoteRows } from '../../../src/collector/import/import-quotes.ts';
import type { TickRowRules } from '../../../src/collector/import/import-rows.ts';
import { createRowBuffer } from '../../../src/collector/import/row-buffer.ts';
import { listTexts } from '../../archive/texts.ts';
import { defaultRowRules } from './row-rules.ts';

const t0 = Date.UTC(2026, 6, 11);
const futureMs = t0 + 86_400_000;

/** Reads rows as a file of quotes, or as one that also feeds ticks. */
function read(rows: Partial<RawQuoteRows>, { feedsTicks = false, rules = {} as Partial<TickRowRules> } = {}) {
  const out = {
    quotes: [] as unknown[],
    ticks: [] as unknown[],
    rejectedQuotes: [] as unknown[],
    rejectedTicks: [] as unknown[],
  };
  const n = (Object.values(rows).find(Array.isArray) as unknown[]).length;
  readQuoteRows(
    { symbol: Array(n).fill('A'), t: Array(n).fill(t0), isLocalTime: false, ...rows },
    { ...defaultRowRules, ...rules },
    futureMs,
    {
      quotes: {
        accept: (symbol, t, values) => out.quotes.push([symbol, t, ...values.subarray(0, 4)]),
        reject: (symbol, { reason, raw }) => out.rejectedQuotes.push([symbol, reason, raw]),
      },
      ticks: feedsTicks
        ? {
            accept: (symbol, t, p) => out.ticks.push([symbol, t, p]),
            reject: (symbol, { reason }) => out.rejectedTicks.push([symbol, reason]),
          }
        : null,
    },
  );
  return out;
}

const missing = Number.NaN;

describe('quotes in rows', () => {
  test('are read unchanged, crossed ones too', () => {
    const { quotes } = read({
      symbol: ['A', 'B', '😀'],
      t: [t0, String(t0 + 1), '2026-07-11T00:00:00.002Z'],
      bid: [0.1 + 0.2, ' 0.6 ', '5e-1'],
      ask: [0.5, 0.5, 1],
      bid_size: [100, '7', 0],
      ask_size: [0.5, 1e9, '1'],
    });
    expect(quotes).toEqual([
      ['A', t0, 0.1 + 0.2, 0.5, 100, 0.5],
      ['B', t0 + 1, 0.6, 0.5, 7, 1e9],
      ['😀', t0 + 2, 0.5, 1, 0, 1],
    ]);
  });

  test.each([[null], [undefined], [''], ['  '], [Number.NaN], ['NaN'], ['nan']])('may lack a number: %j', (none) => {
    expect(read({ bid: [none, 0.4], ask: [0.5, none], bid_size: [none, 1], ask_size: [1, none] }).quotes).toEqual([
      ['A', t0, missing, 0.5, missing, 1],
      ['A', t0, 0.4, missing, 1, missing],
    ]);
  });

  test('may lack a column', () => {
    expect(read({ ask: [0.5] }).quotes).toEqual([['A', t0, missing, 0.5, missing, missing]]);
  });

  test('have scaled prices, and sizes as they are', () => {
    const rules = { priceScale: { factor: 1, divisor: 100 }, hasDecimalComma: true };
    const { quotes } = read({ bid: ['35,5'], ask: [36], bid_size: ['100,5'], ask_size: [7] }, { rules });
    expect(quotes).toEqual([['A', t0, 0.355, 0.36, 100.5, 7]]);
  });

  test.each<[Partial<RawQuoteRows>, string | null, string]>([
    [{ symbol: [null] }, null, 'symbol is missing'],
    [{ symbol: [7] }, null, 'symbol is not text'],
    [{ symbol: ['7.1e+76'] }, null, 'symbol is a rounded number: its last digits are lost'],
    [{ t: [''] }, 'A', 't is missing'],
    [{ t: ['noon'] }, 'A', 't is not a time'],
    [{ t: [Number.NaN] }, 'A', 't is not a whole number of milliseconds'],
    [{ t: [t0 + 0.5] }, 'A', 't is finer than a millisecond (see --truncate-time)'],
    [{ t: ['2026-07-11 00:00:00'] }, 'A', 't has no zone (see --tz)'],
    [{ t: [t0 / 1000] }, 'A', 't is outside the years 2000 to 2100'],
    [{ t: [futureMs + 1] }, 'A', 't is in the future'],
    [{ bid: [null], ask: [Number.NaN] }, 'A', 'bid and ask are missing'],
    [{ bid: ['cheap'] }, 'A', 'bid is not a number'],
    [{ bid: [true] }, 'A', 'bid is not a number'],
    [{ ask: ['0,5'] }, 'A', 'ask is not a number, unless it has a decimal comma (see --decimal-comma)'],
    [{ ask: [Number.POSITIVE_INFINITY] }, 'A', 'ask is not finite'],
    [{ ask: ['-inf'] }, 'A', 'ask is not finite'],
    [{ bid_size: ['many'] }, 'A', 'bid_size is not a number'],
    [{ bid_size: [-1] }, 'A', 'bid_size is negative'],
    [{ ask_size: [Number.NEGATIVE_INFINITY] }, 'A', 'ask_size is not finite'],
    [{ ask_size: ['-0.5'] }, 'A', 'ask_size is negative'],
  ])('are rejected: %j', (change, symbol, reason) => {
    const { quotes, rejectedQuotes } = read({ bid: [0.4], ask: [0.5], bid_size: [1], ask_size: [2], ...change });
    expect(quotes).toEqual([]);
    expect(rejectedQuotes).toEqual([[symbol, reason, expect.stringMatching(/^\{"symbol":.*"ask_size":/)]]);
  });

  test('are kept as received when they are rejected', () => {
    const { rejectedQuotes } = read({ bid: [Number.POSITIVE_INFINITY], ask: ['x'] });
    expect(rejectedQuotes).toEqual([['A', 'bid is not finite', `{"symbol":"A","t":${t0},"bid":"Infinity","ask":"x"}`]]);
  });
});

describe('rows of ticks and quotes', () => {
  test('feed each dataset that they have values for', () => {
    const rows = { p: [0.45, null, 0.46, ''], bid: [0.4, 0.41, null, null], ask: [0.5, null, Number.NaN, 0.6] };
    const { ticks, quotes, rejectedQuotes, rejectedTicks } = read(rows, { feedsTicks: true });
    expect(ticks).toEqual([
      ['A', t0, 0.45],
      ['A', t0, 0.46],
    ]);
    expect(quotes.map((row) => (row as number[]).slice(2, 4))).toEqual([
      [0.4, 0.5],
      [0.41, missing],
      [missing, 0.6],
    ]);
    expect([rejectedQuotes, rejectedTicks]).toEqual([[], []]);
  });

  test('are accepted and rejected for each dataset on its own', () => {
    const rows = { p: ['x', 0.45, Number.POSITIVE_INFINITY], bid: [0.4, 'x', 'x'] };
    const { ticks, quotes, rejectedQuotes, rejectedTicks } = read(rows, { feedsTicks: true });
    expect([ticks, quotes.length]).toEqual([[['A', t0, 0.45]], 1]);
    expect(rejectedTicks).toEqual([
      ['A', 'p is not a number'],
      ['A', 'p is not finite'],
    ]);
    expect(rejectedQuotes).toHaveLength(2);
  });

  test('without any value are rejected ticks', () => {
    const { rejectedQuotes, rejectedTicks } = read({ p: [null], bid: [''], bid_size: [5] }, { feedsTicks: true });
    expect([rejectedTicks, rejectedQuotes]).toEqual([[['A', 'p, bid and ask are missing']], []]);
  });

  test('without a symbol or a time are rejected for each dataset that they have values for', () => {
    const rows = { symbol: ['', 'A', 'A'], t: [t0, 'x', null], p: [0.5, null, 0.5], bid: [0.4, 0.4, null] };
    const { rejectedQuotes, rejectedTicks } = read(rows, { feedsTicks: true });
    expect(rejectedTicks).toEqual([
      [null, 'symbol is missing'],
      ['A', 't is missing'],
    ]);
    expect(rejectedQuotes).toEqual([
      [null, 'symbol is missing', expect.any(String)],
      ['A', 't is not a time', expect.any(String)],
    ]);
  });
});

test('a row buffer returns the rows of each symbol in input order', () => {
  const buffer = createRowBuffer(4, 2);
  for (const round of [0, 10]) {
    for (const [i, symbol] of ['B', 'A', 'B', 'B'].entries()) {
      const row = buffer.add(symbol, round + i);
      buffer.values[0]![row] = round + i / 10;
      buffer.values[1]![row] = -i;
    }
    expect(() => buffer.add('A', 1)).toThrow(RangeError);
    const drained = [...buffer.drain(true)].map(({ symbol, t, values }) => [
      symbol,
      [...t],
      ...values.map((of) => [...of]),
    ]);
    expect(drained).toEqual([
      ['B', [round, round + 2, round + 3], [round, round + 0.2, round + 0.3], [-0, -2, -3]],
      ['A', [round + 1], [round + 0.1], [-1]],
    ]);
    expect(buffer.length).toBe(0);
  }
});

test('a row buffer returns the texts of each row, and those of the next rows after that', () => {
  const buffer = createRowBuffer(10_000, 0, 2);
  const many = Array.from({ length: 9999 }, (_, i) => (i % 7 === 0 ? null : `text ${i}`));
  for (const texts of [['x', null, '', 'é'], [null, null, null, 'z'], many, [null]]) {
    for (const [i, text] of texts.entries()) buffer.add(i % 2 === 0 ? 'A' : 'B', i, [text, null]);
    const drained = [...buffer.drain(true)].map((of) => [of.symbol, ...of.texts.map(listTexts)]);
    const pick = (odd: number) => texts.filter((_, i) => i % 2 === odd);
    const expected = ['A', 'B'].map((symbol, odd) => [symbol, pick(odd), pick(odd).map(() => null)]);
    expect(drained).toEqual(expected.filter(([, of]) => of!.length > 0));
  }
});
