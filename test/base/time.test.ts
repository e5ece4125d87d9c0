import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/base/errors.ts';
import {
  addDays,
  dayMs,
  formatDay,
  formatIsoMinute,
  formatIsoUtc,
  formatMinute,
  parseDay,
  parseDayStart,
  parseDuration,
  parseRelativeTime,
  parseTime,
  timeEnd,
  timeMin,
} from '../../src/base/time.ts';
import { checkProperty } from '../harness/properties.ts';

const noon = Date.UTC(2026, 6, 1, 12);
const time = (text: string) => parseTime(text, '--from');

test('times relative to now', () => {
  const now = Date.UTC(2026, 2, 1, 13, 30, 0, 5);
  const relative = (text: string) => parseRelativeTime(text, '--since', now);
  expect(
    ['now', 'today', 'yesterday', '24h', '7d', '90s'].map((text) => new Date(relative(text)).toISOString()),
  ).toEqual([
    '2026-03-01T13:30:00.005Z',
    '2026-03-01T00:00:00.000Z',
    '2026-02-28T00:00:00.000Z',
    '2026-02-28T13:30:00.005Z',
    '2026-02-22T13:30:00.005Z',
    '2026-03-01T13:28:30.005Z',
  ]);
  expect(relative('2026-02-28')).toBe(Date.UTC(2026, 1, 28));
  for (const [text, sentence] of [
    ['tomorrow', /--since "tomorrow": expected epoch milliseconds/],
    ['10000d', /--since "10000d": this long ago was before the year 2000/],
    ['40000d', /at most 36525d/],
    ['1w', /--since "1w": expected epoch milliseconds/],
  ] as const)
    expect(() => relative(text)).toThrow(sentence);
});
const anyTime = fc.integer({ min: timeMin, max: timeEnd - 1 });

describe('a time', () => {
  test('is accepted as epoch milliseconds from 2000 to 2100', () => {
    for (const ms of [noon, timeMin, timeEnd - 1]) expect(time(String(ms))).toBe(ms);
    for (const ms of [timeMin - 1, timeEnd]) expect(() => time(String(ms))).toThrow(UsageError);
  });

  test('is accepted as a day, at UTC midnight', () => {
    expect(time('2026-07-01')).toBe(Date.UTC(2026, 6, 1));
    expect(time('2028-02-29')).toBe(Date.UTC(2028, 1, 29));
  });

  test.each([
    '2026-07-01T12:00Z',
    '2026-07-01T12:00:00Z',
    '2026-07-01T12:00:00.000Z',
    '2026-07-01T12:00:00.000000Z',
    '2026-07-01T14:00:00+02:00',
    '2026-07-01T14:00:00+0200',
    '2026-07-01T14:00:00+02',
    '2026-07-01T08:30:00-03:30',
    '2026-07-02T00:15:00+12:15',
  ])('is accepted as an instant with a zone: %s', (text) => {
    expect(time(text)).toBe(noon);
  });

  test('keeps its milliseconds', () => {
    expect(time('2026-07-01T12:00:00.5Z')).toBe(noon + 500);
    expect(time('2026-07-01T12:00:00.007000Z')).toBe(noon + 7);
  });

  test.each([
    '',
    ' ',
    'yesterday',
    '2026-07-01T12:00:00',
    '2026-07-01 12:00:00Z',
    '2026-07-01T12:00:00z',
    '2026-02-30',
    '2026-02-29',
    '2026-13-01',
    '2026-00-10',
    '2026-7-1',
    '20260701',
    '2026-07-01T24:00:00Z',
    '2026-07-01T12:60:00Z',
    '2026-02-30T12:00:00Z',
    '2016-12-31T23:59:60Z',
    '2026-07-01T12:00:00.0001Z',
    '2026-07-01T12:00:00+24:00',
    '2026-07-01T12:00:00+02:60',
    '2026-07-01T12:00:00 UTC',
    '1999-12-31T23:59:59.999Z',
    '2101-01-01',
    '2000-01-01T00:00:00+01:00',
    '-1',
    '1.5e12',
    '1782907200000.5',
    '0x19c5d0a0000',
    '9'.repeat(400),
    '2026-07-01\n',
    '2026-07-01T12:00:00Z\n',
  ])('is rejected with name and value: %j', (text) => {
    expect(() => time(text)).toThrow(UsageError);
    expect(() => time(text)).toThrow(/^--from ".*": expected epoch milliseconds, YYYY-MM-DD or an ISO-8601 instant/);
  });

  test('without a zone or in seconds is explained in the error', () => {
    expect(() => time('2026-07-01T12:00:00')).toThrow(/no zone/);
    expect(() => time('1782907200')).toThrow(/looks like seconds/);
    expect(() => time('soon')).toThrow(/the years 2000 to 2100$/);
  });

  test('is quoted in the error up to eighty characters', () => {
    expect(() => time('x'.repeat(80))).toThrow(`--from "${'x'.repeat(80)}":`);
    expect(() => time('x'.repeat(81))).toThrow(`--from "${'x'.repeat(80)}…":`);
  });

  test('survives a round trip', () => {
    checkProperty([anyTime], 100, (ms) => time(formatIsoUtc(ms)) === ms && time(String(ms)) === ms);
  });

  test('is formatted without zero milliseconds', () => {
    expect(formatIsoUtc(noon)).toBe('2026-07-01T12:00:00Z');
    expect(formatIsoUtc(noon + 1)).toBe('2026-07-01T12:00:00.001Z');
  });
});

