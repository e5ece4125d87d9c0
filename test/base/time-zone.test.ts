import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/base/errors.ts';
import { openTimeZone, type TimeZone } from '../../src/base/time-zone.ts';
import { checkProperty } from '../harness/properties.ts';

const names = [
  'America/New_York',
  'Europe/London',
  'America/St_Johns',
  'Australia/Lord_Howe',
  'Asia/Kathmandu',
  'Pacific/Apia',
  'Africa/Casablanca',
  'Pacific/Kiritimati',
  'Asia/Pyongyang',
  '+05:30',
];
const zones = new Map<string, TimeZone>();
const zoneOf = (name: string): TimeZone => {
  const zone = zones.get(name) ?? openTimeZone(name);
  zones.set(name, zone);
  return zone;
};

/** The wall-clock time of an instant, as if it were UTC, from Intl alone. */
const shown = new Map(
  names.map((name) => [
    name,
    new Intl.DateTimeFormat('sv-SE', { timeZone: name, dateStyle: 'short', timeStyle: 'medium' }),
  ]),
);
const localOf = (name: string, utcMs: number): number =>
  Date.parse(`${shown.get(name)!.format(utcMs).replace(' ', 'T')}Z`) + (utcMs % 1000);

/** The instants of a wall-clock time, by trying all offsets in steps of a quarter of an hour. */
const instantsOf = (name: string, localMs: number): number[] =>
  Array.from({ length: 4 * 28 + 1 }, (_, i) => localMs - (i - 4 * 13) * 900_000).filter(
    (utcMs) => localOf(name, utcMs) === localMs,
  );

const from = Date.UTC(2000, 0, 1);
const to = Date.UTC(2030, 0, 1);

describe('a time zone', () => {
  test('agrees with Intl around every change of the offset', () => {
    const anyTime = fc.record({ name: fc.constantFrom(...names), ms: fc.integer({ min: from, max: to }) });
    checkProperty([anyTime], 300, ({ name, ms }) => {
      const found = instantsOf(name, ms);
      const wanted = found.length === 1 ? found[0] : found.length === 0 ? 'skipped' : 'twice';
      expect(zoneOf(name).toInstant(ms)).toBe(wanted);
    });
  });

  test('maps every wall-clock time back to its instant, or reports two', () => {
    const day = 86_400_000;
    // Changes of daylight saving time, and the skipped day of Samoa.
    const nights = [Date.UTC(2026, 2, 8), Date.UTC(2026, 10, 1), Date.UTC(2026, 9, 25), Date.UTC(2011, 11, 30)];
    const anyTime = fc.record({
      name: fc.constantFrom(...names),
      ms: fc
        .tuple(fc.constantFrom(...nights), fc.integer({ min: -day, max: 2 * day }))
        .map(([night, ms]) => night + ms),
    });
    checkProperty([anyTime], 2000, ({ name, ms }) => {
      expect([ms, 'twice']).toContain(zoneOf(name).toInstant(localOf(name, ms)));
    });
  });

  test.each([
    ['America/New_York', '2026-07-11T00:25:46.123Z', '2026-07-11T04:25:46.123Z'],
    ['America/New_York', '2026-03-08T02:30:00.000Z', 'skipped'],
    ['America/New_York', '2026-03-08T01:59:59.999Z', '2026-03-08T06:59:59.999Z'],
    ['America/New_York', '2026-03-08T03:00:00.000Z', '2026-03-08T07:00:00.000Z'],
    ['America/New_York', '2026-11-01T01:00:00.000Z', 'twice'],
    ['America/New_York', '2026-11-01T02:00:00.000Z', '2026-11-01T07:00:00.000Z'],
    ['Australia/Lord_Howe', '2026-10-04T02:15:00.000Z', 'skipped'],
    ['Pacific/Apia', '2011-12-30T12:00:00.000Z', 'skipped'],
    ['utc', '2026-03-08T02:30:00.000Z', '2026-03-08T02:30:00.000Z'],
  ])('%s: %s on the wall is %s', (name, local, wanted) => {
    const found = openTimeZone(name).toInstant(Date.parse(local));
    expect(typeof found === 'number' ? new Date(found).toISOString() : found).toBe(wanted);
  });

  test('must be known', () => {
    for (const name of ['Mars/Olympus', '', 'EST5EDT4', 'local']) expect(() => openTimeZone(name)).toThrow(UsageError);
  });
});
