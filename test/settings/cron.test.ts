import { describe, expect, test } from 'vitest';
import { parseCron } from '../../src/settings/cron.ts';

const at = (text: string): number => Date.parse(text);
const iso = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());

describe('a cron expression', () => {
  test('is in UTC in any time zone of the machine', () => {
    const { findLast, findNext } = parseCron('17 3 * * *');
    expect(iso(findNext(at('2026-11-21T03:16:59.999Z')))).toBe('2026-11-21T03:17:00.000Z');
    expect(iso(findNext(at('2026-11-21T03:17:00.000Z')))).toBe('2026-11-22T03:17:00.000Z');
    expect(iso(findNext(at('2026-11-21T03:17:00.400Z')))).toBe('2026-11-22T03:17:00.000Z');
    expect(iso(findLast(at('2026-11-21T03:16:59.999Z')))).toBe('2026-11-20T03:17:00.000Z');
    expect(iso(findLast(at('2026-11-21T03:17:00.000Z')))).toBe('2026-11-21T03:17:00.000Z');
    expect(iso(findLast(at('2026-11-21T03:17:00.400Z')))).toBe('2026-11-21T03:17:00.000Z');
  });

  test.each([
    ['*/7 * * * *', (d: Date) => d.getUTCMinutes() % 7 === 0],
    ['30 2 * * *', (d: Date) => d.getUTCHours() === 2 && d.getUTCMinutes() === 30],
    ['0 0 1,15 * MON', (d: Date) => minuteOfDay(d) === 0 && ([1, 15].includes(d.getUTCDate()) || d.getUTCDay() === 1)],
    ['@hourly', (d: Date) => d.getUTCMinutes() === 0],
    ['5-10 22 * 3,11 0', (d: Date) => inside(d, 22, 5, 10) && [2, 10].includes(d.getUTCMonth()) && d.getUTCDay() === 0],
  ])('%s matches a check of every minute, across changes of summer time', (text, holds) => {
    const { findLast, findNext } = parseCron(text);
    for (const from of ['2026-03-07T00:00:00Z', '2026-10-31T12:00:00Z']) {
      let expected: number | null = null;
      for (let ms = at(from); ms < at(from) + 3 * 86_400_000; ms += 60_000) {
        if (holds(new Date(ms))) {
          if (expected !== null) expect(findNext(expected)).toBe(ms);
          expected = ms;
        }
        if (expected !== null && ms % 3_600_000 === 0) expect(findLast(ms)).toBe(expected);
      }
    }
  });

  test.each([
    ['61 * * * *', /minute: 61/],
    ['nonsense', /space separated/],
    ['* * * * * *', /5 parts/],
    ['0 0 31 2 *', /never occurs/],
    ['*/0 * * * *', /stepping/],
  ])('%s is rejected', (text, why) => {
    expect(() => parseCron(text)).toThrow(why);
  });
});

const minuteOfDay = (d: Date): number => d.getUTCHours() * 60 + d.getUTCMinutes();
const inside = (d: Date, hour: number, first: number, last: number): boolean =>
  d.getUTCHours() === hour && first <= d.getUTCMinutes() && d.getUTCMinutes() <= last;
