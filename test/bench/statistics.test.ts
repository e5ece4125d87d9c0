import { describe, expect, test } from 'vitest';
import { median, pairRatios, spread } from '../../bench/statistics.ts';

describe('the median', () => {
  test('is the value in the middle, by size and not by spelling', () => {
    expect(median([10, 9, 100])).toBe(10);
  });

  test('of an even number is the mean of the two in the middle', () => {
    expect(median([4, 1, 3, 2])).toBe(2.5);
  });

  test('leaves its input in order', () => {
    const values = [3, 1, 2];
    median(values);
    expect(values).toEqual([3, 1, 2]);
  });

  test.each([[[]], [[1, Number.NaN]], [[Number.POSITIVE_INFINITY]]])('is refused for %j', (values) => {
    expect(() => median(values)).toThrow(RangeError);
  });
});

test('a spread names the least and the most beside the median', () => {
  expect(spread([5, 1, 3])).toEqual({ median: 3, min: 1, max: 5 });
});

describe('ratios', () => {
  test('are taken pair by pair, so that a slow minute counts for both', () => {
    expect(pairRatios([20, 200, 40], [10, 100, 10])).toEqual({ median: 2, min: 2, max: 4 });
  });

  test('are refused where a run has no partner', () => {
    expect(() => pairRatios([1, 2], [1])).toThrow('2 runs against 1');
  });

  test('are refused where nothing was measured', () => {
    expect(() => pairRatios([1], [0])).toThrow(RangeError);
  });
});
