import { describe, expect, test } from 'vitest';
import { openTimeZone } from '../../../src/base/time-zone.ts';
import type { TickRowRules } from '../../../src/collector/import/import-rows.ts';
import { findInexactText, type RawTradeRows, readTradeRows } from '../../../src/collector/import/import-trades.ts';
import { createTradeIds } from '../../../src/collector/import/trade-ids.ts';
import { defaultRowRules } from './row-rules.ts';

const t0 = Date.UTC(2026, 6, 11);
const futureMs = t0 + 86_400_000;

function read(rows: Partial<RawTradeRows>, rules: Partial<TickRowRules> = {}) {
  const trades: unknown[][] = [];
  const times: number[][] = [];
  const rejected: unknown[][] = [];
  const n = (Object.values(rows).find(Array.isArray) as unknown[]).length;
  const filled = {
    symbol: Array(n).fill('A'),
    t: Array(n).fill(t0),
    price: Array(n).fill(0.5),
    size: Array(n).fill(1),
  };
  readTradeRows(
    { ...filled, isLocalTime: false, ...rows },
    { ...defaultRowRules, ...rules },
    futureMs,
    {
      accept: (symbol, t, values, texts) => {
        trades.push([symbol, t, ...values.subarray(0, 3), ...texts]);
        times.push([...values.subarray(3)]);
      },
      reject: (symbol, { reason, raw }) => rejected.push([symbol, reason, raw]),
    },
    createTradeIds(),
  );
  return { trades, times, rejected };
}

const missing = Number.NaN;

describe('trades in rows', () => {
  test('are read with all their facts', () => {
    const { trades, rejected } = read({
      symbol: ['A', 'B'],
      t: [t0, '2026-07-11T00:00:00.002Z'],
      price: ['0.42', 0.1 + 0.2],
      size: [3, '2.5'],
      trade_id: ['x1', 12],
      aggressor: ['BUY', ' s '],
      block: ['true', false],
      tx_hash: ['0xab', ''],
    });
    expect(rejected).toEqual([]);
    expect(trades).toEqual([
      ['A', t0, 0.42, 3, 1, 'x1', 'buy', '0xab', null, null],
      ['B', t0 + 2, 0.1 + 0.2, 2.5, 0, '12', 'sell', null, null, null],
    ]);
  });

  test('may lack all but symbol, time, price and size, and get an identifier then', () => {
    const { trades } = read({ price: [0.5, 0.5, 0.25], trade_id: [null, undefined, '  '] });
    expect(trades.map((row) => row.slice(4))).toEqual([
      [missing, `=${t0},0.5,1,#0`, null, null, null, null],
      [missing, `=${t0},0.5,1,#1`, null, null, null, null],
      [missing, `=${t0},0.25,1,#0`, null, null, null, null],
    ]);
  });

  test.each<[Partial<RawTradeRows>, string]>([
    [{ price: [null] }, 'price is missing'],
    [{ price: ['x'] }, 'price is not a number'],
    [{ price: [Number.NaN] }, 'price is not finite'],
    [{ size: [''] }, 'size is missing'],
    [{ size: [Number.POSITIVE_INFINITY] }, 'size is not finite'],
    [{ size: [0] }, 'size is zero'],
    [{ size: [-1] }, 'size is negative'],
    [{ aggressor: ['maker'] }, 'aggressor is none of buy, sell, b, s, yes, no, unknown'],
    [{ aggressor: ['constructor'] }, 'aggressor is none of buy, sell, b, s, yes, no, unknown'],
    [{ block: ['maybe'] }, 'block is neither true nor false'],
    [{ trade_id: ['x'.repeat(257)] }, 'trade_id is longer than 256 characters'],
    [{ tx_hash: ['x'.repeat(257)] }, 'tx_hash is longer than 256 characters'],
    [{ trade_id: [{ $oid: '65a' }] }, 'trade_id is neither text nor a number'],
    [{ trade_id: [['65a']] }, 'trade_id is neither text nor a number'],
    [{ trade_id: ['\ud800'] }, 'trade_id contains half of a surrogate pair'],
    [{ tx_hash: ['\ud800'] }, 'tx_hash contains half of a surrogate pair'],
    [{ trade_id: ['1.8446744073709552e+19'] }, 'trade_id is a rounded number: its last digits are lost'],
    [{ t: [null] }, 't is missing'],
    [{ t: [t0 + 0.5] }, 't is finer than a millisecond (see --truncate-time)'],
    [{ symbol: [null] }, 'symbol is missing'],
  ])('%j are rejected: %s', (rows, reason) => {
    const { trades, rejected } = read(rows);
    expect(trades).toEqual([]);
    expect(rejected.map((row) => row[1])).toEqual([reason]);
  });

  test('that got an identifier with a long hash are read again with it', () => {
    const facts = { price: [1e-300], size: [0.1 + 0.2], block: ['yes'], tx_hash: ['x'.repeat(256)] };
    const { trades } = read(facts);
    const id = trades[0]![5];
    expect(read({ ...facts, trade_id: [id] })).toMatchObject({ trades, rejected: [] });
  });

  test('from the future are rejected', () => {
    expect(read({ t: [futureMs + 1] }).rejected[0]![1]).toMatch(/future/);
  });

  test('of a taker of YES buy, and of a taker of NO sell', () => {
    const { trades } = read({ aggressor: ['yes', 'no', 'unknown', 'none', null, 'sell'] });
    expect(trades.map((row) => row[6])).toEqual(['buy', 'sell', null, null, null, 'sell']);
  });

  test('keep the text of a number that a double does not hold, unless prices are scaled', () => {
    const rows = { price: ['0.420000000000000000', '0.1234567890123456789'], size: ['12345678901234567890', '7.0'] };
    expect(read(rows).trades.map((row) => row.slice(8))).toEqual([
      [null, '12345678901234567890'],
      ['0.1234567890123456789', null],
    ]);
    expect(read(rows, { priceScale: { factor: 1, divisor: 100 } }).trades.map((row) => row[8])).toEqual([null, null]);
    expect(read({ ...rows, price_text: ['0.42', null], size_text: [null, '7.000'] }).trades[0]!.slice(8)).toEqual([
      '0.42',
      '12345678901234567890',
    ]);
  });

  test('show what was rejected as received', () => {
    const { rejected } = read({ price: ['x'], trade_id: ['9'], aggressor: ['buy'] });
    expect(JSON.parse(rejected[0]![2] as string)).toEqual({
      symbol: 'A',
      t: t0,
      price: 'x',
      size: 1,
      trade_id: '9',
      aggressor: 'buy',
    });
  });
});

