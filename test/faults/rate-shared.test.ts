import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { expect, test } from 'vitest';
import { access, findWrongWindows, fixedDay, folder, jobArgs, start } from '../e2e/lake.ts';
import { countResponses, long, openReference, rateFlags, seed, service } from '../e2e/paced.ts';
import { run } from '../e2e/run-program.ts';
import { limitMs, waitFor } from '../harness/limits.ts';

console.log(`rate shared: SEED=${seed}`);

/** Margin of the rate limiter: a request delayed by more than 250 ms is not covered. */
const lateMsMax = 100;

const span = ['--from', long ? '2025-04-20' : '2025-05-10', '--to', '2025-06-07'];

test('two processes on one archive never exceed the rate together and collect everything', async () => {
  const rate = long ? 40 : 80;
  const markets = long ? 60 : 12;
  const output = folder();
  const box = await service(rate, markets);
  const env = access(box.url);
  // Lists first, so that both know the symbols.
  expect((await run(jobArgs('markets', output, ...rateFlags(rate)), env)).code).toBe(0);
  const lateness = monitorEventLoopDelay({ resolution: 10 });
  lateness.enable();
  const began = performance.now();
  const both = [
    jobArgs('nightly', output, '--date', fixedDay, ...rateFlags(rate)),
    jobArgs('backfill', output, ...span, ...rateFlags(rate)),
  ];
  const ended = await Promise.all(both.map((args) => start(args, env, undefined, limitMs / 2).ended));
  const seconds = (performance.now() - began) / 1000;
  for (const { code, stderr } of ended) expect(code, stderr).toBe(0);
  const stats = await box.stats();
  console.log(
    `two processes: ${stats.requests} requests in ${seconds.toFixed(1)} s, ${(stats.requests / seconds / rate).toFixed(3)} of ${rate} a second used, maximum per second ${stats.perSecondMax}`,
  );
  lateness.disable();
  // Processes never start more requests per second than the rate, however slow the machine is.
  expect(stats.requests).toBeLessThanOrEqual(rate * (Math.ceil(seconds) + 1));
  // Arrivals per second are checked only if requests are hardly delayed.
  if (lateness.max / 1e6 < lateMsMax) {
    expect(stats.perSecondMax).toBeLessThanOrEqual(rate);
    expect(countResponses(stats, 429)).toBe(0);
  } else console.log(`arrivals per second not checked: the machine was ${Math.round(lateness.max / 1e6)} ms late`);
  for (const { summary } of ended) expect(summary.requests).toBeGreaterThan(rate);
  if (long) expect(seconds).toBeGreaterThan(45);
  expect(findWrongWindows(output, await openReference(markets))).toEqual([]);
});

test('a damaged rate limit file is replaced by a new one', async () => {
  const output = folder();
  const box = await service(2000, 3);
  const nightly = () => run(jobArgs('nightly', output, '--date', fixedDay), access(box.url));
  expect((await nightly()).code).toBe(0);
  writeFileSync(
    join(output, '.oddslake', 'rate.sqlite'),
    'no database at all, though long enough for one '.repeat(200),
  );
  const ended = await nightly();
  expect(ended.code, ended.stderr).toBe(0);
});

test('a killed process leaves nothing in the rate limit that delays the next', async () => {
  const output = folder();
  const box = await service(2000, 12);
  const killed = start(jobArgs('backfill', output, ...span), access(box.url));
  await waitFor(async () => (await box.stats()).tickRequests > 10, 'requests for ticks');
  killed.child.kill('SIGKILL');
  await killed.ended;
  const ended = await run(jobArgs('nightly', output, '--date', fixedDay), access(box.url));
  expect(ended.code, ended.stderr).toBe(0);
});
