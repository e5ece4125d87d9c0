import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Lease } from '../../src/bucket/lease.ts';
import { startFaultProxy } from '../bucket/fault-proxy.ts';
import { waitFor } from '../harness/limits.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { useBucketServer } from './bucket-server.ts';
import {
  access,
  dayMs,
  type Ended,
  folder,
  hashes,
  jobArgs,
  manifestOf,
  rowHashes,
  run,
  sandbox,
  sequentialFlags,
  start,
} from './lake.ts';

const dayBefore = (days: number): string => new Date(Date.now() - days * dayMs).toISOString().slice(0, 10);
/** Two days that are over, so that all archives are asked for the same ticks. */
const [first, second] = [dayBefore(3), dayBefore(2)];

describe('a standby', needsObjectStorage(), () => {
  const server = useBucketServer();
  const { bucketAccess, pull } = server;

  /** Two machines that collect one archive, each with a folder of its own. */
  function createMachine(upstreamUrl: string, prefix: string, leaseMinutes: number, endpoint?: string) {
    const output = join(folder(), 'lake');
    const url = `s3://lakes/${prefix}`;
    const env = { ...access(upstreamUrl), ...bucketAccess(endpoint) };
    const lease = ['--set', `bucket.url=${url}`, '--set', `bucket.lease_minutes=${leaseMinutes}`];
    const toArgs = (name: string, flags: readonly string[]) => jobArgs(name, output, ...lease, ...flags);
    return {
      output,
      url,
      run: (name: string, ...flags: string[]): Promise<Ended> => run(toArgs(name, flags), env),
      start: (name: string, ...flags: string[]) => start(toArgs(name, flags), env),
    };
  }

  const readLease = (prefix: string): Lease =>
    JSON.parse(readFileSync(join(server.folderOf(prefix), 'lease.json'), 'utf8')) as Lease;

  test('takes over from a collector killed in the middle of a night, which comes back alive: as if nothing had happened', async () => {
    const box = await sandbox({ seed: 21, markets: 6, ticksPerDay: 300 });
    const one = createMachine(box.url, 'killed', 0.1);
    const other = createMachine(box.url, 'killed', 0.1);
    const night = await one.run('nightly', '--date', first);
    expect(night.code, night.stdout).toBe(0);

    // While the first machine holds the lease, the other one only copies, and its jobs are refused.
    const standby = other.start('standby', '--exit');
    let said = '';
    standby.child.stderr!.on('data', (text: string) => {
      said += text;
    });
    await waitFor(() => existsSync(join(other.output, 'manifest.json')), 'the copy');
    await waitFor(() => said.includes('standing by'), 'the log line');
    expect(hashes(other.output, '*')).toEqual(hashes(one.output, '*'));
    const early = await other.run('nightly', '--date', second);
    expect([early.code, early.summary.error]).toEqual([5, expect.stringContaining('collects this archive')]);

    const before = box.stats().requests;
    const killed = one.start('nightly', '--date', second, ...sequentialFlags);
    await waitFor(() => box.stats().requests >= before + 5, 'a few requests');
    killed.child.kill('SIGKILL');
    expect((await killed.ended).signal).toBe('SIGKILL');
    const taken = await standby.ended;
    expect(taken.code, taken.stderr).toBe(0);
    expect(JSON.parse(taken.stdout)).toMatchObject({ job: 'standby', token: 2, host: hostname() });
    expect(readLease('killed')).toMatchObject({ token: 2 });
    const resumed = await other.run('nightly', '--date', second);
    expect(resumed.code, resumed.stdout).toBe(0);
    expect(resumed.summary.pushed).toMatchObject({ outcome: 'pushed' });

    // The first machine is back, and changes nothing in the bucket.
    const inBucket = await pull(other.url);
    const refused = await one.run('nightly', '--date', second);
    expect([refused.code, refused.summary.error]).toEqual([5, expect.stringContaining('collects this archive')]);
    const push = await one.run('push');
    expect([push.code, push.stderr]).toEqual([5, expect.stringContaining('another machine has taken over')]);
    expect(await pull(other.url)).toEqual(inBucket);
    expect(inBucket).toEqual(hashes(other.output, '*'));

    // An archive that was never disturbed has the same ticks and candles, byte for byte, and is as far.
    const output = join(folder(), 'undisturbed');
    for (const day of [first, second]) {
      const undisturbed = await run(jobArgs('nightly', output, '--date', day), access(box.url));
      expect(undisturbed.code, undisturbed.stdout).toBe(0);
    }
    const names = ['ticks', 'candles_1h', 'candles_1d'];
    expect(Object.keys(rowHashes(output, ...names)).length).toBeGreaterThan(10);
    expect(rowHashes(other.output, ...names)).toEqual(rowHashes(output, ...names));
    expect(manifestOf(other.output).watermark).toBe(manifestOf(output).watermark);
    expect((await run(['verify', '--output', other.output])).code).toBe(0);

    // With a new folder the first machine can take over again.
    const again = createMachine(box.url, 'killed', 0.1);
    expect((await again.run('standby', '--now', '--exit')).code).toBe(0);
    expect(hashes(again.output, '*')).toEqual(inBucket);
    expect((await other.run('ticks')).code).toBe(5);
    const polled = await again.run('ticks');
    expect(polled.code, polled.stdout).toBe(0);
  });

  test('locks out a push that is uploading while it takes over', async () => {
    const box = await sandbox({ seed: 22, markets: 3, ticksPerDay: 60 });
    let isHeld = false;
    let release = (): void => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    let swaps = 0;
    const proxy = await startFaultProxy(server.endpoint, {
      hold({ method, path }) {
        // The second push is held at its commit point.
        if (method !== 'PUT' || !path.includes('/manifest.json') || ++swaps < 2) return;
        isHeld = true;
        return released;
      },
    });
    onTestFinished(() => proxy.stop());
    const one = createMachine(box.url, 'uploading', 60, proxy.endpoint);
    const other = createMachine(box.url, 'uploading', 60);
    const night = await one.run('nightly', '--date', first);
    expect(night.code, night.stdout).toBe(0);
    const late = one.start('nightly', '--date', second);
    await waitFor(() => isHeld, 'the swap');
    const taken = await other.run('standby', '--now', '--exit');
    expect(taken.code, taken.stderr).toBe(0);
    const inBucket = await pull(one.url);
    release();
    const ended = await late.ended;
    expect(ended.code, ended.stdout).toBe(4);
    expect(ended.summary.failures).toEqual([
      expect.objectContaining({ reason: expect.stringContaining('another machine has taken over') }),
    ]);
    expect(await pull(one.url)).toEqual(inBucket);
    const resumed = await other.run('nightly', '--date', second);
    expect(resumed.code, resumed.stdout).toBe(0);
    expect(rowHashes(other.output, 'ticks')).toEqual(rowHashes(one.output, 'ticks'));
  });

  test('waits as long as a schedule lives, however rarely it has a job, and takes over when it is gone', async () => {
    const box = await sandbox({ seed: 23, markets: 3, ticksPerDay: 40 });
    const one = createMachine(box.url, 'schedule', 0.05);
    const other = createMachine(box.url, 'schedule', 0.05);
    const night = await one.run('nightly', '--date', first);
    expect(night.code, night.stdout).toBe(0);
    const schedule = one.start('schedule', '--set', 'schedule.nightly=0 0 1 1 *');
    const standby = other.start('standby', '--exit');
    let hasTaken = false;
    void standby.ended.then(() => {
      hasTaken = true;
    });
    const { expires_at: firstEnd } = readLease('schedule');
    await waitFor(() => readLease('schedule').expires_at > firstEnd + 6000, 'two more leases');
    expect([hasTaken, readLease('schedule').token]).toEqual([false, 1]);
    schedule.child.kill('SIGKILL');
    await schedule.ended;
    const taken = await standby.ended;
    expect(taken.code, taken.stderr).toBe(0);
    expect(readLease('schedule').token).toBe(2);
    // A schedule on the machine that has lost the lease does not start.
    expect((await one.run('schedule', '--set', 'schedule.nightly=0 0 1 1 *')).code).toBe(5);
  });

  test('takes nothing over if its archive has data that the bucket lacks, or without its settings', async () => {
    const box = await sandbox({ seed: 24, markets: 3, ticksPerDay: 40 });
    const one = createMachine(box.url, 'data', 60);
    const night = await one.run('nightly', '--date', first);
    expect(night.code, night.stdout).toBe(0);
    const other = createMachine(box.url, 'data', 60);
    const own = await run(jobArgs('nightly', other.output, '--date', second), access(box.url));
    expect(own.code, own.stdout).toBe(0);
    const [before, lease] = [hashes(other.output, '*'), readLease('data')];
    const refused = await other.run('standby', '--now', '--exit');
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('Use a new folder')]);
    expect([hashes(other.output, '*'), readLease('data')]).toEqual([before, lease]);
    const unset = await run(jobArgs('standby', other.output, '--exit'), bucketAccess());
    expect([unset.code, unset.stderr]).toEqual([2, expect.stringContaining('bucket.lease_minutes')]);
    for (const name of ['standby', 'ticks']) {
      const alone = await one.run(name, '--set', 'bucket.single_writer=true');
      expect([alone.code, alone.stderr]).toEqual([2, expect.stringContaining('bucket.single_writer')]);
    }
  });

  test('a machine that holds the lease collects although the bucket is away; one that does not, does not', async () => {
    const box = await sandbox({ seed: 25, markets: 3, ticksPerDay: 40 });
    let isAway = false;
    const proxy = await startFaultProxy(server.endpoint, { answer: () => (isAway ? 503 : null) });
    onTestFinished(() => proxy.stop());
    const one = createMachine(box.url, 'away', 60, proxy.endpoint);
    const night = await one.run('nightly', '--date', first);
    expect(night.code, night.stdout).toBe(0);
    isAway = true;
    const polled = await one.run('ticks');
    expect([polled.code, polled.stderr]).toEqual([0, expect.stringContaining('collecting nevertheless')]);
    const other = createMachine(box.url, 'away', 60, proxy.endpoint);
    expect((await other.run('ticks')).code).toBe(7);
  });

  test('a lease that is no lease is damage, which is named', async () => {
    const box = await sandbox({ seed: 26, markets: 3, ticksPerDay: 40 });
    const one = createMachine(box.url, 'rubbish', 60);
    const night = await one.run('nightly', '--date', first);
    expect(night.code, night.stdout).toBe(0);
    writeFileSync(join(server.folderOf('rubbish'), 'lease.json'), '{"format":1}');
    const refused = await one.run('ticks');
    expect([refused.code, refused.summary.error]).toEqual([6, expect.stringContaining('lease.json is damaged')]);
  });
});
