import { expect, test } from 'vitest';
import { job as ticksJob } from '../../../jobs/ticks.ts';
import { input, ordinary, remembered } from './falls-nights.ts';
import { at, dayMs, fewFiles, hourMs, startNights } from './nights.ts';

test('a sharp drop of markets exits with 4, publishes, and becomes the median', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  await nights.replace({ ...input, markets: 5 });
  const falls: number[] = [];
  for (let n = 4; n < 10; n++) {
    const summary = await nights.night(at(n));
    falls.push(summary.failures.filter(({ reason }) => reason.startsWith('markets fell by')).length);
    if (n === 4) {
      expect(summary).toMatchObject({ exit_code: 4, outcome: 'incomplete', error: null });
      expect(summary.failures[0]).toEqual({
        symbol: null,
        from: null,
        to: null,
        reason: expect.stringMatching(
          /^markets fell by \d+ %: the lists name \d+, the median of the last 4 nights is \d+/,
        ),
      });
      expect(summary.published.files).toBeGreaterThan(0);
    }
  }
  expect(falls[0]).toBe(1);
  expect(falls.at(-1)).toBe(0);
});

test('a sharp drop of ticks exits with 4, unless the check is disabled', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  await nights.replace({ ...input, ticksPerDay: 5 });
  const quiet = await nights.night(at(4), 'drops.ticks_share_max=1');
  expect(quiet).toMatchObject({ exit_code: 0, failures: [] });
  const summary = await nights.night(at(5));
  expect(summary.exit_code).toBe(4);
  expect(summary.failures).toEqual([
    {
      symbol: null,
      from: null,
      to: null,
      reason: expect.stringMatching(/^ticks fell by \d+ %: .* new ticks per hour/),
    },
  ]);
});

test('truncated lists are no drop and are not recorded', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  nights.box().set({ marketsCap: 3 });
  const summary = await nights.night(at(4));
  expect(summary.failures.map(({ reason }) => reason)).toEqual([
    expect.stringMatching(/^markets of view matched: the list is truncated/),
    expect.stringMatching(/^markets of view resolving: the list is truncated/),
  ]);
  expect(remembered(nights.output).map((row) => row.markets === null)).toEqual([false, false, false, false, true]);
});

test('includes ticks that another job polled in between', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  const before = remembered(nights.output).at(-1)!.ticks;
  for (let hour = 6; hour < 24; hour += 6) {
    const summary = await ticksJob.run(await nights.contextAt(at(3) + hour * hourMs), { symbols: [] });
    expect(summary.exit_code).toBe(0);
  }
  const ended = await ticksJob.run(await nights.contextAt(at(4) - 60_000), { symbols: [] });
  expect(ended.exit_code).toBe(0);
  const night = await nights.night(at(4));
  expect(night).toMatchObject({ exit_code: 0, failures: [] });
  expect(night.ticks.accepted).toBeLessThan(before / 5);
  expect(remembered(nights.output).at(-1)!.ticks).toBeGreaterThan(before / 2);
});

test('a repeated run or one with hardly any new time is no night', async () => {
  const nights = await startNights(input, fewFiles);
  await ordinary(nights, 4);
  const before = remembered(nights.output);
  expect(before.map((row) => row.polled_ms)).toEqual([7 * dayMs, dayMs, dayMs, dayMs]);
  expect(before.map((row) => row.polled_to)).toEqual([0, 1, 2, 3].map(at));
  for (const later of [0, 1000, hourMs - 1]) expect((await nights.night(at(3) + later)).exit_code).toBe(0);
  expect(remembered(nights.output)).toEqual(before);
});
