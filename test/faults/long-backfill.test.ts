import { expect, test } from 'vitest';
import {
  access,
  addsUp,
  dayMs,
  fixedNow,
  folder,
  hashes,
  jobArgs,
  type Running,
  run,
  sandbox,
  sleep,
  start,
  totalTicks,
} from '../e2e/lake.ts';
import { limitMs, until } from '../harness/limits.ts';
import { drawFrom } from './seeds.ts';

/** Ticks to fetch, about; TICKS=20000000 for the long run. */
const wanted = Number(process.env.TICKS || 600_000);
const kills = 10;
const days = 5;
// No symbol of the simulated service may have more than 100,000 ticks a day.
const markets = Math.max(40, Math.ceil(wanted / 300_000));
const seed = Number(process.env.SEED || Math.floor(Math.random() * 1e6));
console.log(`long backfill: SEED=${seed} TICKS=${wanted}`);
const draw = drawFrom(seed);

/** Only a process that hangs takes longer. */
const hangMs = limitMs / 2 + wanted / 20;

test('a long backfill that is killed ten times ends in the same bytes as one that was left alone', {
  timeout: 6 * hangMs,
}, async () => {
  // The share of their days that markets are open, and that the first of them are young, is made up for.
  const ticksPerDay = Math.round((1.1 * wanted) / markets / days);
  const box = await sandbox({ seed, nowMs: fixedNow, markets, ticksPerDay, marketsCap: 1000 });
  const span = ['--from', String(fixedNow - days * dayMs), '--to', String(fixedNow)];
  const flags = [...span, '--set', `publish.journal_ticks_max=${Math.max(200_000, wanted / 20)}`];
  const backfill = (output: string): Running =>
    start(jobArgs('backfill', output, ...flags), access(box.url), undefined, hangMs);
  const calm = folder();
  const undisturbed = await backfill(calm).ended;
  expect(undisturbed.code, undisturbed.stderr).toBe(0);
  const { requests } = undisturbed.summary;

  const output = folder();
  let killed = 0;
  for (let round = 0; round < kills; round++) {
    const running = backfill(output);
    const target = box.stats().requests + (0.5 + draw()) * (requests / (kills + 2));
    await until(() => box.stats().requests >= target || running.child.exitCode !== null, `${target} requests`, hangMs);
    await sleep(draw() * 100);
    running.child.kill('SIGKILL');
    if ((await running.ended).signal === 'SIGKILL') killed++;
  }
  const last = await backfill(output).ended;
  expect(last.code, last.stderr).toBe(0);
  expect(addsUp(last.summary)).toBe(true);
  expect(hashes(output, 'ticks')).toEqual(hashes(calm, 'ticks'));
  expect((await run(['verify', '--output', output])).code).toBe(0);
  console.info(`${totalTicks(output).toLocaleString('en-US')} ticks, ${killed} of ${kills} kills while it ran`);
  expect(killed).toBeGreaterThan(kills / 2);
});