describe('the text of a number', () => {
  test.each([
    ['0.1', null],
    ['0.10000000000000000000', null],
    ['100000000000000000000', null],
    ['1e+21', null],
    ['0.1000000000000000055', '0.1000000000000000055'],
    ['9007199254740993', '9007199254740993'],
    ['9007199254740992', null],
    ['-0.00000000000000000', null],
    ['+00000000000000000.5', null],
    ['  0.3000000000000000000001 ', '0.3000000000000000000001'],
    ['1234567890.123456', null],
    ['1234567890.1234567', null],
    ['1234567890.12345678', '1234567890.12345678'],
  ])('%s is kept only if it has more than its double: %s', (text, kept) => {
    expect(findInexactText(text, Number(text), false)).toBe(kept);
  });

  test('may have a decimal comma', () => {
    expect(findInexactText('0,12345678901234566', 0.12345678901234566, true)).toBe(null);
    expect(findInexactText('0,123456789012345678', 0.12345678901234568, true)).toBe('0,123456789012345678');
  });
});

describe('the finer times of rows', () => {
  const us = 1000 * t0 + 123_456;
  const event = (values: readonly unknown[], rules: Partial<TickRowRules> = {}) => read({ event_at: values }, rules);

  test('are read in whatever unit each has, and finer digits are cut off', () => {
    const values = [t0 / 1000, t0, us, String(us), `${us}789`, '2026-07-11T00:00:00.123456789Z', '1783728000.1234567'];
    const found = event([...values, '2026-07-11 02:00:00.1+02', null, '', Number.NaN]);
    expect(found.rejected).toEqual([]);
    const [whole, fine] = [1000 * t0, us];
    expect(found.times.map(([eventAt]) => eventAt)).toEqual([
      whole,
      whole,
      fine,
      fine,
      fine,
      fine,
      fine,
      whole + 100_000,
      missing,
      missing,
      missing,
    ]);
    expect(found.times.every(([, receivedAt]) => Number.isNaN(receivedAt))).toBe(true);
  });

  test('need no unit, and no permission to be cut off, unlike the time of the row', () => {
    expect(event([us / 1e6], { unit: 'ns' }).times).toEqual([[us, missing]]);
  });

  test('without a zone are those of --tz', () => {
    const text = '2026-07-11 00:00:00.5';
    expect(event([text]).rejected).toEqual([['A', 'event_at has no zone (see --tz)', expect.any(String)]]);
    const { times } = event([text], { zone: openTimeZone('America/New_York') });
    expect(times).toEqual([[1000 * (t0 + 4 * 3_600_000) + 500_000, missing]]);
  });

  test.each([
    ['soon', 'event_at is not a time'],
    [5, 'event_at is not a time between the years 2000 and 2100 in any unit'],
    ['1999-12-31T23:59:59Z', 'event_at is outside the years 2000 to 2100'],
    ['2026-07-12T00:00:00.001Z', 'event_at is in the future'],
  ])('%s reject the row, which is kept as it was', (value, reason) => {
    const { trades, rejected } = event([value]);
    expect(trades).toEqual([]);
    expect(rejected).toEqual([['A', reason, expect.stringContaining(JSON.stringify(value))]]);
  });
});
