import { expect, test } from 'vitest';
import { job as ticksJob } from '../../../jobs/ticks.ts';
import { at, input, ordinary, remembered } from './falls-nights.ts';
import { dayMs, fewFiles, hourMs, startNights } from './nights.ts';

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
