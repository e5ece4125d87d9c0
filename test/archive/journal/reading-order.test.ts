import fc from 'fast-check';
import { expect, test } from 'vitest';
import { sortSeriesByTime } from '../../../src/archive/format/series-rows.ts';
import { sortTicksByTime } from '../../../src/archive/journal/journal.ts';
import { findCounted } from '../../faults/simulation/reading-order.ts';
import { checkProperty } from '../../harness/properties.ts';

type Row = readonly [t: number, p: number];

const rows = fc.array(fc.tuple(fc.nat(4), fc.constantFrom(0.1, 0.2, 0.3, 0.4)), { maxLength: 8 });
/** In ascending order, newest first, or in any order. */
const response = fc.tuple(rows, fc.constantFrom('ascending', 'descending', 'any')).map(([list, order]): Row[] => {
  const sorted = list.toSorted(([a], [b]) => a - b);
  return order === 'any' ? list : order === 'ascending' ? sorted : sorted.reverse();
});

const columns = (list: readonly Row[]) => ({
  t: Float64Array.from(list, ([t]) => t),
  p: Float64Array.from(list, ([, p]) => p),
});

/** The last price of each time. */
const lastOf = (t: Float64Array, p: Float64Array): Map<number, number> =>
  new Map([...t].map((time, i) => [time, p[i]!]));

test('the last tick of each time in sorted ticks is the last one in ascending reading order', () => {
  checkProperty([response], 2000, (list) => {
    const given = columns(list);
    const { t, p } = sortTicksByTime(given);
    expect([...t]).toEqual(list.map(([time]) => time).sort((a, b) => a - b));
    const pairs = (of: { t: Float64Array; p: Float64Array }) => [...of.t].map((time, i) => `${time} ${of.p[i]}`).sort();
    expect(pairs({ t, p })).toEqual(pairs(given));
    const counted = findCounted(
      list.map(([time]) => time),
      (a, b) => list[a]![1] > list[b]![1],
    );
    expect(lastOf(t, p)).toEqual(new Map([...counted].map((i) => [...list[i]!])));
    const series = sortSeriesByTime({ t: given.t, values: [given.p], texts: [] });
    expect([lastOf(series.t, series.values[0]!), [...series.t]]).toEqual([lastOf(t, p), [...t]]);
  });
});

test('ticks that run newest first are read backwards', () => {
  const { t, p } = sortTicksByTime(
    columns([
      [3, 0.1],
      [2, 0.4],
      [2, 0.2],
      [1, 0.3],
    ]),
  );
  expect([[...t], [...p]]).toEqual([
    [1, 2, 2, 3],
    [0.3, 0.2, 0.4, 0.1],
  ]);
});
