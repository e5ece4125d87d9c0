import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { DayState } from '../../src/contract/day-reasons.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import {
  access,
  dayMs,
  expectDone,
  fixedDay,
  fixedNow,
  folder,
  hashes,
  jobArgs,
  manifestOf,
  sandbox,
  set,
} from './lake.ts';
import { runJob as job, run } from './run-program.ts';
import { keyOf, serve } from './served-archive.ts';

const few = set(
  // What the service thins out is not expected from it.
  'source.downsampled_after_days=1',
  'source.first_lookback_days=2',
  'archive.candles=[]',
  'archive.parts=1',
  'upstream.retry_attempts_max=2',
  'raw.keep_days=0',
);
const lostPath = `ticks/date=${fixedDay}/part-00.parquet`;

interface Lakes {
  readonly box: Sandbox;
  readonly output: string;
  /** Copy of the archive before the damage. */
  readonly other: string;
  readonly before: Readonly<Record<string, string>>;
}

/** Two equal archives, one of which has lost the ticks of a day, and a service that has since downsampled that day. */
async function damaged(): Promise<Lakes> {
  const box = await sandbox({ seed: 5, markets: 6, ticksPerDay: 100, nowMs: fixedNow });
  const [output, other] = [folder(), folder()];
  await expectDone(job('nightly', box.url, output, '--date', fixedDay, ...few));
  cpSync(output, other, { recursive: true });
  const before = hashes(output, 'ticks');
  rmSync(join(output, lostPath));
  box.set({ thinShare: 0.6, thinAfterMs: dayMs / 2 });
  return { box, output, other, before };
}

/** Lost gaps. There are other gaps before the start of the archive. */
async function lostOf(output: string): Promise<readonly object[]> {
  const { stdout } = await run(['gaps', '--output', output, '--json']);
  return (JSON.parse(stdout) as { gaps: { reason?: string }[] }).gaps.filter(({ reason }) => reason === 'lost');
}

test('ticks that the upstream no longer has stay a gap until another oddslake provides them', async () => {
  const { box, output, other, before } = await damaged();
  const whole = manifestOf(output);
  const repair = await job('verify', box.url, output, '--repair', ...few);
  expect(repair.summary, repair.stderr).toMatchObject({ job: 'repair', exit_code: 4, outcome: 'incomplete' });
  expect(repair.summary.failures.length).toBeGreaterThan(0);
  for (const { reason } of repair.summary.failures) expect(reason).toMatch(/^lost: \d+ of \d+ ticks came back$/);
  const gaps = await lostOf(output);
  expect(gaps.length).toBe(repair.summary.failures_count);
  expect(manifestOf(output).lost?.length).toBe(gaps.length);
  expect(manifestOf(output).days[fixedDay]).toMatchObject({ exceptions: expect.any(Number) });

  box.set({ nowMs: fixedNow + dayMs });
  const night = await job('nightly', box.url, output, '--date', '2025-06-15', ...few);
  expect(night.summary).toMatchObject({ exit_code: 0, failures: [] });
  expect(night.summary.warnings).toEqual([expect.stringContaining('lost ticks that had been published')]);
  expect(await lostOf(output)).toEqual(gaps);

  const key = await keyOf(other);
  const { url } = await serve(other, key);
  const env = { ...access(box.url), ODDSLAKE_FROM_API_KEY: key };
  const args = [...jobArgs('verify', output, '--repair', ...few), '--log-level', 'trace'];
  const requests = box.stats().requests;
  const again = await run([...args, '--from-url', url], env);
  expect(again.summary, again.stderr).toMatchObject({ job: 'repair', exit_code: 0, failures: [], warnings: [] });
  // The upstream gets no requests for ticks of the other archive, and the key is not printed.
  expect(box.stats().requests).toBe(requests);
  expect(again.stdout + again.stderr).not.toContain(key);
  expect(hashes(output, 'ticks')[lostPath]).toBe(before[lostPath]);
  expect(await lostOf(output)).toEqual([]);
  const mended = manifestOf(output);
  expect(mended).toEqual(expect.not.objectContaining({ lost: expect.anything() }));
  expect(toCounts(mended.days[fixedDay])).toEqual(toCounts(whole.days[fixedDay]));
  await expectDone(run(['verify', '--output', output]));
});

/** What a night does not change, unlike the number of inferred windows, some of which it confirms. */
const toCounts = ({ state, expected, covered, missing, exceptions }: DayState): DayState => ({
  state,
  expected,
  covered,
  missing,
  exceptions,
});
