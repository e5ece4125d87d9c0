import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { union } from '../../src/base/window.ts';
import { access, coverageOf, dayMs, expectDone, findWrongWindows, folder, jobArgs, sandbox, ticksOf } from './lake.ts';
import { run } from './run-program.ts';

// Many runs: a machine that is busy with other things takes its time.
// The nights in which New York changes its clocks, as seen from there and from the first zone of the world to see a day.

const zones = ['America/New_York', 'Pacific/Kiritimati'];
const nights = [Date.UTC(2025, 2, 9), Date.UTC(2025, 10, 2)];

const day = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

describe.each(zones)('where TZ is %s', (zone) => {
  test('days are 24 hours in UTC when clocks change', async () => {
    const box = await sandbox({
      seed: 3,
      markets: 3,
      ticksPerDay: 100,
      nowMs: Date.UTC(2025, 10, 5),
      lifetimeDaysMax: 400,
    });
    const output = folder();
    const env = { ...access(box.url), TZ: zone };
    for (const night of nights) {
      const range = ['--from', day(night - dayMs), '--to', day(night + 2 * dayMs), '--all-known'];
      const ended = await expectDone(run(jobArgs('backfill', output, ...range), env));
      const dates = [-1, 0, 1].map((n) => day(night + n * dayMs));
      expect(ended.summary.published.dates).toEqual(expect.arrayContaining(dates));
    }
    expect(findWrongWindows(output, box)).toEqual([]);
    const rows = coverageOf(output);
    expect(rows.length).toBeGreaterThanOrEqual(6);
    for (const [, mine] of Map.groupBy(rows, ({ symbol }) => symbol))
      for (const { from, to } of union(mine)) expect([from % dayMs, (to - from) % dayMs]).toEqual([0, 0]);
    const file = join(folder(), 'ticks.csv');
    const requested = ['--from', day(nights[1]!), '--to', `${day(nights[1]!)}T08:00:00Z`, '--out', file];
    await expectDone(run(['export', '--output', output, ...requested], env));
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n').slice(1);
    const wanted = [...ticksOf(output)].flatMap(([symbol, ticks]) =>
      ticks
        .filter(({ t }) => nights[1]! <= t && t < nights[1]! + dayMs / 3)
        .map(({ t, p }) => `${symbol},${new Date(t).toISOString()},${p}`),
    );
    expect(lines.length).toBeGreaterThan(10);
    expect(lines.toSorted()).toEqual(wanted.toSorted());
  });
});
