import { expect, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import { createLeapingClock } from '../../client/virtual-clock.ts';
import { at, fewFiles, startNights } from './nights.ts';

const input = { seed: 5, markets: 12, ticksPerDay: 150, lifetimeDaysMax: 30 };

test('reports the request rate of a run with requests', async () => {
  const nights = await startNights(input, fewFiles);
  const context = await nights.contextAt(at(0), 'upstream.requests_per_second=50');
  // Waiting takes no time, so that a slow machine does not leave the rate unused.
  const clock = { ...createLeapingClock({ leapMsMax: 10_000 }), nowMs: context.clock.nowMs };
  const { rate, requests } = await nightly.run({ ...context, clock }, { day: null });
  expect(rate!.allowed_per_second).toBe(50);
  expect(rate!.used).toBeGreaterThan(0.5);
  expect(rate!.used).toBeLessThanOrEqual(1);
  expect(requests).toBeGreaterThan(5);
});

test('finds symbols that are first requested after the service may have thinned out their days', async () => {
  const nights = await startNights(input, fewFiles);
  await nights.night(at(0));
  const find = ({ findings }: Summary) => findings.filter(({ kind }) => kind === 'possibly downsampled');
  expect(find(await nights.night(at(5)))).toEqual([]);
  const late = await nights.night(at(15));
  expect(find(late)).toEqual([
    expect.objectContaining({
      severity: 'info',
      message: expect.stringMatching(/^Possibly downsampled: \d+ symbols \(.*\) have ticks older than 7 days/),
    }),
  ]);
  expect(late.warnings).toEqual([]);
  const never = await startNights(input, [...fewFiles, 'source.downsampled_after_days=null']);
  await never.night(at(0));
  expect(find(await never.night(at(15)))).toEqual([]);
});
