import { appendFileSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { job as backfill } from '../../../jobs/backfill.ts';
import { job as markets } from '../../../jobs/markets.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import { job as publish } from '../../../jobs/publish.ts';
import { job as repair } from '../../../jobs/repair.ts';
import { job as ticks } from '../../../jobs/ticks.ts';
import { job as verifyJob } from '../../../jobs/verify.ts';
import type { Manifest } from '../../../src/archive/format/manifest.ts';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import { readStatus } from '../../../src/archive/read/status.ts';
import { openScheduleMonitor } from '../../../src/collector/schedule/health-checks.ts';
import { openJobStatusBoard } from '../../../src/collector/schedule/job-status.ts';
import type { Context } from '../../../src/context/context.ts';
import { openConfiguredArchive, toCompletenessRules } from '../../../src/context/open-configured.ts';
import { dayMs, fewFiles, firstNight, hourMs, type Nights, startNights } from './nights.ts';

const input = { seed: 7, markets: 6, ticksPerDay: 40, lifetimeDaysMax: 60 };
const at = (n: number): number => firstNight + n * dayMs;

const manifestIn = (output: string) => JSON.parse(readFileSync(join(output, 'manifest.json'), 'utf8')) as Manifest;

/** Two nights, after which the first days are settled. */
async function lake(): Promise<{ nights: Nights; part: string }> {
  const nights = await startNights(input, fewFiles);
  for (const n of [0, 1])
    expect(await nights.night(at(n))).toMatchObject({ exit_code: 0, damaged: [], damaged_count: 0 });
  const part = globSync('ticks/date=*/*.parquet', { cwd: nights.output }).sort()[0]!;
  return { nights, part };
}

const verify = (context: Context): Promise<Summary> => verifyJob.run(context, { onVerified: () => {} });
const repairNow = (context: Context): Promise<Summary> => repair.run(context, { fromUrl: null });
const day = (context: Context) => ({ from: context.clock.nowMs() - hourMs, to: context.clock.nowMs() });

test('every job reports a missing part file and does its work nevertheless', async () => {
  const { nights, part } = await lake();
  rmSync(join(nights.output, part));
  const expected = {
    exit_code: 6,
    outcome: 'damaged',
    damaged_count: 1,
    damaged: [{ path: part, kind: 'missing', found_at: at(2) }],
  };
  const night = await nights.night(at(2));
  expect(night).toMatchObject({
    ...expected,
    failures: [],
    verdict: { state: 'action_required', command: 'oddslake verify --repair' },
  });
  expect(night.error).toContain(`1 file damaged: ${part} (missing)`);
  // The job does its other work.
  expect(night.ticks.accepted).toBeGreaterThan(0);
  expect(night.generation).toBe(3);
  const later = await nights.contextAt(at(2) + hourMs);
  const how = { symbols: [], force: false, allKnown: false, showPlan: null };
  for (const run of [
    () => markets.run(later, undefined),
    () => ticks.run(later, { symbols: [] }),
    () => publish.run(later, undefined),
    () => backfill.run(later, { window: day(later), ...how }),
    () => nightly.run(later, { day: null }),
  ])
    expect(await run()).toMatchObject(expected);
});

test('jobs report the findings of a verify until a verify finds no damage', async () => {
  const { nights, part } = await lake();
  const path = join(nights.output, part);
  const bytes = readFileSync(path);
  const flipped = Buffer.from(bytes);
  flipped[40]! ^= 1;
  writeFileSync(path, flipped);
  const context = await nights.contextAt(at(1) + hourMs);
  const found = await verify(context);
  const expected = { exit_code: 6, damaged: [{ path: part, kind: 'checksum mismatch', found_at: at(1) + hourMs }] };
  expect(found).toMatchObject({ ...expected, job: 'verify', run_id: expect.stringMatching(/^2025/) });
  expect(await nights.night(at(2))).toMatchObject(expected);
  // Restored by hand, and not verified yet.
  writeFileSync(path, bytes);
  expect(await nights.night(at(3))).toMatchObject(expected);
  expect(await verify(await nights.contextAt(at(3) + hourMs))).toMatchObject({ exit_code: 0, damaged_count: 0 });
  expect(await nights.night(at(4))).toMatchObject({ exit_code: 0, damaged_count: 0 });
});

test('a clean repair clears the damage, and the lost ticks are fetched again', async () => {
  const { nights, part } = await lake();
  appendFileSync(join(nights.output, part), 'x');
  expect(await nights.night(at(2))).toMatchObject({ exit_code: 6, damaged: [{ path: part, kind: 'size mismatch' }] });
  expect(await repairNow(await nights.contextAt(at(2) + hourMs))).toMatchObject({ exit_code: 0, damaged_count: 0 });
  expect(await nights.night(at(3))).toMatchObject({ exit_code: 0, error: null });
});

test('the health port of a schedule is not ready, and its metrics and status count damaged files', async () => {
  const { nights, part } = await lake();
  rmSync(join(nights.output, part));
  await nights.night(at(2));
  const context = await nights.contextAt(at(2));
  const archive = openConfiguredArchive(context, false);
  onTestFinished(() => archive.close());
  expect(readStatus(archive, toCompletenessRules(context.settings), at(2))).toMatchObject({
    damaged: [{ path: part, kind: 'missing', found_at: at(2) }],
    damaged_count: 1,
  });
  const urls: string[] = [];
  const log = { ...context.log, info: (facts: object) => urls.push((facts as { url: string }).url) };
  const watch = await openScheduleMonitor({ ...context, log }, 0, openJobStatusBoard([], hourMs, at(2)));
  onTestFinished(() => watch.close());
  const ready = await fetch(`${urls[0]}/readyz`);
  expect([ready.status, await ready.json()]).toMatchObject([
    503,
    { errors: [{ name: 'damage', reason: `1 file damaged: ${part} (missing)` }] },
  ]);
  const text = await (await fetch(`${urls[0]}/metrics`)).text();
  expect(text).toContain('\noddslake_damaged_files 1\n');
  expect(text).toContain('oddslake_job_last_run_exit_code{name="nightly"} 6');
  expect(await repairNow(await nights.contextAt(at(2) + hourMs))).toMatchObject({ exit_code: 0 });
});

test('the hashed share finds a changed file within verify_days', async () => {
  const { nights, part } = await lake();
  const path = join(nights.output, part);
  const bytes = readFileSync(path);
  bytes[40]! ^= 1;
  writeFileSync(path, bytes);
  let n = 2;
  while ((await nights.night(at(n), 'archive.verify_days=5')).exit_code === 0 && n < 20) n++;
  expect(n).toBeLessThanOrEqual(2 + 5);
});

test('hashes every published byte again within verify_days', async () => {
  const { nights } = await lake();
  const { verified_through: first } = manifestIn(nights.output);
  expect(first).toBe(at(0));
  for (let n = 2; n < 12; n++) await nights.night(at(n), 'archive.verify_days=4');
  const { verified_through: last } = manifestIn(nights.output);
  expect(last).toBeGreaterThanOrEqual(at(11 - 4 - 1));
  expect(last).toBeLessThan(at(11));
  await verify(await nights.contextAt(at(12)));
  await nights.night(at(12) + hourMs);
  expect(manifestIn(nights.output).verified_through).toBe(at(12));
});

test('verify is recorded as a run', async () => {
  const { nights } = await lake();
  const { run_id } = await verify(await nights.contextAt(at(1) + hourMs));
  const db = new DatabaseSync(join(nights.output, '.oddslake', 'state.sqlite'), { readOnly: true });
  try {
    const row = db.prepare('select job, exit_code, finished_at from runs where run_id = ?').get(run_id!);
    expect({ ...row }).toEqual({ job: 'verify', exit_code: 0, finished_at: at(1) + hourMs });
  } finally {
    db.close();
  }
});
