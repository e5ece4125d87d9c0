import { describe, expect, test } from 'vitest';
import { limitMs, waitFor } from '../harness/limits.ts';
import {
  access,
  dayRows,
  expectDone,
  findWrongWindows,
  fixedDay,
  fixedNow,
  folder,
  hashes,
  jobArgs,
  journaledTicks,
  sandbox,
  start,
  totalTicks,
} from './lake.ts';
import { runJob as job, run } from './run-program.ts';

const input = { seed: 11, nowMs: fixedNow, markets: 10, ticksPerDay: 200, cap: 200, lifetimeDaysMax: 45 };
const backfill = ['--from', '2025-05-20', '--to', '2025-06-10'];
const kept = ['ticks', 'coverage', 'conflicts', 'candles_1h', 'candles_1d'] as const;

test('a repeated nightly run of a past date requests no ticks and changes no byte', async () => {
  const output = folder();
  const box = await sandbox(input);
  await expectDone(job('nightly', box.url, output, '--date', fixedDay));
  const before = hashes(output, ...kept);
  const requestsBefore = box.stats().tickRequests;
  const again = await expectDone(job('nightly', box.url, output, '--date', fixedDay));
  expect(box.stats().tickRequests).toBe(requestsBefore);
  expect(hashes(output, ...kept)).toEqual(before);
  expect(again.summary).toMatchObject({ pages: 0, ticks: { fetched: 0 }, symbols: { planned: 0 } });
});

describe('a backfill', () => {
  test('a killed run is resumed with the missing windows only, and a third run requests nothing', async () => {
    // Many pages per symbol, because the repeated cost of a symbol in progress is a fixed number of requests.
    const box = await sandbox({ ...input, ticksPerDay: 1000 });
    const control = folder();
    await expectDone(job('backfill', box.url, control, ...backfill));
    const needed = box.stats().tickRequests;
    // A backfill asks a day more at each end, of which nothing is kept.
    const keptShare = totalTicks(control) / box.stats().tickRows;

    const output = folder();
    box.set({ latencyMs: 15 });
    const rows = box.stats().tickRows;
    const running = start(jobArgs('backfill', output, ...backfill), access(box.url));
    await waitFor(() => box.stats().tickRequests > needed + needed * 0.6, 'most of the requests');
    // Later requests are never answered. Earlier responses are in the journal, except for those nobody waits for.
    box.set({ latencyMs: limitMs });
    await waitFor(
      () => journaledTicks(output) > (box.stats().tickRows - rows) * keptShare * 0.9,
      'the responses in the journal',
    );
    running.child.kill('SIGKILL');
    await running.ended;
    box.set({ latencyMs: 0 });
    const done = box.stats().tickRequests - needed;

    const resumed = await expectDone(job('backfill', box.url, output, ...backfill));
    const more = box.stats().tickRequests - needed - done;
    // Requests repeated: those in progress, and the first page, the confirmations and what the proof of its ends asks for of a
    // symbol, eight in all.
    expect(more).toBeLessThanOrEqual(needed - done + 8 * input.markets);
    expect(resumed.summary.recovered).toBeGreaterThan(0);
    expect(totalTicks(output)).toBe(resumed.summary.recovered + resumed.summary.ticks.accepted);
    expect(totalTicks(output)).toBe(totalTicks(control));
    expect(dayRows(output, 'ticks')).toEqual(dayRows(control, 'ticks'));
    expect(findWrongWindows(output, box)).toEqual([]);

    const before = hashes(output, ...kept);
    const requestsBefore = box.stats().tickRequests;
    await expectDone(job('backfill', box.url, output, ...backfill));
    expect(box.stats().tickRequests).toBe(requestsBefore);
    expect(hashes(output, ...kept)).toEqual(before);
  });

  test('a run after failures requests the failed windows only', async () => {
    const box = await sandbox({ ...input, faultShare: 0.3, faults: ['500'] });
    const output = folder();
    const once = ['--set', 'upstream.retry_attempts_max=1'];
    await expectDone(job('markets', box.url, output));
    const first = await job('backfill', box.url, output, ...backfill, ...once);
    expect(first.code, first.stderr).toBe(4);
    expect(first.summary.failures_count).toBeGreaterThan(0);
    box.set({ faultShare: 0 });
    await expectDone(job('backfill', box.url, output, ...backfill, '--dry-run'));
    const second = await expectDone(job('backfill', box.url, output, ...backfill));
    expect(second.summary.symbols.planned).toBe(first.summary.symbols.failed);
    expect(findWrongWindows(output, box)).toEqual([]);
  });

  test('--dry-run prints symbols, windows, requests and time, and fetches no tick', async () => {
    const box = await sandbox(input);
    const output = folder();
    await expectDone(job('markets', box.url, output));
    const args = ['backfill', '--output', output, '--set', 'source.name=box', ...backfill, '--dry-run'];
    const planned = await expectDone(run(args, access(box.url)));
    expect(planned.stdout).toMatch(
      /^\d+ symbols, \d+ windows, at least \d+ requests\nat least .* at the configured rate of 5 per second$/m,
    );
    expect(planned.stdout).toContain('2025-05-20T00:00:00Z');
    expect(box.stats().tickRequests).toBe(0);
    expect(totalTicks(output)).toBe(0);
  });

  test('a mistyped symbol fails once and later backfills do not request it', async () => {
    const box = await sandbox(input);
    const output = folder();
    await expectDone(job('markets', box.url, output));
    await expectDone(job('backfill', box.url, output, ...backfill, '--symbol', 'TYPO', '--dry-run'));
    const mistyped = await job('backfill', box.url, output, ...backfill, '--symbol', 'TYPO');
    expect(mistyped.summary).toMatchObject({ exit_code: 4, failures: [expect.objectContaining({ symbol: 'TYPO' })] });
    const all = await job('backfill', box.url, output, ...backfill);
    expect(all.summary).toMatchObject({ exit_code: 0, failures_count: 0 });
    expect((await job('ticks', box.url, output, '--symbol', '')).code).toBe(2);
  });

  test('--force fetches covered windows again and changes no tick', async () => {
    const box = await sandbox({ ...input, cap: 5000 });
    const output = folder();
    await expectDone(job('backfill', box.url, output, ...backfill));
    const before = hashes(output, 'ticks');
    const requestsBefore = box.stats().tickRequests;
    const again = await expectDone(job('backfill', box.url, output, ...backfill, '--force'));
    expect(box.stats().tickRequests).toBeGreaterThan(requestsBefore + 5);
    expect(again.summary.ticks).toMatchObject({ accepted: 0, conflicts: 0, duplicates: again.summary.ticks.fetched });
    expect(hashes(output, 'ticks')).toEqual(before);
  });
});
