import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import type { Summary } from '../../../src/collector/run/summary.ts';
import { at, input, ticksOf } from './night-facts.ts';
import { dayMs, fewFiles, hourMs, startNights } from './nights.ts';

test('reports a night with the medians of previous nights, and consistent counts', async () => {
  const nights = await startNights({ ...input, lateShare: 0.05, lateDelayMsMax: 3 * hourMs }, [
    ...fewFiles,
    'poll.overlap_minutes=240',
  ]);
  const summaries: Summary[] = [];
  for (let n = 0; n < 9; n++) summaries.push(await nights.night(at(n)));
  for (const [n, summary] of summaries.entries()) {
    const { night, ticks } = summary;
    // The first night polled seven days, and is not compared with.
    expect(night!.nights).toBe(Math.min(Math.max(n - 1, 0), 7));
    expect(night!.ticks.new.count).toBe(ticks.accepted);
    expect(night!.ticks.late.count).toBeLessThanOrEqual(ticks.accepted);
    expect(night!.ticks.conflicts.count).toBe(ticks.conflicts);
    expect(night!.covered).toEqual({ symbols: expect.any(Number), gap_minutes: 0 });
    expect(summary.next_action).toBeNull();
  }
  // Nothing was covered before the first night. Later, late ticks are in the overlap of the next night.
  expect(ticksOf(summaries[0]!).late).toEqual({ count: 0, median: null });
  for (const summary of summaries.slice(1)) expect(ticksOf(summary).late.count).toBeGreaterThan(0);
  const before = summaries.slice(1, 8).map((summary) => ticksOf(summary).new.count);
  expect(ticksOf(summaries[8]!).new.median).toBe(before.toSorted((a, b) => a - b)[3]);
});

test('a repeated night is not compared and not part of later medians', async () => {
  const nights = await startNights(input, fewFiles);
  for (let n = 0; n < 3; n++) await nights.night(at(n));
  const day = Math.floor(at(2) / dayMs) * dayMs - dayMs;
  const manifest = readFileSync(join(nights.output, 'manifest.json'), 'utf8');
  const again = await nightly.run(await nights.contextAt(at(2)), { day });
  expect(again.night).toMatchObject({ nights: 0, ticks: { new: { count: 0, median: null } } });
  const ticksFiles = (text: string) => JSON.parse(text).datasets.ticks;
  expect(ticksFiles(readFileSync(join(nights.output, 'manifest.json'), 'utf8'))).toEqual(ticksFiles(manifest));
  expect((await nights.night(at(3))).night!.nights).toBe(2);
});

test('counts symbols that are fetched after the service has thinned out their days', async () => {
  const nights = await startNights(input, fewFiles);
  await nights.night(at(0));
  const inTime = await nights.night(at(5));
  expect(inTime.night!.fetched_late).toEqual({ count: 0, names: [] });
  const late = await nights.night(at(15));
  expect(late.night!.fetched_late.count).toBeGreaterThan(0);
  const never = await startNights(input, [...fewFiles, 'source.downsampled_after_days=null']);
  await never.night(at(0));
  expect((await never.night(at(15))).night!.fetched_late.count).toBe(0);
});
