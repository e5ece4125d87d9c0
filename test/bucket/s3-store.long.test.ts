import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { systemClock, systemRandom } from '../../src/base/system.ts';
import { parseBucketAddress } from '../../src/bucket/address.ts';
import { openS3Store, type StoreOptions } from '../../src/bucket/s3-store.ts';
import { silent } from '../harness/job-context.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { startFaultProxy } from './fault-proxy.ts';
import { credentials, type ObjectServer, openStore, region, startServer } from './server.ts';

const bytes = Buffer.from('some bytes');
const hash = sha256(bytes);

const openAt = (endpoint: string, options: Partial<StoreOptions>) =>
  openS3Store(parseBucketAddress('s3://lakes/store', 'test'), {
    clock: systemClock,
    random: systemRandom,
    log: silent,
    signal: new AbortController().signal,
    sse: null,
    kmsKey: null,
    pathStyle: false,
    client: { endpoint, region, credentials },
    ...options,
  });

test.each([
  [false, 'http://lakes.objects.example'],
  [true, 'http://objects.example'],
])('with bucket.path_style %s the requests go to %s, and are not sent without encryption', async (pathStyle, host) => {
  const store = await openAt('http://objects.example', { pathStyle });
  await expect(store.get('a')).rejects.toMatchObject({
    exitCode: 2,
    message: expect.stringContaining(`${host} is not`),
  });
});

describe('a store', needsObjectStorage(), () => {
  let server: ObjectServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.stop());

  test('asks for the encryption of bucket.sse with the key of bucket.kms_key', async () => {
    const requested: unknown[] = [];
    const proxy = await startFaultProxy(server.endpoint, {
      answer: (_, headers) => {
        requested.push([
          headers['x-amz-server-side-encryption'],
          headers['x-amz-server-side-encryption-aws-kms-key-id'],
        ]);
        return null;
      },
    });
    onTestFinished(() => proxy.stop());
    for (const options of [{}, { sse: 'AES256' }, { sse: 'aws:kms', kmsKey: 'alias/lakes' }] as const) {
      const store = await openAt(proxy.endpoint, options);
      await store.put('encrypted', bytes, hash, 'always', 'text/plain');
    }
    expect(requested).toEqual([
      [undefined, undefined],
      ['AES256', undefined],
      ['aws:kms', 'alias/lakes'],
    ]);
  });

  test('lists more objects than a page holds, and removes more than a request may', async () => {
    const store = await openStore({ endpoint: server.endpoint, prefix: 'many' });
    const paths = Array.from({ length: 1003 }, (_, i) => `data/${String(i).padStart(5, '0')}`);
    for (let at = 0; at < paths.length; at += 50)
      await Promise.all(paths.slice(at, at + 50).map((path) => store.put(path, bytes, hash, 'always', 'text/plain')));
    const list = async () => {
      const found: string[] = [];
      for await (const { path } of store.list('data/')) found.push(path);
      return found;
    };
    expect(await list()).toEqual(paths);
    await store.remove(['data/missing', ...paths]);
    expect(await list()).toEqual([]);
  });

  test('knows the time of the server, not that of this machine', async () => {
    const store = await openStore({ endpoint: server.endpoint, prefix: 'time' });
    expect(store.serverTimeMs()).toBeNull();
    await store.put('a', bytes, hash, 'always', 'text/plain');
    expect(Math.abs(store.serverTimeMs()! - Date.now())).toBeLessThan(600_000);
    expect(await store.head('a')).toMatchObject({ bytes: bytes.length, sha256: hash, recordedSha256: hash });
  });

  test('stops between attempts when it is aborted', async () => {
    const stop = new AbortController();
    const proxy = await startFaultProxy(server.endpoint, { answer: () => 503 });
    onTestFinished(() => proxy.stop());
    const store = await openStore({
      endpoint: proxy.endpoint,
      prefix: 'abort',
      signal: stop.signal,
      limits: { attemptsMax: 1000, delayMsMin: 5000, delayMsMax: 60_000 },
    });
    const got = store.get('a');
    setTimeout(() => stop.abort(new Error('stopped by the test')), 50);
    await expect(got).rejects.toThrow('stopped by the test');
  });
});
