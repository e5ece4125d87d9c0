import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, test, vi } from 'vitest';
import type { Log } from '../../src/base/ports.ts';
import { systemRandomBytes } from '../../src/base/system.ts';
import { dayMs } from '../../src/base/window.ts';
import type { DatabaseLocation } from '../../src/server/workspace/database-url.ts';
import { openWorkspace } from '../../src/server/workspace/workspace.ts';
import { now, opened } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { serving } from './serving.ts';
import { administer, freshDatabase, needsPostgres, overEachDatabase } from './workspace/databases.ts';
import { steppedClock } from './workspace/stepped-clock.ts';

const plain = { name: 'n', expiresAt: null, requestsPerMinute: null };
const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };

const workspaceAt = (location: DatabaseLocation, clock = steppedClock(now), log = silent) =>
  openWorkspace({ location, tokens: null, randomBytes: systemRandomBytes, clock, log });

test('counts the requests and the bytes of a key, also rejected and pipelined ones, and stores them at the end', async () => {
  const database = await freshDatabase('sqlite');
  const service = await serving(opened(), {
    database,
    set: ['service.tokens.secret=a secret of more than 32 characters'],
  });
  const { id, key } = await service.workspace.createKey({ ...plain, requestsPerMinute: 5, scopes: ['read'] }, now);
  const { port, hostname } = new URL(service.url);
  const request = (path: string, credential: string): string =>
    `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${credential}\r\n`;
  // Six pipelined requests, one without a permission and one above the rate limit, then one with another key.
  const socket = connect(Number(port), hostname);
  const paths = [
    '/api/v1/me',
    '/api/v1/export/files/symbols/part-00.parquet',
    '/api/v1/nothing',
    '/api/v1/me',
    '/api/v1/me',
    '/api/v1/me',
  ];
  socket.write(paths.map((path) => `${request(path, key)}\r\n`).join(''));
  let received = '';
  socket.setEncoding('utf8').on('data', (chunk) => {
    received += chunk;
  });
  const statuses = () => [...received.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
  await waitFor(() => statuses().length === 6, 'six responses');
  socket.write(`${request('/api/v1/me', service.key)}Connection: close\r\n\r\n`);
  await once(socket, 'close');
  expect(statuses()).toEqual(['200', '403', '404', '200', '200', '429', '200']);
  const lastBytes = received.length - received.lastIndexOf('HTTP/1.1 200');
  await service.stop();
  const after = await workspaceAt(database);
  const usage = await after.readUsage(null, 0);
  expect(usage.map((one) => [one.id, one.requests, one.bytes])).toEqual([
    [id, 6, Buffer.byteLength(received) - lastBytes],
    [expect.any(String), 1, lastBytes],
  ]);
  expect(usage[0]!.days).toEqual([
    { day: new Date(now).toISOString().slice(0, 10), requests: 6, bytes: usage[0]!.bytes },
  ]);
  await after.close();
});

test('a running service stores its counts every 30 seconds', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  try {
    const { json, workspace } = await serving(opened());
    await json('/api/v1/me');
    const requests = async () => (await workspace.readUsage(null, 0))[0]!.requests;
    vi.advanceTimersByTime(29_999);
    expect(await requests()).toBe(0);
    vi.advanceTimersByTime(1);
    await waitFor(async () => (await requests()) === 1, 'the count of a request');
  } finally {
    vi.useRealTimers();
  }
});

overEachDatabase((kind) => {
  test('several processes add their counts, by UTC day', async () => {
    const location = await freshDatabase(kind);
    const clock = steppedClock(Math.floor(now / dayMs) * dayMs + dayMs - 1);
    const workspaces = [await workspaceAt(location, clock), await workspaceAt(location, clock)];
    const keys = [];
    for (let i = 0; i < 30; i++) keys.push((await workspaces[0]!.createKey(plain, now)).id);
    for (let round = 0; round < 5; round++) {
      for (const [w, { usage }] of workspaces.entries())
        for (const id of w === 0 ? keys : keys.toReversed()) usage.record(id, 1_000_000_000_000 + w);
      // At the same time, and with more counts while the earlier ones are written.
      const flushes = workspaces.map(({ usage }) => usage.flush());
      workspaces[0]!.usage.record(keys[0]!, 0);
      await Promise.all([...flushes, ...workspaces.map(({ usage }) => usage.flush())]);
    }
    clock.forward(1);
    workspaces[1]!.usage.record(keys[1]!, 7);
    await workspaces[1]!.close();
    const usage = await workspaces[0]!.readUsage(null, 0);
    const bytes = 5 * 2_000_000_000_001;
    const countsOf = (id: string) => usage.find((one) => one.id === id)!.days.map((day) => [day.requests, day.bytes]);
    expect(countsOf(keys[0]!)).toEqual([[15, bytes]]);
    expect(countsOf(keys[1]!)).toEqual([
      [10, bytes],
      [1, 7],
    ]);
    expect(countsOf(keys[29]!)).toEqual([[10, bytes]]);
    const sinceToday = await workspaces[0]!.readUsage(keys[1]!, clock.nowMs() + 5);
    expect(sinceToday.map(({ requests, days }) => [requests, days.length])).toEqual([[1, 1]]);
    await workspaces[0]!.close();
  });

  test('keeps the usage of 90 days', async () => {
    const clock = steppedClock(now);
    const workspace = await workspaceAt(await freshDatabase(kind), clock);
    const { id } = await workspace.createKey(plain, now);
    const daysAfter = async (ms: number): Promise<number> => {
      clock.forward(ms);
      workspace.usage.record(id, 1);
      await workspace.usage.flush();
      return (await workspace.readUsage(id, 0))[0]!.days.length;
    };
    expect(await daysAfter(0)).toBe(1);
    expect(await daysAfter(89 * dayMs)).toBe(2);
    expect(await daysAfter(dayMs)).toBe(2);
    await workspace.close();
  });
});

test('counts are kept while the database is unavailable, and added later', needsPostgres, async () => {
  const location = await freshDatabase('postgres');
  const warned: string[] = [];
  const workspace = await workspaceAt(location, steppedClock(now), {
    ...silent,
    warn: (_facts: object, message: string) => void warned.push(message),
  });
  const { id } = await workspace.createKey(plain, now);
  const name = new URL((location as { url: string }).url).pathname.slice(1);
  await administer(`alter database ${name} with allow_connections false`);
  await administer(`select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`);
  for (let i = 0; i < 3; i++) {
    workspace.usage.record(id, 10);
    await workspace.usage.flush();
  }
  expect(warned).toEqual(['cannot store the usage of keys; it is kept in memory']);
  await administer(`alter database ${name} with allow_connections true`);
  await workspace.usage.flush();
  expect(await workspace.readUsage(id, 0)).toMatchObject([{ requests: 3, bytes: 30 }]);
  await workspace.close();
});
