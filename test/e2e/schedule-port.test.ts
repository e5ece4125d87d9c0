import { renameSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { MachineTooSlow, waitFor } from '../harness/limits.ts';
import { withState } from '../harness/with-state.ts';
import { readExposition, sampleOf } from '../metrics/exposition.ts';
import { access, expectDone, folder, jobArgs, manifestOf, sandbox, start } from './lake.ts';
import { receiver } from './receiver.ts';
import { run, runJob } from './run-program.ts';

const input = { seed: 3, markets: 4, ticksPerDay: 50 };
const hourMs = 3_600_000;

/** Cron expression of a minute in the past. */
function cronAgo(ms: number): string {
  const at = new Date(Date.now() - ms);
  return `${at.getUTCMinutes()} ${at.getUTCHours()} * * *`;
}

/** A running schedule with its port; the daily `nightly` was due one and a half hours ago. */
async function scheduled(url: string, output: string, ...flags: string[]) {
  const usual = ['--set', `schedule.nightly=${cronAgo(1.5 * hourMs)}`, '--set', 'schedule.port=0'];
  const running = start(
    jobArgs('schedule', output, ...usual, '--set', 'schedule.jitter_seconds=0', ...flags),
    access(url),
  );
  onTestFinished(async () => {
    running.child.kill('SIGKILL');
    await running.ended;
  });
  let logged = '';
  running.child.stderr!.on('data', (text: string) => {
    logged += text;
  });
  const base = await waitFor(() => /"url":"([^"]+)","msg":"serving health and metrics/.exec(logged)?.[1], 'the port');
  return {
    running,
    base,
    logged: () => logged,
    ready: async () => {
      const answer = await fetch(`${base}/readyz`);
      const body = (await answer.json()) as { status: string; errors?: { name: string; reason: string }[] };
      return { status: answer.status, errors: (body.errors ?? []).map(({ reason }) => reason) };
    },
    metrics: async () => readExposition(await (await fetch(`${base}/metrics`)).text()),
    stop: async () => {
      running.child.kill('SIGTERM');
      return running.ended;
    },
  };
}

/** Moves the start of every run into the past. */
const backdate = (output: string, ms: number) =>
  withState(output, (db) =>
    db.run(`update runs set started_at = started_at - ${ms}, finished_at = finished_at - ${ms},
      summary = json_set(summary, '$.started_at', started_at - ${ms}, '$.finished_at', finished_at - ${ms})`),
  );

test('reports last and next run of every job, including earlier runs', async () => {
  const [box, output] = [await sandbox(input), folder()];
  await expectDone(runJob('markets', box.url, output));
  backdate(output, 3 * hourMs);
  const night = (await runJob('nightly', box.url, output)).summary;
  const missed = ['--set', `schedule.markets=${cronAgo(1.5 * hourMs)}`];
  const { metrics, ready, base, stop } = await scheduled(box.url, output, ...missed);
  await waitFor(
    async () => sampleOf(await metrics(), 'oddslake_schedule_runs_total', 'name="markets",outcome="done"') === 1,
    'the end of the run that was missed',
  );
  // Data of the archive is cached for a second.
  await waitFor(
    async () => sampleOf(await metrics(), 'oddslake_generation') === manifestOf(output).generation,
    'the generation of that run',
  );
  const [reported, reportedBefore] = [await metrics(), Date.now()];
  const of = (name: string, job: string) => sampleOf(reported, `oddslake_${name}`, `name="${job}"`);
  expect(of('job_last_run_requests', 'nightly')).toBe(night.requests);
  expect(of('job_last_run_exit_code', 'markets')).toBe(0);
  expect(of('schedule_job_running', 'nightly')).toBe(0);
  expect(of('schedule_job_next_start_timestamp_seconds', 'nightly')! * 1000 - Date.now()).toBeGreaterThan(22 * hourMs);
  expect(sampleOf(reported, 'oddslake_archive_readable')).toBe(1);
  const lagMax = (reportedBefore - manifestOf(output).watermark!) / 1000;
  expect(sampleOf(reported, 'oddslake_lag_seconds')).toBeLessThanOrEqual(lagMax);
  expect(reported.has('oddslake_build_info')).toBe(true);
  expect(reported.has('process_cpu_seconds_total')).toBe(true);
  const { stdout } = await expectDone(run(['status', '--output', output, '--prometheus']));
  const names = (families: typeof reported) =>
    [...families].flatMap(([name, { values }]) =>
      /^oddslake_(?!schedule_)/.test(name) ? [...values.keys()].map((labels) => `${name}{${labels}}`) : [],
    );
  expect(names(readExposition(stdout))).toEqual(names(reported));
  expect(await ready()).toEqual({ status: 200, errors: [] });
  expect(await (await fetch(`${base}/healthz`)).json()).toEqual({ status: 'ok' });
  await expectDone(stop());
});

