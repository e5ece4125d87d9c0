import { afterEach, describe, expect, test } from 'vitest';
import { addDays, formatDay, parseTime } from '../../src/base/time.ts';

// Sets the time zone of the process, which a worker thread cannot, so these tests have their own file.
describe('times and days are the same in every time zone', () => {
  const zone = process.env.TZ;
  afterEach(() => {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  });

  test.each(['UTC', 'America/New_York', 'Australia/Lord_Howe', 'Pacific/Kiritimati'])('%s', (name) => {
    process.env.TZ = name;
    expect(Intl.DateTimeFormat().resolvedOptions().timeZone).toBe(name);
    // New York skips 2:30 that night.
    expect(parseTime('2026-03-08T02:30:00Z', '--from')).toBe(Date.UTC(2026, 2, 8, 2, 30));
    expect(parseTime('2026-03-08', '--from')).toBe(Date.UTC(2026, 2, 8));
    expect(formatDay(Date.UTC(2026, 2, 8))).toBe('2026-03-08');
    expect(addDays('2026-03-08', 1)).toBe('2026-03-09');
  });
});
