import { existsSync, globSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { tryLock } from '../../src/archive/journal/lock.ts';
import type { Summary } from '../../src/archive/journal/run-summary.ts';
import { startFaultProxy } from '../bucket/fault-proxy.ts';
import { waitFor } from '../harness/limits.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { addRuns, withState } from '../harness/with-state.ts';
import { useBucketServer } from './bucket-server.ts';
import {
  access,
  dayMs,
  dayRows,
  type Ended,
  expectDone,
  folder,
  hashes,
  jobArgs,
  manifestOf,
  rowHashes,
  sandbox,
  sequentialFlags,
  start,
  type Variables,
} from './lake.ts';
import { run } from './run-program.ts';

describe('jobs with bucket.url', needsObjectStorage(), () => {
  const server = useBucketServer();
  const { bucketAccess, pull } = server;

  test('nightly pushes what it has published; a push that fails is a failure of the run, and the next one catches up', async () => {
    const box = await sandbox({ seed: 5, markets: 4, ticksPerDay: 60 });
    const output = join(folder(), 'lake');
    const url = 's3://lakes/jobs';
    const job = (name: string, env: Variables, ...flags: string[]): Promise<Ended> =>
      run(jobArgs(name, output, '--set', `bucket.url=${url}`, '--json', ...flags), { ...access(box.url), ...env });

    const first = await expectDone(
      job('nightly', bucketAccess(), '--date', new Date(Date.now() - 2 * dayMs).toISOString().slice(0, 10)),
    );
    const { generation, pushed } = first.summary;
    expect(pushed).toMatchObject({ url, outcome: 'pushed', generation, removed: 0 });
    expect(pushed!.uploaded.files).toBe(pushed!.files);
    expect(await pull(url)).toEqual(hashes(output, '*'));

    // The archive is published, and its readers in the bucket see the generation of before.
    const before = hashes(output, '*');
    const refused = await job('nightly', bucketAccess(undefined, 'not-this-one'));
    expect(refused.code, refused.stdout).toBe(4);
    expect(refused.summary.generation).toBeGreaterThan(generation);
    expect(refused.summary).not.toHaveProperty('pushed');
    expect(refused.summary.failures).toEqual([
      expect.objectContaining({ symbol: null, reason: expect.stringContaining(`was not pushed to ${url}: `) }),
    ]);
    expect(refused.summary.verdict).toMatchObject({
      state: 'warning',
      command: expect.stringMatching(/^oddslake push/),
    });
    expect(refused.stdout + refused.stderr).not.toContain('not-this-one');
    expect(await pull(url)).toEqual(before);

    // The command that the verdict names ends what it found.
    const verdict = async (): Promise<string> => (await run(['status', '--output', output], bucketAccess())).stdout;
    expect(await verdict()).toContain('was not pushed to');
    expect((await run(['push', url, '--output', output], bucketAccess())).code).toBe(0);
    expect(await verdict()).not.toContain('was not pushed to');
    const afterPush = hashes(output, '*');
    expect(await pull(url)).toEqual(afterPush);

    // Other jobs push nothing.
    const polled = await expectDone(job('ticks', bucketAccess()));
    expect(polled.summary).not.toHaveProperty('pushed');
    expect(await pull(url)).toEqual(afterPush);

    const next = await expectDone(job('nightly', bucketAccess()));
    expect(next.summary.pushed).toMatchObject({ outcome: 'pushed', generation: next.summary.generation });
    expect(await pull(url)).toEqual(hashes(output, '*'));
  });

  test('a machine lost in the middle of a night is replaced by a pull, and united with the other one when it comes back', async () => {
    const box = await sandbox({ seed: 21, markets: 6, ticksPerDay: 300 });
    const dayBefore = (days: number): string => new Date(Date.now() - days * dayMs).toISOString().slice(0, 10);
    // Days that are over, so that all archives are requested the same ticks.
    const [first, second] = [dayBefore(3), dayBefore(2)];
    const url = 's3://lakes/lost';
    const env = { ...access(box.url), ...bucketAccess() };
    const toArgs = (output: string, day: string, ...flags: string[]): string[] =>
      jobArgs('nightly', output, '--set', `bucket.url=${url}`, '--date', day, ...flags);
    const [one, other] = [join(folder(), 'lake'), join(folder(), 'lake')];
    await expectDone(run(toArgs(one, first), env));
    const before = box.stats().requests;
    const killed = start(toArgs(one, second, ...sequentialFlags), env);
    await waitFor(() => box.stats().requests >= before + 5, 'a few requests');
    killed.child.kill('SIGKILL');
    expect((await killed.ended).signal).toBe('SIGKILL');

    await expectDone(run(['pull', url, other], env));
    const resumed = await expectDone(run(toArgs(other, second), env));
    expect(resumed.summary.pushed).toMatchObject({ outcome: 'pushed' });
    // An archive that was never disturbed has the same ticks and candles, byte for byte, and is as far.
    const undisturbed = join(folder(), 'undisturbed');
    for (const day of [first, second])
      await expectDone(run(jobArgs('nightly', undisturbed, '--date', day), access(box.url)));
    const names = ['ticks', 'candles_1h', 'candles_1d'];
    expect(Object.keys(rowHashes(undisturbed, ...names)).length).toBeGreaterThan(10);
    expect(dayRows(other, ...names)).toEqual(dayRows(undisturbed, ...names));
    expect(manifestOf(other).watermark).toBe(manifestOf(undisturbed).watermark);

    // The first machine publishes what it has, and its push is refused.
    const inBucket = await pull(url);
    expect(inBucket).toEqual(hashes(other, '*'));
    const back = await run(toArgs(one, second), env);
    expect(back.code, back.stdout).toBe(4);
    expect(back.summary.failures).toEqual([
      expect.objectContaining({ reason: expect.stringContaining('import this archive there') }),
    ]);
    expect(dayRows(one, 'ticks')).toEqual(dayRows(other, 'ticks'));
    expect(await pull(url)).toEqual(inBucket);

    // Then the two are united as the page says, and the result is pushed on top of what the other machine has pushed.
    const united = join(folder(), 'united');
    for (const args of [
      ['pull', url, united],
      ['import', one, '--output', united, '--set', 'source.name=box'],
      ['push', url, '--output', united, '--set', 'source.name=box'],
    ]) {
      await expectDone(run(args, env));
    }
    expect(await pull(url)).toEqual(hashes(united, '*'));
    expect(dayRows(united, ...names)).toEqual(dayRows(undisturbed, ...names));
  });

  test('a signal during the push ends the run as interrupted, and what was published stays', async () => {
    const box = await sandbox({ seed: 6, markets: 3, ticksPerDay: 40 });
    const output = join(folder(), 'lake');
    let stop = (): void => {};
    const proxy = await startFaultProxy(server.endpoint, {
      choose: (index) => (index === 2 ? 'killed before' : null),
      kill: () => stop(),
    });
    try {
      const { child, ended } = start(jobArgs('nightly', output, '--set', 'bucket.url=s3://lakes/signal', '--json'), {
        ...access(box.url),
        ...bucketAccess(proxy.endpoint),
      });
      stop = () => void child.kill('SIGTERM');
      const { code, summary, stderr } = await ended;
      expect(code, stderr).toBe(143);
      expect(summary).toMatchObject({ outcome: 'interrupted', generation: 1 });
    } finally {
      await proxy.stop();
    }
    await expectDone(run(['verify', '--output', output]));
    await expectDone(run(['push', 's3://lakes/signal', '--output', output], bucketAccess()));
    expect(await pull('s3://lakes/signal')).toEqual(hashes(output, '*'));
  });

  test('a push that takes longer than bucket.push_minutes_max fails, and the next one continues where it ended', async () => {
    const box = await sandbox({ seed: 8, markets: 3, ticksPerDay: 40 });
    const output = join(folder(), 'lake');
    const url = 's3://lakes/limit';
    let uploads = 0;
    const proxy = await startFaultProxy(server.endpoint, {
      hold: ({ method, path }) =>
        method === 'PUT' && path.includes('/data/') && ++uploads > 3 ? new Promise(() => {}) : undefined,
    });
    onTestFinished(() => proxy.stop());
    const flags = ['--set', `bucket.url=${url}`, '--set', 'bucket.push_minutes_max=0.05', '--json'];
    const job = await run(jobArgs('nightly', output, ...flags), {
      ...access(box.url),
      ...bucketAccess(proxy.endpoint),
    });
    expect(job.code, job.stdout).toBe(4);
    expect(job.summary).toMatchObject({ outcome: 'incomplete', generation: 1 });
    expect(job.summary.failures).toEqual([
      expect.objectContaining({
        reason: expect.stringContaining('was ended after 0.05 minutes (bucket.push_minutes_max)'),
      }),
    ]);
    const command = await run(['push', '--output', output, ...flags], bucketAccess(proxy.endpoint));
    expect([command.code, command.stderr]).toEqual([7, expect.stringContaining('continues where it ended')]);
    const stored = proxy.seen.filter(
      ({ method, path, status }) => method === 'PUT' && path.includes('/data/') && status === 200,
    );
    expect(stored.length).toBeGreaterThan(0);
    const next = await expectDone(run(['push', url, '--output', output, '--json'], bucketAccess()));
    expect(JSON.parse(next.stdout)).toMatchObject({ outcome: 'pushed', reused: stored.length });
    expect(await pull(url)).toEqual(hashes(output, '*'));
  });

  test('a damaged file that the push of a nightly meets is damage of the archive', async () => {
    const box = await sandbox({ seed: 9, markets: 3, ticksPerDay: 40 });
    const output = join(folder(), 'lake');
    await expectDone(run(jobArgs('nightly', output), access(box.url)));
    // The oldest day, which the next night does not read.
    const [path] = globSync('ticks/*/*.parquet', { cwd: output }).sort();
    const bytes = readFileSync(join(output, path!));
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(join(output, path!), bytes);
    const flags = ['--set', 'bucket.url=s3://lakes/damaged', '--json'];
    const second = await run(jobArgs('nightly', output, ...flags), { ...access(box.url), ...bucketAccess() });
    expect(second.code, second.stdout).toBe(6);
    expect(second.summary).toMatchObject({
      outcome: 'damaged',
      error: expect.stringContaining(path!),
      damaged: [{ path, kind: 'checksum mismatch' }],
      verdict: { state: 'action_required', command: 'oddslake verify --repair' },
    });
    expect(second.summary.failures).toEqual([
      expect.objectContaining({ reason: expect.stringContaining('was not pushed to s3://lakes/damaged') }),
    ]);
    expect(existsSync(join(server.folderOf('damaged'), 'manifest.json'))).toBe(false);
  });

  /** A schedule that has missed the last run of these jobs, and what it has printed. */
  async function startSchedule(output: string, url: string, env: Variables, ...names: string[]) {
    withState(output, (db) => db.run('update runs set started_at = started_at - ?', 3 * 3_600_000));
    addRuns(output, names);
    const at = new Date(Date.now() - 90 * 60_000);
    const cron = `${at.getUTCMinutes()} ${at.getUTCHours()} * * *`;
    const times = [
      'schedule.nightly=null',
      'schedule.jitter_seconds=0',
      'schedule.port=0',
      ...names.map((name) => `schedule.${name}=${cron}`),
    ];
    const flags = [`bucket.url=${url}`, ...times].flatMap((flag) => ['--set', flag]);
    const { child, ended } = start(jobArgs('schedule', output, '--json', ...flags), env);
    let stdout = '';
    child.stdout!.on('data', (text: string) => {
      stdout += text;
    });
    const printed = { stderr: '' };
    child.stderr!.on('data', (text: string) => {
      printed.stderr += text;
    });
    return {
      child,
      ended,
      printed,
      listSummaries: () =>
        stdout
          .split('\n')
          .slice(0, -1)
          .map((line) => JSON.parse(line) as Summary),
    };
  }

  test('a schedule pushes after every job that it runs', async () => {
    const box = await sandbox({ seed: 7, markets: 3, ticksPerDay: 40 });
    const output = join(folder(), 'lake');
    await expectDone(run(jobArgs('nightly', output), access(box.url)));
    const url = 's3://lakes/schedule';
    const running = await startSchedule(output, url, { ...access(box.url), ...bucketAccess() }, 'ticks');
    const listPushes = () => running.listSummaries().filter(({ job }) => job === 'push');
    await waitFor(() => running.listSummaries().some(({ job }) => job === 'ticks'), 'the summary of the job');
    const { generation } = manifestOf(output);
    // The first push may be that of the generation before the job.
    await waitFor(() => listPushes().at(-1)?.pushed?.generation === generation, 'the push after it');
    const [, address] = /"url":"(http:[^"]+)".*serving health and metrics/.exec(running.printed.stderr)!;
    const metrics = await (await fetch(`${address}/metrics`)).text();
    expect(metrics).toContain(`oddslake_job_last_run_pushed_generation{name="push"} ${generation}\n`);
    expect(metrics).toContain('oddslake_job_last_run_exit_code{name="push"} 0\n');
    expect(metrics).toMatch(/^oddslake_schedule_runs_total\{name="push",outcome="done"\} [12]$/m);
    running.child.kill('SIGTERM');
    await expectDone(running.ended);
    const ticks = running.listSummaries().find(({ job }) => job === 'ticks');
    const push = listPushes().at(-1);
    expect(ticks).not.toHaveProperty('pushed');
    expect(push).toMatchObject({ run_id: null, exit_code: 0, pushed: { url, outcome: 'pushed', generation } });
    expect(await pull(url)).toEqual(hashes(output, '*'));
  });

  test('a schedule pushes at its start what the last one has not pushed, and nothing where nothing is published', async () => {
    const box = await sandbox({ seed: 7, markets: 3, ticksPerDay: 40 });
    const output = join(folder(), 'lake');
    const url = 's3://lakes/started';
    const startIdle = async (archive: string) => {
      const running = start(
        jobArgs('schedule', archive, '--json', '--set', `bucket.url=${url}`, '--set', 'schedule.nightly=0 0 1 1 *'),
        { ...access(box.url), ...bucketAccess() },
      );
      let printed = '';
      running.child.stdout!.on('data', (text: string) => {
        printed += text;
      });
      return {
        printed: () => printed,
        async stop() {
          running.child.kill('SIGTERM');
          const { stdout } = await expectDone(running.ended);
          return stdout;
        },
      };
    };
    const empty = await startIdle(output);
    await waitFor(() => existsSync(join(output, '.oddslake', 'state.sqlite')), 'the archive');
    await new Promise((resolve) => setTimeout(resolve, 1000));
    expect(await empty.stop()).toBe('');
    await expectDone(run(jobArgs('nightly', output), access(box.url)));
    const running = await startIdle(output);
    await waitFor(() => running.printed().includes('\n'), 'the summary of the push');
    expect(JSON.parse(await running.stop())).toMatchObject({
      job: 'push',
      exit_code: 0,
      pushed: { outcome: 'pushed' },
    });
    expect(await pull(url)).toEqual(hashes(output, '*'));
  });

  test('a push of a schedule does not hold up its jobs, and ends with the schedule', async () => {
    const box = await sandbox({ seed: 7, markets: 3, ticksPerDay: 40 });
    const output = join(folder(), 'lake');
    await expectDone(run(jobArgs('nightly', output), access(box.url)));
    let isHeld = false;
    const proxy = await startFaultProxy(server.endpoint, {
      hold({ method, path }) {
        if (method !== 'PUT' || !path.includes('/data/')) return;
        isHeld = true;
        return new Promise(() => {});
      },
    });
    onTestFinished(() => proxy.stop());
    const env = { ...access(box.url), ...bucketAccess(proxy.endpoint) };
    const running = await startSchedule(output, 's3://lakes/beside', env, 'ticks', 'publish');
    await waitFor(() => isHeld, 'an upload');
    await waitFor(() => running.listSummaries().length === 2, 'the summaries of both jobs');
    const lockPath = join(output, '.oddslake', 'push-lock.sqlite');
    expect(tryLock(lockPath)).toBeNull();
    running.child.kill('SIGTERM');
    const ended = await expectDone(running.ended);
    expect(ended.stderr).toContain('the push was stopped; the next one continues where it ended');
    expect(
      running
        .listSummaries()
        .map(({ job }) => job)
        .sort(),
    ).toEqual(['publish', 'ticks']);
    const lock = tryLock(lockPath);
    expect(lock).not.toBeNull();
    lock!.release();
    expect(readdirSync(join(output, '.oddslake', 'pins'))).toEqual([]);
    await expectDone(run(['push', 's3://lakes/beside', '--output', output], bucketAccess()));
    expect(await pull('s3://lakes/beside')).toEqual(hashes(output, '*'));
  });

  test('a push of a schedule that fails is reported as a failed job', async () => {
    const box = await sandbox({ seed: 7, markets: 3, ticksPerDay: 40 });
    const output = join(folder(), 'lake');
    await expectDone(run(jobArgs('nightly', output), access(box.url)));
    const url = 's3://lakes/failing';
    const env = { ...access(box.url), ...bucketAccess(undefined, 'not-this-one') };
    const running = await startSchedule(output, url, env, 'publish');
    await waitFor(() => running.listSummaries().some(({ job }) => job === 'push'), 'the summary of the push');
    running.child.kill('SIGTERM');
    const ended = await expectDone(running.ended);
    expect(running.listSummaries().find(({ job }) => job === 'push')).toMatchObject({
      exit_code: 4,
      outcome: 'incomplete',
      failures: [{ reason: expect.stringContaining(`was not pushed to ${url}: `) }],
      verdict: { state: 'warning', command: expect.stringMatching(/^oddslake push/) },
    });
    expect(ended.stdout + ended.stderr).not.toContain('not-this-one');
    expect(ended.stderr).toContain('ended; the schedule continues');
  });
});
