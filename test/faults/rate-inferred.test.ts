import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { access, fixedDay, folder, jobArgs, sleep, start } from '../e2e/lake.ts';
import { computeUse, countResponses, long, rateFlags, seed, service } from '../e2e/paced.ts';
import { run } from '../e2e/run-program.ts';
import { limitMs, waitFor } from '../harness/limits.ts';

console.log(`rate inferred: SEED=${seed}`);

const span = ['--from', '2025-05-01', '--to', '2025-06-14'];
const [allowed, configured] = [20, 100];

test('a service that allows less than configured soon throttles little, and the next run knows its rate', async () => {
  const output = folder();
  const box = await service(allowed, long ? 80 : 20, { retryAfter: 'none' });
  const backfill = () =>
    start(jobArgs('backfill', output, ...span, ...rateFlags(configured)), access(box.url), undefined, limitMs / 2);
  const first = backfill();
  if (long) await sleep(60_000);
  else await waitFor(async () => countResponses(await box.stats(), 200) > 50, '50 answers');
  const converged = await box.stats();
  const began = performance.now();
  if (long) await sleep(120_000);
  else
    await waitFor(
      async () => countResponses(await box.stats(), 200) > countResponses(converged, 200) + 60,
      '60 more responses',
    );
  const later = computeUse(converged, await box.stats(), performance.now() - began, allowed);
  console.log(
    `20 of 100: ${countResponses(converged, 429)} throttled at first, ${(100 * later.refusedShare).toFixed(2)} % later; ${later.used.toFixed(3)} of the allowed rate used`,
  );
  // In the short form higher rates are still being tried.
  expect(later.refusedShare).toBeLessThanOrEqual(long ? 0.02 : 0.15);

  first.child.kill('SIGKILL');
  await first.ended;
  const before = await box.stats();
  expect(rateOf(output)).toBeLessThan(configured / 2);
  const second = backfill();
  await waitFor(
    async () => countResponses(await box.stats(), 200) > countResponses(before, 200) + 25,
    '25 responses of the next run',
  );
  second.child.kill('SIGTERM');
  expect((await second.ended).code).toBe(143);
  const nextRun = computeUse(before, await box.stats(), 1, allowed);
  console.log(`the next run: ${nextRun.refused} throttled, ${nextRun.passed} allowed`);
  expect(nextRun.refusedShare).toBeLessThanOrEqual(0.2);
  expect(rateOf(output)).toBeLessThan(configured / 2);
});

/** The current rate in the archive's state. */
function rateOf(output: string): number {
  const file = new DatabaseSync(join(output, '.oddslake', 'rate.sqlite'), { readOnly: true });
  const { inferred } = file.prepare('select inferred from rate_limit').get() as { inferred: string };
  file.close();
  return (JSON.parse(inferred) as { rate: number }).rate;
}

test('a rate that the service states in its headers is used before a request is throttled', async () => {
  const runs = (['draft', 'old'] as const).map(async (form) => {
    const output = folder();
    const box = await service(80, 8, { rateHeaders: form, limiter: 'fixed' });
    const flags = ['--date', fixedDay, ...rateFlags(1000)];
    const ended = await run(jobArgs('nightly', output, ...flags), access(box.url));
    expect(ended.code, ended.stderr).toBe(0);
    const stats = await box.stats();
    console.log(`headers ${form}: ${stats.requests} requests, maximum per second ${stats.perSecondMax}`);
    expect(stats.requests).toBeGreaterThan(100);
    expect(countResponses(stats, 429)).toBe(0);
  });
  await Promise.all(runs);
});
