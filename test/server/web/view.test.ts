import { describe, expect, test } from 'vitest';
import {
  buildCalendar,
  formatCurlCommand,
  toFileName,
  toFileUrl,
  toLevel,
} from '../../../src/server/web/client/archive-file.ts';
import { formatTime } from '../../../src/server/web/client/format.ts';
import {
  alignToIntervals,
  estimateTicks,
  scaleRange,
  selectInterval,
  shiftRange,
} from '../../../src/server/web/client/lines.ts';
import { formatHash, parseView } from '../../../src/server/web/client/view.ts';

const dayMs = 86_400_000;
const day0 = Date.UTC(2026, 5, 1);

describe('the URL of a view', () => {
  test.each(['plain', 'a b&c=d#e%f+g', '<script>', '🦆', 'two\nlines', 'x'.repeat(300)])('keeps %j', (symbol) => {
    const view = { symbol, range: { from: day0 + 1, to: day0 + dayMs }, chart: 'candles', day: '2026-06-01' } as const;
    expect(parseView(formatHash(view))).toEqual(view);
  });

  test('omits default values', () => {
    expect(formatHash({ symbol: null, range: null, chart: 'price', day: null })).toBe('#');
    expect(formatHash({ symbol: 'A', range: { from: day0, to: day0 + dayMs }, chart: 'price', day: null })).toBe(
      '#symbol=A&from=2026-06-01&to=2026-06-02',
    );
  });

  test.each([
    'from=2026-06-02&to=2026-06-01',
    'from=2026-06-01',
    'from=yesterday&to=today',
    'from=2026-06-01T00:00&to=2026-06-02',
    'from=2026-02-31T99:00Z&to=2027-01-01',
    'day=2026-6-1',
    'day=2026-13-01',
    'chart=pie',
    'main',
  ])('ignores invalid values: %s', (hash) => {
    expect(parseView(`#${hash}`)).toEqual({ symbol: null, range: null, chart: 'price', day: null });
  });
});

describe('the list in the URL', () => {
  const view = { symbol: null, range: null, chart: 'price', day: null } as const;
  const list = {
    words: 'são & rain',
    venue: 'kalshi',
    category: 'a=b#c',
    state: 'ending',
    sort: 'name',
    page: 7,
  } as const;

  test('is kept, also on the page of a symbol', () => {
    expect(parseView(formatHash({ ...view, list }))).toEqual({ ...view, list });
    const parsed = parseView(formatHash({ ...view, symbol: 'A', list }));
    expect([parsed.symbol, parsed.list]).toEqual(['A', list]);
  });

  test.each(['page=0', 'page=-1', 'page=1e3', 'page=x', 'state=any', 'state=__proto__', 'sort=toString', 'venue='])(
    'ignores invalid values: %s',
    (hash) => expect(parseView(`#${hash}`).list).toBeUndefined(),
  );

  test('has bounds', () => {
    const { words, page } = parseView(`#q=${'x'.repeat(5000)}&page=9999999`).list!;
    expect([words.length, page]).toEqual([1000, 1_000_000]);
  });
});

describe('the calendar', () => {
  const state = { state: 'complete' as const, expected: 4, covered: 4, missing: [], exceptions: 0 };

  test('has every month from the first day to the last', () => {
    const months = buildCalendar({ '2026-01-31': state, '2026-03-01': state });
    expect(months.map(({ month, leadingBlanks, days }) => [month, leadingBlanks, days.length])).toEqual([
      ['2026-01', 3, 31],
      ['2026-02', 6, 28],
      ['2026-03', 6, 31],
    ]);
    expect(months.flatMap(({ days }) => days.filter((day) => day.state !== null).map(({ date }) => date))).toEqual([
      '2026-01-31',
      '2026-03-01',
    ]);
    expect(buildCalendar({})).toEqual([]);
  });

  test('never shows a partly covered day as full or empty', () => {
    const level = (covered: number, expected: number) => toLevel({ ...state, covered, expected });
    expect([level(0, 5), level(1, 100_000), level(99_999, 100_000), level(7, 7), level(0, 0)]).toEqual([
      0,
      1,
      4,
      5,
      null,
    ]);
    expect(toLevel(null)).toBe(null);
  });
});

describe('the data of a range', () => {
  test('uses candles of the shortest interval that fits', () => {
    const named = (ms: number, max: number) => selectInterval({ from: 0, to: ms }, max).name;
    expect([named(dayMs / 24, 60), named(dayMs, 200), named(30 * dayMs, 800), named(3000 * dayMs, 200)]).toEqual([
      '1m',
      '15m',
      '1h',
      '1d',
    ]);
    const range = alignToIntervals({ from: day0 + 1, to: day0 + 2 }, { name: '1h', ms: 3_600_000 });
    expect(range).toEqual({ from: day0, to: day0 + 3_600_000 });
  });

  test('depends on the estimated number of ticks', () => {
    const life = { first: 0, last: 999, ticks: 500 };
    expect(estimateTicks({ from: 0, to: 1000 }, life)).toBe(500);
    expect(estimateTicks({ from: 900, to: 5000 }, life)).toBe(50);
    expect(estimateTicks({ from: 2000, to: 5000 }, life)).toBe(0);
  });

  test('stays within the bounds when moved and zoomed', () => {
    const bounds = { from: 0, to: 100_000 };
    expect(shiftRange({ from: 10_000, to: 30_000 }, -1, bounds)).toEqual({ from: 0, to: 20_000 });
    expect(shiftRange({ from: 90_000, to: 100_000 }, 0.5, bounds)).toEqual({ from: 90_000, to: 100_000 });
    expect(scaleRange({ from: 40_000, to: 60_000 }, 0.5, bounds)).toEqual({ from: 45_000, to: 55_000 });
    expect(scaleRange({ from: 40_000, to: 60_000 }, 100, bounds)).toEqual(bounds);
    expect(scaleRange({ from: 50_000, to: 50_400 }, 0.5, bounds)).toEqual({ from: 49_700, to: 50_700 });
  });
});

test('formats times independently of the locale', () => {
  expect([day0, day0 + 1000, day0 + 1].map(formatTime)).toEqual([
    '2026-06-01 00:00',
    '2026-06-01 00:00:01',
    '2026-06-01 00:00:00.001',
  ]);
});

test('a file has a URL, a name with its day, and a curl command for any shell', () => {
  const file = { path: 'ticks/date=2026-06-01/part-00.parquet', date: '2026-06-01', rows: 1, bytes: 1, sha256: '' };
  expect(toFileUrl(file)).toBe('/api/v1/export/files/ticks/2026-06-01/part-00.parquet');
  expect(toFileName(file)).toBe('ticks-2026-06-01-part-00.parquet');
  expect(toFileName({ ...file, path: 'symbols/part-00.parquet' })).toBe('symbols-part-00.parquet');
  expect(formatCurlCommand("http://h/a'b", "it's")).toContain(`--output 'it'\\''s' 'http://h/a'\\''b'`);
});
