import { expect, test } from 'vitest';
import {
  type DayReason,
  type DayReasonName,
  dayReasonNames,
  describeCompleteDays,
  explainDay,
  formatOpenDays,
  groupOpenDays,
  listOpenDays,
  selectShownDays,
  suggestOpenDaysCommand,
  toOpenDayList,
} from '../../src/contract/day-reasons.ts';

const minuteMs = 60_000;
const dayMs = 1440 * minuteMs;
const day = Date.UTC(2026, 10, 20);
const range = '--from 2026-11-20 --to 2026-11-21';

const because = (reason: DayReasonName, symbols = 2, from = 0, to = dayMs): DayReason => ({
  reason,
  symbols,
  ...(reason === 'lists unproven' && { detail: 'view matched: no total' }),
  from: day + from,
  to: day + to,
});
const explain = (...reasons: DayReason[]) => explainDay('2026-11-20', reasons);

const words: Record<DayReasonName, readonly [one: string, two: string, action: string]> = {
  'not over': [
    'the day was not over at the last publish',
    'the day was not over at the last publish',
    'the nights after its end complete it',
  ],
  damaged: ['1 symbol in damaged files', '2 symbols in damaged files', 'to repair the file: oddslake verify --repair'],
  failed: [
    'requests for 1 symbol failed',
    'requests for 2 symbols failed',
    `the next night fetches them, or: oddslake backfill ${range}`,
  ],
  'never asked': [
    '1 symbol is not requested yet',
    '2 symbols are not requested yet',
    `the next night fetches them, or: oddslake backfill ${range}`,
  ],
  'lists incomplete': [
    'the market lists of the day are incomplete, so that symbols may be unknown',
    'the market lists of the day are incomplete, so that symbols may be unknown',
    `the day stays incomplete; to list its gaps: oddslake gaps ${range}`,
  ],
  'lists unproven': [
    'market lists not proven whole: view matched: no total',
    'market lists not proven whole: view matched: no total',
    'the day stays provisional, because its lists cannot be fetched any more',
  ],
  suspended: [
    '1 symbol is suspended: unknown to the service',
    '2 symbols are suspended: unknown to the service',
    'to request suspended symbols now: oddslake symbols retry',
  ],
  lost: [
    'ticks of 1 symbol were lost',
    'ticks of 2 symbols were lost',
    'to restore lost ticks: oddslake verify --repair',
  ],
  expired: [
    '1 symbol is no longer served',
    '2 symbols are no longer served',
    `there is nothing left to do; to list the windows: oddslake gaps ${range}`,
  ],
  accepted: [
    '1 symbol is accepted as a gap',
    '2 symbols are accepted as a gap',
    `there is nothing left to do; to list the windows: oddslake gaps ${range}`,
  ],
  inferred: [
    'coverage of 1 symbol is inferred',
    'coverage of 2 symbols is inferred',
    `nights prove recent windows; to request what can be proven by now: oddslake backfill --recheck inferred ${range}`,
  ],
};

test.each(dayReasonNames)('a day says that it is not complete: %s', (name) => {
  const [one, two, action] = words[name];
  expect(explain(because(name, 1))).toMatchObject({ reason: one, next_action: action });
  expect(explain(because(name, 2))).toMatchObject({ reason: two, next_action: action });
});

test.each([
  [dayMs - 37 * minuteMs, dayMs, 'coverage of the last 37 min of 12 symbols is inferred'],
  [0, 90 * minuteMs, 'coverage of the first 1 h 30 min of 12 symbols is inferred'],
  [60 * minuteMs, 90 * minuteMs, 'coverage of 12 symbols between 01:00 and 01:30 UTC is inferred'],
  [60 * minuteMs, 60 * minuteMs + 5, 'coverage of 12 symbols at 01:00 UTC is inferred'],
  [2, dayMs, 'coverage of almost the whole day of 12 symbols is inferred'],
  [0, dayMs, 'coverage of 12 symbols is inferred'],
])('names the part of the day from %i to %i ms', (from, to, reason) => {
  expect(explain(because('inferred', 12, from, to)).reason).toBe(reason);
  expect(explain(because('inferred', 1, dayMs - minuteMs)).reason).toBe(
    'coverage of the last 1 min of 1 symbol is inferred',
  );
});

test('the command fetches what is missing and proves what is not proven', () => {
  const { reason, reasons, next_action } = explain(because('inferred'), because('failed', 1));
  expect(reason).toBe('requests for 1 symbol failed; coverage of 2 symbols is inferred');
  expect(reasons.map(({ reason: name }) => name)).toEqual(['failed', 'inferred']);
  expect(next_action).toBe(`the next night fetches them, or: oddslake backfill --recheck inferred ${range}`);
  expect(explain({ ...because('damaged'), symbols: 0 }).reason).toBe('a file is damaged');
});

