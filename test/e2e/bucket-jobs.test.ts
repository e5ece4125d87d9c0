import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startFaultProxy } from '../bucket/fault-proxy.ts';
import { credentials, type ObjectServer, region, startServer } from '../bucket/server.ts';
import { waitFor } from '../harness/limits.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { access, dayMs, type Ended, folder, hashes, jobArgs, run, sandbox, start, type Variables } from './lake.ts';

describe('jobs with bucket.url', needsObjectStorage(), () => {
  let server: ObjectServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.stop());

  const bucketAccess = (endpoint = server.endpoint, secret: string = credentials.secretAccessKey): Variables => ({
    AWS_ENDPOINT_URL: endpoint,
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: secret,
  });

  async function pull(url: string): Promise<Record<string, string>> {
    const target = join(folder(), 'pulled');
    const { code, stderr } = await run(['pull', url, target], bucketAccess());
    expect(code, stderr).toBe(0);
    return hashes(target, '*');
  }

  test('nightly pushes what it has published; a push that fails is a failure of the run, and the next one catches up', async () => {
    const box = await sandbox({ seed: 5, markets: 4, ticksPerDay: 60 });
    const output = join(folder(), 'lake');
    const url = 's3://lakes/jobs';
    const job = (name: string, env: Variables, ...flags: string[]): Promise<Ended> =>
      run(jobArgs(name, output, '--set', `bucket.url=${url}`, '--json', ...flags), { ...access(box.url), ...env });

    const first = await job(
      'nightly',
      bucketAccess(),
      '--date',
      new Date(Date.now() - 2 * dayMs).toISOString().slice(0, 10),
    );
    expect(first.code, first.stdout).toBe(0);
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
    expect(refused.summary.next_action).toMatch(/^Push the published generation again: oddslake push /);
    expect(refused.stdout + refused.stderr).not.toContain('not-this-one');
    expect(await pull(url)).toEqual(before);

    // Other jobs push nothing.
    const polled = await job('ticks', bucketAccess());
    expect(polled.code, polled.stdout).toBe(0);
    expect(polled.summary).not.toHaveProperty('pushed');
    expect(await pull(url)).toEqual(before);

    const next = await job('nightly', bucketAccess());
    expect(next.code, next.stdout).toBe(0);
    expect(next.summary.pushed).toMatchObject({ outcome: 'pushed', generation: next.summary.generation });
    expect(await pull(url)).toEqual(hashes(output, '*'));
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
    expect((await run(['verify', '--output', output])).code).toBe(0);
    expect((await run(['push', 's3://lakes/signal', '--output', output], bucketAccess())).code).toBe(0);
    expect(await pull('s3://lakes/signal')).toEqual(hashes(output, '*'));
  });

  test('a schedule pushes after every job that it runs', async () => {
    const box = await sandbox({ seed: 7, markets: 3, ticksPerDay: 40 });
    const output = join(folder(), 'lake');
    const first = await run(jobArgs('nightly', output), access(box.url));
    expect(first.code, first.stderr).toBe(0);
    const db = new DatabaseSync(join(output, '.oddslake', 'state.sqlite'));
    db.exec(`update runs set job = 'ticks', started_at = started_at - ${3 * 3_600_000}`);
    db.close();
    const at = new Date(Date.now() - 90 * 60_000);
    const cron = `${at.getUTCMinutes()} ${at.getUTCHours()} * * *`;
    const flags = ['bucket.url=s3://lakes/schedule', 'schedule.nightly=null', `schedule.ticks=${cron}`];
    const running = start(jobArgs('schedule', output, '--json', ...flags.flatMap((flag) => ['--set', flag])), {
      ...access(box.url),
      ...bucketAccess(),
    });
    let printed = '';
    running.child.stdout!.on('data', (text: string) => {
      printed += text;
    });
    await waitFor(() => printed.endsWith('\n'), 'the summary of the job');
    running.child.kill('SIGTERM');
    const ended = await running.ended;
    expect(ended.code, ended.stderr).toBe(0);
    expect(ended.summary).toMatchObject({ job: 'ticks', exit_code: 0, pushed: { outcome: 'pushed' } });
    expect(existsSync(join(server.folder, 'schedule', 'manifest.json'))).toBe(true);
    expect(await pull('s3://lakes/schedule')).toEqual(hashes(output, '*'));
  });
});
