import { describe, expect, test } from 'vitest';
import { choosePartCount, findDayPart, getPartCount } from '../../../src/archive/format/day-parts.ts';
import { computePartNumber } from '../../../src/base/symbol-name.ts';
import { day0, dayMs } from '../scratch.ts';

describe('the number of parts of a day', () => {
  test('is that of the archive, or its own', () => {
    const counts = { parts: 8, day_parts: { '2026-06-01': 2 } };
    expect([getPartCount(counts, '2026-06-01'), getPartCount(counts, '2026-06-02')]).toEqual([2, 8]);
    expect(getPartCount({ parts: 4 }, '2026-06-01')).toBe(4);
  });

  test.each([1, 2, 3, 4, 6, 7, 12, 100, 128, 1009, 1024])('divides %i, for any size, and grows with it', (parts) => {
    let last = 0;
    for (const rows of [0, 1, 10, 99, 100, 101, 1000, 12_345, 1e6, 1e9]) {
      const count = choosePartCount(parts, rows, 100);
      expect(parts % count).toBe(0);
      expect(count).toBeGreaterThanOrEqual(Math.max(last, Math.ceil(parts / 16)));
      expect(count === parts || rows <= count * 100).toBe(true);
      last = count;
    }
    expect(choosePartCount(parts, null, 100)).toBe(parts);
    expect(choosePartCount(parts, 0, 0)).toBe(parts);
  });

  test('is the smallest one whose parts are small enough', () => {
    expect([1, 100, 101, 200, 201, 400, 401].map((rows) => choosePartCount(4, rows, 100))).toEqual([
      1, 1, 2, 2, 4, 4, 4,
    ]);
    expect([100, 200, 300, 600].map((rows) => choosePartCount(6, rows, 100))).toEqual([1, 2, 3, 6]);
  });
});

test('the part of a symbol on a day is that of the archive, modulo the number of parts of the day', () => {
  const counts = { parts: 12, day_parts: { '2026-06-01': 3, '2026-06-02': 1 } };
  for (let n = 0; n < 50; n++) {
    const part = computePartNumber(`S${n}`, 12);
    expect([0, 1, 2].map((day) => findDayPart(counts, `S${n}`, day0 + day * dayMs))).toEqual([part % 3, 0, part]);
  }
});
