import { describe, expect, test } from 'vitest';
import type { SandboxOptions } from '../../src/sandbox/sandbox-options.ts';
import {
  addsUp,
  coverageOf,
  findWrongWindows,
  folder,
  runJobProcess as job,
  minuteMs,
  sandbox,
  sandboxProcess,
  totalTicks,
} from '../e2e/lake.ts';

const seed = Number(process.env.SEED || Math.floor(Math.random() * 1e6));
console.log(`faults: SEED=${seed}`);

const settings = ['--set', 'upstream.request_deadline_seconds=0.6', '--set', 'upstream.retry_attempts_max=5'];
const nasty: Partial<SandboxOptions> = {
  markets: 20,
  ticksPerDay: 300,
  seed,
  cap: 500,
  faultShare: 0.1,
  stallMs: 900,
  repeatShare: 0.05,
  order: 'shuffled',
  lateShare: 0.3,
  reviseShare: 0.5,
  layout: 'mixed',
};

describe.each(['earliest', 'latest'] as const)(
  'a service that keeps the %s ticks of a page and fails one time in ten',
  (truncate) => {
    test('leaves exactly its ticks in the archive after two runs, with counts that add up', async () => {
      const output = folder();
      const firstNow = Date.now() - 45 * minuteMs;
      const box = await sandbox({ ...nasty, truncate, nowMs: firstNow });
      const first = await job('nightly', box.url, output, ...settings);
      expect([0, 4], first.stderr).toContain(first.code);
      expect(addsUp(first.summary)).toBe(true);
      expect(totalTicks(output)).toBe(first.summary.ticks.accepted);
      expect(findWrongWindows(output, box)).toEqual([]);

      // Late ticks have arrived by now, and prices changed.
      box.set({ nowMs: firstNow + 30 * minuteMs });
      const second = await job('nightly', box.url, output, ...settings);
      expect([0, 4], second.stderr).toContain(second.code);
      expect(addsUp(second.summary)).toBe(true);
      expect(totalTicks(output)).toBe(first.summary.ticks.accepted + second.summary.ticks.accepted);
      expect(second.summary.ticks.accepted).toBeGreaterThan(0);
      expect(second.summary.ticks.conflicts).toBeGreaterThan(0);
      expect(findWrongWindows(output, box)).toEqual([]);

      // Failed windows are fetched again from a healthy service.
      box.set({ faultShare: 0 });
      const third = await job('nightly', box.url, output, ...settings);
      expect(third.code, third.stdout).toBe(0);
      expect(findWrongWindows(output, box)).toEqual([]);
      expect(new Set(coverageOf(output).map(({ symbol, from }) => `${symbol} ${from}`)).size).toBe(
        coverageOf(output).length,
      );
      expect(Object.keys(box.stats().faults).length).toBeGreaterThan(3);
      expect(third.summary.reached).toBe(firstNow + 30 * minuteMs);
    });
  },
);

test('never exceeds the allowed rate and respects Retry-After', async () => {
  const output = folder();
  const size = { markets: 30, ticksPerDay: 200, cap: 300 };
  const box = await sandboxProcess({ seed, requestsPerSecond: 40, faultShare: 0.1, ...size });
  const ended = await job('nightly', box.url, output, ...settings, '--set', 'upstream.requests_per_second=40');
  expect([0, 4], ended.stderr).toContain(ended.code);
  const stats = await box.stats();
  expect(stats.requests).toBeGreaterThan(80);
  expect(stats.earlyRequests).toBe(0);
  expect(stats.perSecondMax).toBeLessThanOrEqual(40);
  expect(stats.perSecondMax).toBeGreaterThan(25);
  expect(ended.summary.requests).toBe(stats.requests);
  expect(addsUp(ended.summary)).toBe(true);
});
