import { existsSync, globSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { readRemoteManifest } from '../../src/bucket/bucket-manifest.ts';
import { parseViewsSequence } from '../../src/bucket/finish-push.ts';
import { startFaultProxy } from '../bucket/fault-proxy.ts';
import { hashesOf, publishedArchive, publishMore, readGeneration } from '../bucket/pushed.ts';
import { openStore } from '../bucket/server.ts';
import { waitFor } from '../harness/limits.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { useBucketServer } from './bucket-server.ts';
import { expectDone, folder, hashes, start, type Variables } from './lake.ts';
import { run } from './run-program.ts';

/** How many pushes are killed; PUSH_KILLS=100 for a long run. */
const kills = Number(process.env.PUSH_KILLS ?? 4);

/** Requests of a push of one more day: reads of the manifest and the list, five uploads, two manifests, and views.sql. */
const requestsPerPush = 10;

describe('push, pull and verify of a bucket, as processes', needsObjectStorage(), () => {
  const server = useBucketServer();
  const { bucketAccess: access } = server;
  /** Nothing of the user who runs the tests. */
  const noProfile: Variables = {
    HOME: '/nowhere',
    AWS_CONFIG_FILE: '/nowhere/config',
    AWS_SHARED_CREDENTIALS_FILE: '/nowhere/credentials',
    AWS_EC2_METADATA_DISABLED: 'true',
  };

  test('pushes an archive, says that nothing changed, pulls it and verifies both', async () => {
    const archive = await publishedArchive();
    const output = archive.layout.root;
    const url = 's3://lakes/e2e';
    const pushed = await expectDone(run(['push', url, '--output', output], access()));
    expect(pushed.stdout).toMatch(
      /^s3:\/\/lakes\/e2e: generation 1, \d+ files of \d+ uploaded, .* reads and \d+ writes\n$/,
    );
    // The address is in the settings.
    const again = await run(['push', '--output', output, '--set', `bucket.url=${url}`, '--json'], access());
    expect(JSON.parse(again.stdout)).toMatchObject({
      job: 'push',
      exit_code: 0,
      outcome: 'unchanged',
      generation: 1,
      requests: { reads: 1, writes: 0 },
    });
    const target = join(folder(), 'pulled');
    await expectDone(run(['pull', url, target, '--json'], access()));
    expect(hashes(target, '*')).toEqual(hashes(output, '*'));
    const verified = await run(['verify', '--output', target]);
    expect([verified.code, verified.stdout]).toEqual([0, expect.stringContaining('no damage found')]);
    const remote = await run(['verify', url, '--download'], access());
    expect([remote.code, remote.stdout]).toEqual([0, expect.stringContaining('no damage found')]);
    // An object that is lost is named, and uploaded again.
    const [object] = globSync('data/ticks/*/*.parquet', { cwd: server.folderOf('e2e') });
    const at = join(server.folderOf('e2e'), object!);
    rmSync(at);
    const damaged = await run(['verify', url, '--json'], access());
    expect(damaged.code).toBe(6);
    expect(JSON.parse(damaged.stdout)).toMatchObject({ exit_code: 6, findings: [{ key: object, kind: 'missing' }] });
    const repaired = await run(['verify', url, '--repair', '--output', output], access());
    expect([repaired.code, repaired.stdout]).toEqual([0, expect.stringContaining('uploaded again')]);
    expect(existsSync(at)).toBe(true);
  });

  test('without credentials, region, server, bucket or address the exit code and one sentence say so', async () => {
    const archive = await publishedArchive();
    const push = (env: Variables, ...args: string[]) =>
      run(['push', ...args, '--output', archive.layout.root], { ...noProfile, ...env });
    const { AWS_ACCESS_KEY_ID: _id, AWS_SECRET_ACCESS_KEY: _secret, ...anonymous } = access();
    const { AWS_REGION: _region, ...nowhere } = access();
    const results = await Promise.all([
      push(anonymous, 's3://lakes/e2e'),
      push(nowhere, 's3://lakes/e2e'),
      push({ ...access(), AWS_SECRET_ACCESS_KEY: 'not-this-one' }, 's3://lakes/e2e'),
      push(access(), 's3://no-such-bucket'),
      push(access('http://objects.example'), 's3://lakes/e2e'),
      push(access(), 'lakes'),
      push(access()),
    ]);
    expect(results.map(({ code }) => code)).toEqual([3, 2, 3, 2, 2, 2, 2]);
    const sentences = [
      /AWS_PROFILE/,
      /AWS_REGION/,
      /rejected the credential/,
      /no bucket/,
      /not encrypted/,
      /s3:\/\/BUCKET/,
      /bucket\.url/,
    ];
    for (const [i, sentence] of sentences.entries()) {
      expect(results[i]!.stderr).toMatch(sentence);
      expect(results[i]!.stderr).not.toMatch(/not-this-one|a-secret-of-the-tests|Unexpected error/);
    }
  });

  test('a push waits for another one of the same archive, and takes over from one that is killed', async () => {
    const archive = await publishedArchive();
    const output = archive.layout.root;
    const url = 's3://lakes/locked';
    let isHeld = false;
    const proxy = await startFaultProxy(server.endpoint, {
      hold({ method, path }) {
        if (method !== 'PUT' || !path.includes('/data/')) return;
        isHeld = true;
        return new Promise(() => {});
      },
    });
    onTestFinished(() => proxy.stop());
    const first = start(['push', url, '--output', output], access(proxy.endpoint));
    await waitFor(() => isHeld, 'the upload of the first push');
    const limit = ['--set', 'bucket.push_minutes_max=0.01'];
    const impatient = await run(['push', url, '--output', output, ...limit], access());
    expect([impatient.code, impatient.stderr]).toEqual([
      5,
      expect.stringContaining('Another push of this archive is still running after 1 s'),
    ]);
    const second = start(['push', url, '--output', output], access());
    await new Promise((resolve) => setTimeout(resolve, 1000));
    expect(existsSync(join(server.folderOf('locked'), 'manifest.json'))).toBe(false);
    first.child.kill('SIGKILL');
    expect((await first.ended).signal).toBe('SIGKILL');
    await expectDone(second.ended);
    expect(await readGeneration(await openStore({ endpoint: server.endpoint, prefix: 'locked' }))).toEqual(
      hashesOf(archive),
    );
  });

  test('a push that is killed leaves one whole generation, and the next one ends it', async () => {
    const archive = await publishedArchive();
    const output = archive.layout.root;
    const store = await openStore({ endpoint: server.endpoint, prefix: 'killed' });
    await run(['push', 's3://lakes/killed', '--output', output], access());
    let before = hashesOf(archive);
    let killed = 0;
    for (let i = 0; i < kills; i++) {
      await publishMore(archive, i + 1);
      const after = hashesOf(archive);
      let isKilled = false;
      let kill = (): void => {};
      const proxy = await startFaultProxy(server.endpoint, {
        // Begins with the swap of manifest.json. 20 kills are one before and one after each request.
        choose: (index) =>
          index === (i * 3 + 8) % requestsPerPush ? (i % 2 === 0 ? 'killed after' : 'killed before') : null,
        kill: () => kill(),
      });
      onTestFinished(() => proxy.stop());
      const { child, ended } = start(['push', 's3://lakes/killed', '--output', output], access(proxy.endpoint));
      kill = () => {
        isKilled = child.kill('SIGKILL');
      };
      const { signal } = await ended;
      expect(signal).toBe(isKilled ? 'SIGKILL' : null);
      if (isKilled) killed++;
      const seen = await readGeneration(store);
      expect([before, after]).toContainEqual(seen);
      await expectDone(run(['push', 's3://lakes/killed', '--output', output], access(proxy.endpoint)));
      expect(await readGeneration(store)).toEqual(after);
      const views = Buffer.from((await store.get('views.sql'))!.bytes).toString('utf8');
      expect(parseViewsSequence(views)).toBe((await readRemoteManifest(store))!.bucket.sequence);
      const stored = proxy.seen.filter(
        ({ method, path, status }) => method === 'PUT' && path.includes('/data/') && status === 200,
      );
      expect(new Set(stored.map(({ path }) => path)).size).toBe(stored.length);
      before = after;
    }
    expect(killed).toBe(kills);
  });
});
