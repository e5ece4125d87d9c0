import { expect, test } from 'vitest';
import {
  access,
  addsUp,
  dayMs,
  dayRows,
  fixedNow,
  folder,
  jobArgs,
  type Running,
  runProcess as run,
  sandbox,
  sleep,
  start,
  totalTicks,
} from '../e2e/lake.ts';
import { limitMs, waitFor } from '../harness/limits.ts';
import { drawFrom } from './seeds.ts';

/** Approximate number of ticks to fetch; TICKS=20000000 for the long run. */
const wanted = Number(process.env.TICKS || 600_000);
const kills = 10;
const days = 5;
// No symbol of the simulated service may have more than 100,000 ticks a day.
const markets = Math.max(40, Math.ceil(wanted / 300_000));
const seed = Number(process.env.SEED || Math.floor(Math.random() * 1e6));
console.log(`long backfill: SEED=${seed} TICKS=${wanted}`);
const draw = drawFrom(seed);

/** Exceeded only by a process that hangs. */
const hangMs = limitMs / 2 + wanted / 20;

test('a long backfill that is killed ten times gives the same rows as an undisturbed one', {
  timeout: 6 * hangMs,
}, async () => {
  // Compensates for the share of the day that markets are open, and for the youth of the first ones.
  const ticksPerDay = Math.round((1.1 * wanted) / markets / days);
  const box = await sandbox({ seed, nowMs: fixedNow, markets, ticksPerDay, marketsCap: 1000 });
  const windowFlags = ['--from', String(fixedNow - days * dayMs), '--to', String(fixedNow)];
  const flags = [...windowFlags, '--set', `publish.journal_ticks_max=${Math.max(200_000, wanted / 20)}`];
  const backfill = (output: string): Running =>
    start(jobArgs('backfill', output, ...flags), access(box.url), undefined, hangMs);
  const uninterrupted = folder();
  const uninterruptedRun = await backfill(uninterrupted).ended;
  expect(uninterruptedRun.code, uninterruptedRun.stderr).toBe(0);
  const { requests } = uninterruptedRun.summary;

  const output = folder();
  let killed = 0;
  for (let round = 0; round < kills; round++) {
    const running = backfill(output);
    const target = box.stats().requests + (0.5 + draw()) * (requests / (kills + 2));
    await waitFor(
      () => box.stats().requests >= target || running.child.exitCode !== null,
      `${target} requests`,
      hangMs,
    );
    await sleep(draw() * 100);
    running.child.kill('SIGKILL');
    if ((await running.ended).signal === 'SIGKILL') killed++;
  }
  const last = await backfill(output).ended;
  expect(last.code, last.stderr).toBe(0);
  expect(addsUp(last.summary)).toBe(true);
  expect(dayRows(output, 'ticks')).toEqual(dayRows(uninterrupted, 'ticks'));
  expect((await run(['verify', '--output', output])).code).toBe(0);
  console.info(`${totalTicks(output).toLocaleString('en-US')} ticks, ${killed} of ${kills} kills while it ran`);
  expect(killed).toBeGreaterThan(kills / 2);
});
