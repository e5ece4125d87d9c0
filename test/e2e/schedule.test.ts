import { describe, expect, test } from 'vitest';
import type { Summary } from '../../src/archive/journal/run-summary.ts';
import { limitMs, waitFor } from '../harness/limits.ts';
import { addRuns, withState } from '../harness/with-state.ts';
import {
  access,
  expectDone,
  folder,
  jobArgs,
  journaledTicks,
  minuteMs,
  sandbox,
  sequentialFlags,
  start,
} from './lake.ts';
import { runJob } from './run-program.ts';

/** Cron expression of a minute in the past. */
function cronAgo(ms: number): string {
  const at = new Date(Date.now() - ms);
  return `${at.getUTCMinutes()} ${at.getUTCHours()} * * *`;
}

/** An archive whose runs started in the past. */
async function archiveFrom(url: string, ago: number): Promise<string> {
  const output = folder();
  await expectDone(runJob('nightly', url, output));
  withState(output, (db) => db.run('update runs set started_at = started_at - ?', ago));
  return output;
}

const runsIn = (stdout: string): Summary[] =>
  stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Summary);

describe('schedule', () => {
  test('catches up one missed night, prints its summary, and exits 0 on SIGTERM', async () => {
    const box = await sandbox({ seed: 3, markets: 6, ticksPerDay: 100 });
    const output = await archiveFrom(box.url, 3 * 3_600_000);
    const flags = ['--set', `schedule.nightly=${cronAgo(90 * minuteMs)}`];
    const running = start(jobArgs('schedule', output, ...flags), access(box.url));
    let printed = '';
    running.child.stdout!.on('data', (text: string) => {
      printed += text;
    });
    await waitFor(() => printed.endsWith('\n'), 'the summary of the night');
    running.child.kill('SIGTERM');
    const ended = await expectDone(running.ended);
    expect(runsIn(ended.stdout)).toEqual([expect.objectContaining({ job: 'nightly', exit_code: 0, outcome: 'done' })]);
    expect(ended.stderr).toContain('"job":"nightly"');
  });

  test('stops running jobs on a signal, keeps accepted ticks, and exits 0', async () => {
    const box = await sandbox({ seed: 3, markets: 6, ticksPerDay: 100 });
    const output = await archiveFrom(box.url, 26 * 3_600_000);
    box.set({ latencyMs: 50 });
    const flags = ['--set', `schedule.ticks=${cronAgo(90 * minuteMs)}`, '--set', 'schedule.nightly=null'];
    withState(output, (db) => db.run("update runs set job = 'ticks'"));
    const rows = box.stats().tickRows;
    const running = start(jobArgs('schedule', output, ...flags, ...sequentialFlags), access(box.url));
    await waitFor(() => box.stats().tickRows > rows, 'an answer with ticks');
    // The next request gets no response: only the signal can end the run.
    box.set({ latencyMs: limitMs });
    const accepted = await waitFor(() => journaledTicks(output) || undefined, 'ticks in the journal');
    running.child.kill('SIGINT');
    const ended = await expectDone(running.ended);
    expect(runsIn(ended.stdout)).toEqual([expect.objectContaining({ job: 'ticks', outcome: 'interrupted' })]);
    expect(journaledTicks(output)).toBeGreaterThanOrEqual(accepted);
  });

  test('runs every scheduled job, and catches up only within catch_up_hours', async () => {
    const box = await sandbox({ seed: 3, markets: 3, ticksPerDay: 50 });
    const output = await archiveFrom(box.url, 10 * 3_600_000);
    const names = ['nightly', 'markets', 'ticks', 'orderbook', 'publish'];
    addRuns(output, names);
    const scheduled = names.flatMap((name) => ['--set', `schedule.${name}=${cronAgo(90 * minuteMs)}`]);
    const common = ['--set', 'schedule.jitter_seconds=0'];
    const running = start(jobArgs('schedule', output, ...scheduled, ...common), access(box.url));
    let printed = '';
    running.child.stdout!.on('data', (text: string) => {
      printed += text;
    });
    await waitFor(() => printed.split('\n').length > names.length, 'a summary of each job');
    running.child.kill('SIGTERM');
    expect(
      runsIn((await running.ended).stdout)
        .map((ended) => ended.job)
        .sort(),
    ).toEqual(names.toSorted());
    // The scheduled times are one and a half hours ago, and now so are the last starts.
    const late = await archiveFrom(box.url, 10 * 3_600_000);
    const short = ['--set', `schedule.nightly=${cronAgo(90 * minuteMs)}`, '--set', 'schedule.catch_up_hours=1'];
    const idle = start(jobArgs('schedule', late, ...short), access(box.url));
    let logged = '';
    idle.child.stderr!.on('data', (text: string) => {
      logged += text;
    });
    await waitFor(() => logged.includes('passed too long ago'), 'the word on the night that was missed');
    idle.child.kill('SIGTERM');
    expect((await idle.ended).stdout).toBe('');
  });

  test('continues after a failed run', async () => {
    const box = await sandbox({ seed: 3, markets: 6, ticksPerDay: 100 });
    const output = await archiveFrom(box.url, 26 * 3_600_000);
    box.set({ key: 'another' });
    const flags = ['--set', `schedule.nightly=${cronAgo(90 * minuteMs)}`];
    const running = start(jobArgs('schedule', output, ...flags), access(box.url));
    let reported = '';
    running.child.stderr!.on('data', (text: string) => {
      reported += text;
    });
    await waitFor(() => reported.includes('the schedule continues'), 'the end of the run');
    expect(running.child.exitCode).toBe(null);
    running.child.kill('SIGTERM');
    const ended = await expectDone(running.ended);
    expect(runsIn(ended.stdout)).toEqual([expect.objectContaining({ exit_code: 3, outcome: 'credential' })]);
  });
});
