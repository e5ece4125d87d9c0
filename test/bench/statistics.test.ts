import { describe, expect, test } from 'vitest';
import { median, pairRatios, spread } from '../../bench/statistics.ts';

describe('the median', () => {
  test('is the middle value in numeric order', () => {
    expect(median([10, 9, 100])).toBe(10);
  });

  test('of an even count is the mean of the middle two', () => {
    expect(median([4, 1, 3, 2])).toBe(2.5);
  });

  test('does not reorder its input', () => {
    const values = [3, 1, 2];
    median(values);
    expect(values).toEqual([3, 1, 2]);
  });

  test.each([[[]], [[1, Number.NaN]], [[Number.POSITIVE_INFINITY]]])('rejects %j', (values) => {
    expect(() => median(values)).toThrow(RangeError);
  });
});

test('a spread has minimum, median and maximum', () => {
  expect(spread([5, 1, 3])).toEqual({ median: 3, min: 1, max: 5 });
});

describe('ratios', () => {
  test('are computed pair by pair', () => {
    expect(pairRatios([20, 200, 40], [10, 100, 10])).toEqual({ median: 2, min: 2, max: 4 });
  });

  test('reject runs without a pair', () => {
    expect(() => pairRatios([1, 2], [1])).toThrow('2 runs and 1 runs cannot be paired');
  });

  test('reject an unmeasured run', () => {
    expect(() => pairRatios([1], [0])).toThrow(RangeError);
  });
});