const open = (date: string, ...reasons: DayReason[]) =>
  [date, { state: 'provisional', expected: 2, covered: 2, reasons }] as const;

test('lists past days that are not complete, the newest first, and joins those with the same reason', () => {
  const inferred = (from: number) => ({ ...because('inferred'), from, to: from + dayMs });
  const days = listOpenDays(
    [
      open('2026-11-18', inferred(day - 2 * dayMs)),
      open('2026-11-19', inferred(day - dayMs)),
      ['2026-11-20', { state: 'complete', expected: 2, covered: 2 }],
      ['2026-11-21', { state: 'incomplete', expected: 3, covered: 1 }],
      ['2026-11-22', { state: 'empty', expected: 0, covered: 0 }],
      ['2026-11-23', { state: 'incomplete', expected: 3, covered: 3 }],
      open('2026-11-24', because('not over')),
    ],
    Date.UTC(2026, 10, 24, 12),
  );
  expect(days.map(({ date }) => date)).toEqual(['2026-11-23', '2026-11-21', '2026-11-19', '2026-11-18']);
  expect(groupOpenDays(days).map(formatOpenDays)).toEqual([
    '2026-11-23 incomplete: not proven yet',
    '2026-11-21 incomplete: 1 of 3 symbols covered',
    '2026-11-18 to 2026-11-19 provisional: coverage of 2 symbols is inferred',
  ]);
  expect(suggestOpenDaysCommand(days.slice(2))).toBe(
    'oddslake backfill --recheck inferred --from 2026-11-18 --to 2026-11-20',
  );
  expect(suggestOpenDaysCommand([])).toBeNull();
});

test('shows incomplete days first, then provisional ones', () => {
  const on = (n: number): string => `2026-10-${String(n).padStart(2, '0')}`;
  const incomplete = (n: number, ...reasons: DayReason[]) =>
    [on(n), { state: 'incomplete', expected: 2, covered: 1, reasons }] as const;
  const days = listOpenDays(
    [
      incomplete(1, because('never asked')),
      incomplete(2, because('lists incomplete')),
      incomplete(3, because('lists incomplete'), { ...because('damaged'), symbols: 0 }),
      incomplete(5, because('lists incomplete')),
      ...Array.from({ length: 24 }, (_, n) => open(on(n + 7), { ...because('inferred'), symbols: n + 1 })),
    ],
    day,
  );
  expect(selectShownDays(days)).toEqual({
    lines: [
      expect.stringMatching(/^2026-10-05 incomplete: the market lists/),
      expect.stringMatching(/^2026-10-03 incomplete: .*a file is damaged/),
      expect.stringMatching(/^2026-10-02 incomplete: the market lists/),
    ],
    more: 25,
  });
  const list = toOpenDayList(days);
  expect(list).toMatchObject({ open_days: { length: 20 }, open_days_count: 28 });
  // The newest first, but none is cut off that something completes.
  expect(list.open_days.map(({ date }) => date)).toEqual([
    ...Array.from({ length: 18 }, (_, n) => on(30 - n)),
    on(3),
    on(1),
  ]);
  expect(selectShownDays(list.open_days, list.open_days_count)).toMatchObject({ more: 25 });
  expect(suggestOpenDaysCommand(days)).toBe('oddslake verify --repair');
});

test('says how many days are complete and which of the newest are not, and names no day that it does not know', () => {
  const of = (complete: number, total: number, ...dates: readonly string[]) =>
    describeCompleteDays(
      complete,
      total,
      dates.map((date, i) => ({ ...explain(because('inferred', i)), date, state: 'provisional' })),
    );
  expect(of(3, 3)).toBe('3 of 3 days complete');
  expect(of(0, 1, '2026-11-20')).toBe('0 of 1 day complete');
  expect(of(2, 3, '2026-11-20')).toBe('2 of 3 days complete (all but 2026-11-20)');
  expect(of(31, 34, '2026-11-30', '2026-11-29', '2026-10-29')).toBe(
    '31 of 34 days complete (all but 2026-10-29 and 2026-11-29 to 2026-11-30)',
  );
  expect(of(26, 30, '2026-11-30', '2026-11-10', '2026-11-02', '2026-11-01')).toBe(
    '26 of 30 days complete (all since 2026-11-03 but 2026-11-10 and 2026-11-30)',
  );
  // Another has ended since the last publish.
  expect(of(2, 4, '2026-11-20')).toBe('2 of 4 days complete');
});
