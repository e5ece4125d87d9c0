import { expect, test } from 'vitest';
import { assertPartOrder } from '../../../src/archive/format/tick-columns.ts';

const day = { from: 1000, to: 2000 };
const part = (...of: readonly (readonly [symbol: string, ...times: number[]])[]) => ({
  symbols: of.map(([symbol]) => symbol),
  offsets: Float64Array.from([
    0,
    ...of.map((_, i) => of.slice(0, i + 1).reduce((sum, [, ...times]) => sum + times.length, 0)),
  ]),
  t: Float64Array.from(of.flatMap(([, ...times]) => times)),
});

test('accepts rows in order within their day', () => {
  expect(() => assertPartOrder(part(['A', 1000, 1001, 1999], ['B'], ['é', 1000]), day, '@')).not.toThrow();
});

test.each([
  ['before its day', part(['A', 999])],
  ['after its day', part(['A', 1000], ['B', 1500, 2000])],
  ['twice', part(['A', 1000, 1000])],
  ['out of order', part(['A', 1001, 1000])],
  ['that is NaN', part(['A', Number.NaN])],
  ['of an earlier symbol', part(['B', 1000], ['A', 1000])],
  ['of a duplicate symbol', part(['A', 1000], ['A', 1001])],
])('rejects a key %s', (_, columns) => {
  expect(() => assertPartOrder(columns, day)).toThrow('Invalid rows for a part file; nothing was written');
});

test('rejects a symbol of an earlier chunk', () => {
  expect(() => assertPartOrder(part(['A', 1000]), day, 'A')).toThrow('A follows A');
});