describe('a day', () => {
  test('is formatted as by Date, whether it was formatted before or not, and parsed only as it is formatted', () => {
    const textOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
    const anyMs = fc.oneof(
      fc.integer({ min: timeMin - 3 * dayMs, max: timeMin + 3 * dayMs }),
      fc.integer({ min: timeEnd - 3 * dayMs, max: timeEnd + 3 * dayMs }),
      fc.integer({ min: -8.64e15, max: 8.64e15 }),
      fc.double({ min: timeMin, max: timeEnd, noNaN: true }),
    );
    checkProperty([anyMs], 100, (ms) => {
      for (const _ of ['first', 'again']) expect(formatDay(ms)).toBe(textOf(ms));
    });
    for (const ms of [Number.NaN, Number.POSITIVE_INFINITY, 9e15]) expect(() => formatDay(ms)).toThrow(RangeError);
    const days = Array.from({ length: (timeEnd - timeMin) / dayMs }, (_, i) => timeMin + i * dayMs);
    const isRight = (ms: number): boolean =>
      formatDay(ms + dayMs - 1) === textOf(ms) && parseDayStart(textOf(ms)) === ms;
    expect(days.filter((ms) => !isRight(ms))).toEqual([]);
    for (const text of [
      '2026-02-29',
      '2026-7-01',
      ' 2026-07-01',
      '2026-07-01 ',
      '2026-07-01T00:00:00Z',
      '',
      '__proto__',
    ])
      expect(() => parseDayStart(text)).toThrow(RangeError);
  });

  test('contains every instant from its UTC midnight to the next', () => {
    expect(formatDay(parseDayStart('2026-07-01'))).toBe('2026-07-01');
    expect(formatDay(parseDayStart('2026-07-02') - 1)).toBe('2026-07-01');
    checkProperty(
      [anyTime],
      100,
      (ms) => parseDayStart(formatDay(ms)) <= ms && ms < parseDayStart(formatDay(ms)) + dayMs,
    );
  });

  test('is followed by the next one across months, leap days and years', () => {
    expect(addDays('2026-12-31', 1)).toBe('2027-01-01');
    expect(addDays('2028-02-28', 1)).toBe('2028-02-29');
    expect(addDays('2026-03-01', -1)).toBe('2026-02-28');
  });

  test('that does not exist is rejected', () => {
    for (const day of ['2026-07-01', '2000-01-01', '2100-12-31']) expect(parseDay(day, '--date')).toBe(day);
    for (const text of ['2026-02-30', '2026-7-1', '1999-12-31', '2101-01-01', '', '2026-07-01T00:00Z']) {
      expect(() => parseDay(text, '--date')).toThrow(/^--date ".*": expected a day/);
    }
    expect(() => parseDayStart('2026-02-30')).toThrow(RangeError);
  });
});

describe('a duration', () => {
  test('is a whole number with a unit', () => {
    expect(['0s', '300ms', '90s', '15m', '2h', '1d', '36525d'].map((text) => parseDuration(text, '--max-lag'))).toEqual(
      [0, 300, 90_000, 900_000, 7_200_000, 86_400_000, 36_525 * 86_400_000],
    );
  });

  test.each(['', '90', 's', '1.5h', '-1h', '1w', '1H', '1 h', '1h30m', '36526d', '9'.repeat(30)])(
    'is refused: %j',
    (text) => {
      expect(() => parseDuration(text, '--max-lag')).toThrow(UsageError);
      expect(() => parseDuration(text, '--max-lag')).toThrow(/^--max-lag ".*": expected a whole number with a unit/);
    },
  );
});

test('a time is shown to the minute, with a zone or for pages', () => {
  const t = Date.UTC(2026, 10, 22, 3, 17, 59);
  expect([formatIsoMinute(t), formatMinute(t)]).toEqual(['2026-11-22T03:17Z', '2026-11-22 03:17']);
});
