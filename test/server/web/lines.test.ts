import { describe, expect, test } from 'vitest';
import { clipGaps } from '../../../src/server/web/client/covered-windows.ts';
import { formatAxisLabels, toCandleColumns, toStepLine } from '../../../src/server/web/client/lines.ts';

const at = (t: number, p = t / 10) => ({ t, p });

/** Segments of a line without breaks. */
function stretches({ x, y }: { x: number[]; y: (number | null)[] }): number[][] {
  const out: number[][] = [[]];
  for (const [i, p] of y.entries()) {
    if (p === null) out.push([]);
    else out.at(-1)!.push(x[i]!);
  }
  return out;
}

describe('the steps of a price', () => {
  test('continue through covered time, to the end of the response', () => {
    expect(toStepLine([at(10), at(20), at(900)], [], 1000)).toEqual({ x: [10, 20, 900, 1000], y: [1, 2, 90, 90] });
  });

  test('end at a gap and resume at the next tick', () => {
    const line = toStepLine([at(10), at(20), at(90)], [{ from: 30, to: 60 }], 100);
    expect(stretches(line)).toEqual([
      [10, 20, 30],
      [90, 100],
    ]);
    expect(line.y[2]).toBe(2);
  });

  test('do not join ticks within a gap', () => {
    expect(stretches(toStepLine([at(10), at(40), at(50)], [{ from: 30, to: 60 }], 70))).toEqual([
      [10, 30],
      [40],
      [50],
      [],
    ]);
  });

  test('break once between two ticks, however many gaps there are', () => {
    const gaps = [
      { from: 12, to: 14 },
      { from: 16, to: 18 },
      { from: 25, to: 30 },
    ];
    expect(stretches(toStepLine([at(10), at(20), at(40)], gaps, 41))).toEqual([
      [10, 12],
      [20, 25],
      [40, 41],
    ]);
  });

  test('are ascending in time with any gaps', () => {
    const line = toStepLine([at(10), at(11), at(12)], [{ from: 10, to: 12 }], 12);
    expect(line.x).toEqual(line.x.toSorted((a, b) => a - b));
    expect(new Set(line.x).size).toBe(line.x.length);
  });

  test('are empty without ticks', () => expect(toStepLine([], [{ from: 0, to: 5 }], 10)).toEqual({ x: [], y: [] }));
});

test('candles are separated by a gap, but not by an empty interval', () => {
  const candle = (t: number) => ({ t, open: 1, high: 3, low: 0, close: 2, ticks: 1, covered: 1 });
  const { x, close } = toCandleColumns([candle(0), candle(30), candle(70)], [{ from: 45, to: 60 }], 10);
  expect([x, close]).toEqual([
    [5, 35, 55, 75],
    [2, 2, null, 2],
  ]);
});

test('gaps are clipped to the range and merged if adjacent', () => {
  const gaps = [
    { from: 50, to: 60 },
    { from: 0, to: 20 },
    { from: 20, to: 30 },
    { from: 95, to: 120 },
    { from: 200, to: 300 },
  ];
  expect(clipGaps(gaps, { from: 10, to: 100 })).toEqual([
    { from: 10, to: 30 },
    { from: 50, to: 60 },
    { from: 95, to: 100 },
  ]);
});

test('the time axis is in UTC and labels each day once', () => {
  const hour = 3_600_000;
  const noon = Date.UTC(2026, 5, 1, 12);
  expect(formatAxisLabels([noon, noon + 6 * hour, noon + 12 * hour], 6 * hour)).toEqual([
    '12:00\n1 Jun 2026',
    '18:00',
    '00:00\n2 Jun',
  ]);
  const newYear = Date.UTC(2027, 0);
  expect(formatAxisLabels([newYear - 12 * hour, newYear], 12 * hour)).toEqual([
    '12:00\n31 Dec 2026',
    '00:00\n1 Jan 2027',
  ]);
  expect(formatAxisLabels([noon - 12 * hour, noon + 12 * hour], 24 * hour)).toEqual(['1 Jun\n2026', '2 Jun']);
  expect(formatAxisLabels([Date.UTC(2026, 11), Date.UTC(2027, 0)], 31 * 24 * hour)).toEqual(['Dec\n2026', 'Jan\n2027']);
});