test('missed runs make it not ready until a run has ended', async () => {
  const [box, output] = [await sandbox(input), folder()];
  await expectDone(runJob('nightly', box.url, output));
  backdate(output, 50 * hourMs);
  const late = ['--set', 'schedule.late_hours_max=1', '--set', 'schedule.catch_up_hours=0'];
  const idle = await scheduled(box.url, output, ...late);
  await waitFor(() => idle.logged().includes('passed too long ago'), 'the word on the run that was missed');
  expect(await idle.ready()).toEqual({
    status: 503,
    errors: [expect.stringMatching(/^the nightly has not run since it was due/)],
  });
  box.set({ key: 'another' });
  expect((await runJob('nightly', box.url, output)).code).toBe(3);
  await waitFor(async () => (await idle.ready()).status === 200, 'that it is ready');
  expect(sampleOf(await idle.metrics(), 'oddslake_job_last_run_exit_code', 'name="nightly"')).toBe(3);
});

test('a missing archive makes it not ready until the archive is back', async () => {
  const [box, output] = [await sandbox(input), folder()];
  await expectDone(runJob('nightly', box.url, output));
  const { ready, metrics } = await scheduled(box.url, output);
  expect((await ready()).status).toBe(200);
  renameSync(output, `${output}-away`);
  await waitFor(async () => (await ready()).status === 503, 'that it is not ready');
  expect((await ready()).errors).toEqual(['the archive cannot be read']);
  expect(sampleOf(await metrics(), 'oddslake_archive_readable')).toBe(0);
  renameSync(`${output}-away`, output);
  await waitFor(async () => (await ready()).status === 200, 'that it is ready again');
});

test('reports that it is stopping, and responds until running jobs end', async () => {
  const [box, output] = [await sandbox(input), folder()];
  await expectDone(runJob('nightly', box.url, output));
  backdate(output, 26 * hourMs);
  // A failed run is running until its webhook has responded, for at most ten seconds.
  box.set({ key: 'another' });
  const reported = Promise.withResolvers<ServerResponse>();
  const { url } = await receiver(reported.resolve);
  const { ready, metrics, running, logged } = await scheduled(box.url, output, '--set', `notify.webhook_url=${url}`);
  const answer = await reported.promise;
  running.child.kill('SIGTERM');
  await waitFor(() => logged().includes('stopping: waiting for running jobs'), 'the response to the signal');
  const [{ status, errors }, samples] = await Promise.all([ready(), metrics()]).catch((error: unknown) => {
    throw logged().includes('did not respond in time') ? new MachineTooSlow('an answer of the port', 10_000) : error;
  });
  answer.end('ok');
  expect([status, errors]).toEqual([503, expect.arrayContaining(['the schedule is stopping'])]);
  expect(sampleOf(samples, 'oddslake_schedule_job_running', 'name="nightly"')).toBe(1);
  await expectDone(running.ended);
});

test('an unavailable port exits 2 before any run', async () => {
  const [box, output] = [await sandbox(input), folder()];
  await expectDone(runJob('nightly', box.url, output));
  const port = new URL(box.url).port;
  const flags = ['--set', `schedule.port=${port}`, '--set', 'schedule.ticks=* * * * *'];
  const ended = await run(jobArgs('schedule', output, ...flags), access(box.url));
  expect(ended.code).toBe(2);
  expect(ended.stderr).toMatch(
    `oddslake: Could not listen on 127.0.0.1 port ${port} (schedule.port): another program uses it.`,
  );
  expect(JSON.parse(ended.stdout)).toEqual({ error: expect.stringContaining('Could not listen'), exit_code: 2 });
  const nowhere = await run(
    jobArgs('schedule', output, ...flags, '--set', 'schedule.host=203.0.113.1'),
    access(box.url),
  );
  expect([nowhere.code, nowhere.stderr]).toEqual([
    2,
    expect.stringContaining('this machine does not have this address'),
  ]);
});

test('rejects slow, oversized and unknown requests, and keeps serving', async () => {
  const [box, output] = [await sandbox(input), folder()];
  await expectDone(runJob('nightly', box.url, output));
  const { base, ready } = await scheduled(box.url, output);
  const long = await printed(base, `GET /healthz HTTP/1.1\r\nhost: x\r\nx: ${'x'.repeat(20_000)}\r\n\r\n`);
  expect(long).toMatch(/^HTTP\/1.1 431/);
  const slow = printed(base, 'GET /healthz HTTP/1.1\r\nhost:');
  expect((await fetch(`${base}/other`)).status).toBe(404);
  expect((await fetch(`${base}/metrics`, { method: 'POST', body: 'x' })).status).toBe(405);
  expect((await fetch(`${base}/metrics`, { method: 'HEAD' })).status).toBe(200);
  expect(await slow).toMatch(/^HTTP\/1.1 408/);
  expect((await ready()).status).toBe(200);
});

/** Data received on a raw connection until it is closed. */
function printed(base: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(Number(new URL(base).port), '127.0.0.1', () => socket.write(text));
    socket.on('data', (piece) => {
      answer += piece.toString();
    });
    socket.on('close', () => resolve(answer));
    socket.on('error', (error) => (answer === '' ? reject(error) : resolve(answer)));
  });
}
