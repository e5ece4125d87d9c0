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

test('rows in order within their day are accepted', () => {
  expect(() => assertPartOrder(part(['A', 1000, 1001, 1999], ['B'], ['é', 1000]), day, '@')).not.toThrow();
});

test.each([
  ['before its day', part(['A', 999])],
  ['after its day', part(['A', 1000], ['B', 1500, 2000])],
  ['twice', part(['A', 1000, 1000])],
  ['out of order', part(['A', 1001, 1000])],
  ['no number', part(['A', Number.NaN])],
  ['of a symbol that came before', part(['B', 1000], ['A', 1000])],
  ['of a symbol that is there twice', part(['A', 1000], ['A', 1001])],
])('a key %s is refused', (_, columns) => {
  expect(() => assertPartOrder(columns, day)).toThrow('refused before anything was written');
});

test('a symbol of an earlier lot is refused', () => {
  expect(() => assertPartOrder(part(['A', 1000]), day, 'A')).toThrow('A follows A');
});
