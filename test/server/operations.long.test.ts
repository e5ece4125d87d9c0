import { rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ensureSymbols, recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { loseTicks } from '../archive/losses.ts';
import { answer, append, clockAt, hourMs, market, now, opened, publishNow, scratchFolder } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { type ServingOptions, serving } from './serving.ts';

/** A served archive, and a second handle that writes. */
async function served(options: ServingOptions = {}) {
  const root = scratchFolder();
  const writer = opened({ root });
  const service = await serving(opened({ root }), options);
  const open = { headers: { authorization: '' } };
  return {
    root,
    writer,
    ...service,
    ready: () => service.json<Record<string, unknown>>('/readyz', open),
    /** The value of a metric, with its labels as in the text. */
    async metric(name: string) {
      const text = await (await service.ask('/metrics', open)).text();
      const line = text.split('\n').find((one) => one.startsWith(`${name} `));
      return line === undefined ? undefined : Number(line.slice(name.length + 1));
    },
  };
}

/** Adds a live symbol that is covered up to an hour ago. */
async function publishLive(archive: ReturnType<typeof opened>): Promise<void> {
  recordMarkets(archive.state.db, [market('A')], now - 3 * hourMs, true);
  const window = { from: now - 3 * hourMs, to: now - hourMs };
  append(archive, answer('A', [[now - 2 * hourMs, 0.5]], { windows: [window] }));
  await publishNow(archive);
}

test('is not ready before the first publish, and says so without a key', async () => {
  const { ready, writer } = await served();
  const { status, headers, body } = await ready();
  expect([status, headers.get('content-type')]).toEqual([503, expect.stringContaining('application/problem+json')]);
  expect(headers.get('cache-control')).toBe('no-store');
  expect(body.errors).toEqual([{ name: 'archive', reason: 'has nothing published yet' }]);
  await publishLive(writer);
  expect(await ready()).toMatchObject({ status: 200, body: { status: 'ready', generation: 1, lag_seconds: 3600 } });
});

test('is not ready if the watermark is too far behind', async () => {
  const { ready, writer } = await served({ set: ['service.lag_seconds_max=3599.5'] });
  await publishLive(writer);
  const { status, body } = await ready();
  expect([status, body.detail]).toEqual([503, 'The watermark is 3600 seconds behind; the limit is 3599.5.']);
  const lenient = await serving(opened({ root: writer.layout.root }), { set: ['service.lag_seconds_max=3600'] });
  expect((await lenient.json('/readyz')).status).toBe(200);
});

test('lost windows do not affect readiness', async () => {
  const { ready, writer, metric } = await served({ set: ['service.lag_seconds_max=1800'] });
  await publishLive(writer);
  const gone = { from: now - 2.75 * hourMs, to: now - 2.25 * hourMs };
  await loseTicks(writer, [{ symbol: 'A', ...gone }]);
  append(writer, answer('A', [], { windows: [{ from: now - hourMs, to: now - hourMs / 2 }] }));
  await publishNow(writer);
  expect(writer.readManifest()).toMatchObject({ watermark: now - hourMs / 2, reached: now - hourMs / 2, lost: [gone] });
  expect(await ready()).toMatchObject({ status: 200, body: { lag_seconds: 1800 } });
  expect(await metric('oddslake_lag_seconds')).toBe(1800);
});

test('has no lag without live symbols', async () => {
  const { ready, writer, metric } = await served({ clock: clockAt(now + 1000 * hourMs) });
  ensureSymbols(writer.state.db, ['A'], now);
  append(writer, answer('A', [[now - hourMs, 0.5]], { origin: 'backfill' }));
  await publishNow(writer);
  expect((await ready()).body).toMatchObject({ status: 'ready', generation: 1, lag_seconds: null });
  expect(await metric('oddslake_lag_seconds')).toBeNaN();
});

test('is not ready if the manifest is missing or invalid, and reveals no path', async () => {
  const { root, ready, writer, metric, json } = await served();
  await publishLive(writer);
  for (const spoil of [
    () => writeFileSync(join(root, 'manifest.json'), '{'),
    () => rmSync(join(root, 'manifest.json')),
  ]) {
    spoil();
    const { status, body } = await ready();
    expect([status, body.errors]).toEqual([503, [{ name: 'archive', reason: 'cannot be read' }]]);
    expect(JSON.stringify({ ...body, type: '' })).not.toContain('/');
    expect(await metric('oddslake_archive_readable')).toBe(0);
    expect(await metric('oddslake_generation')).toBeNaN();
  }
  expect((await json('/healthz')).status).toBe(200);
});

test('is not ready without the key database', async () => {
  const { ready, writer, workspace } = await served();
  await publishLive(writer);
  await workspace.db.schema.dropTable('keys').execute();
  const { status, body } = await ready();
  expect([status, body.errors]).toEqual([503, [{ name: 'database', reason: 'cannot be read' }]]);
});

test('metrics follow changes of the archive', async () => {
  const { writer, metric } = await served();
  const standing = async () => [
    await metric('oddslake_generation'),
    await metric('oddslake_ticks_published'),
    await metric('oddslake_ticks_journaled'),
    await metric('oddslake_lag_seconds'),
  ];
  expect(await standing()).toEqual([0, 0, 0, Number.NaN]);
  await publishLive(writer);
  append(
    writer,
    answer('A', [
      [now - hourMs, 0.5],
      [now - hourMs + 1, 0.6],
    ]),
  );
  expect(await standing()).toEqual([1, 1, 2, 3600]);
  await publishNow(writer);
  expect(await standing()).toEqual([2, 3, 0, expect.any(Number)]);
  expect(await metric('oddslake_archive_readable')).toBe(1);
  expect(await metric('process_cpu_seconds_total')).toBeGreaterThan(0);
});

test('reports the size of the file cache, which stays within its limit', async () => {
  const bytesMax = 8000;
  const { writer, json, metric } = await served({ set: [`service.cache_bytes_max=${bytesMax}`] });
  const kept = async () => [await metric('oddslake_cache_files'), await metric('oddslake_cache_bytes')];
  for (const symbol of ['A', 'B', 'C', 'D', 'E', 'F']) append(writer, answer(symbol, [[now - hourMs, 0.5]]));
  await publishNow(writer);
  expect(await kept()).toEqual([0, 0]);
  for (const symbol of ['A', 'B', 'C', 'D', 'E', 'F'])
    expect((await json(`/api/v1/ticks?symbol=${symbol}&from=0`)).status).toBe(200);
  const [files, bytes] = (await kept()) as [number, number];
  expect(files).toBeGreaterThan(0);
  expect(bytes).toBeGreaterThan(0);
  expect(bytes).toBeLessThanOrEqual(bytesMax);
});

test('counts requests by route, method and status', async () => {
  const { ask, metric } = await served();
  const count = (route: string, status: number, method = 'GET') =>
    metric(`oddslake_http_requests_total{route="${route}",method="${method}",status="${status}"}`);
  for (const path of ['/api/v1/markets', '/api/v1/markets?source=x', '/api/v1/markets?limit=0', '/a', '/b'])
    await (await ask(path)).text();
  await (await ask('/api/v1/markets', { headers: { authorization: 'Bearer wrong' } })).text();
  expect(await count('/api/v1/markets', 200)).toBe(2);
  expect(await count('/api/v1/markets', 400)).toBe(1);
  expect(await count('/api/v1/markets', 401)).toBe(1);
  expect(await count('none', 404)).toBe(2);
  expect(await metric('oddslake_http_request_duration_seconds_count{route="/api/v1/markets",method="GET"}')).toBe(4);
});

test('counts bytes once on a connection with several responses', async () => {
  const { ask, metric } = await served();
  const before = (await metric('oddslake_http_response_bytes_total'))!;
  const lengths = await Promise.all(
    Array.from({ length: 8 }, async () => (await (await ask('/healthz')).text()).length),
  );
  const sent = (await metric('oddslake_http_response_bytes_total'))! - before;
  const bodies = lengths.reduce((sum, length) => sum + length, 0);
  expect(sent).toBeGreaterThan(bodies);
  // Headers, and the first response of /metrics, which the second one counts.
  expect(sent).toBeLessThan(bodies + 8 * 1000 + 40_000);
});

test('counts running requests, without those whose client disconnected', async () => {
  let release = (): void => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const { url, key, metric, workspace } = await served();
  const { authenticate } = workspace;
  Object.assign(workspace, {
    authenticate: (credential: string, nowMs: number) => held.then(() => authenticate(credential, nowMs)),
  });
  const request = get(`${url}/api/v1/markets`, { headers: { authorization: `Bearer ${key}` } });
  request.on('error', () => {});
  await waitFor(async () => (await metric('oddslake_http_requests_in_flight')) === 2, 'a running request');
  request.destroy();
  await waitFor(async () => (await metric('oddslake_http_requests_in_flight')) === 1, 'no other running request');
  const aborted = 'oddslake_http_requests_total{route="/api/v1/markets",method="GET",status="aborted"}';
  expect(await metric(aborted)).toBe(1);
  release();
});

test('two services of one process have separate metrics', async () => {
  const [first, second] = [await served(), await served()];
  await (await first.ask('/api/v1/markets')).text();
  const name = 'oddslake_http_requests_total{route="/api/v1/markets",method="GET",status="200"}';
  expect([await first.metric(name), await second.metric(name)]).toEqual([1, undefined]);
});

test('metrics require their own key if it is set', async () => {
  const metricsKey = 'a-key-of-the-monitoring';
  const logged: string[] = [];
  const note = (...given: unknown[]): void => void logged.push(JSON.stringify(given));
  const { ask, url } = await serving(opened(), {
    set: [`service.metrics_key=${metricsKey}`],
    log: { debug: note, info: note, warn: note, error: note },
  });
  const read = (authorization: string): Promise<Response> => ask('/metrics', { headers: { authorization } });
  const right = await read(`Bearer ${metricsKey}`);
  expect([right.status, await right.text()]).toEqual([200, expect.stringContaining('oddslake_http_requests_total')]);
  for (const wrong of [
    `Bearer ${metricsKey}a`,
    `Bearer ${metricsKey.slice(1)}`,
    `Basic ${metricsKey}`,
    'Bearer ',
    metricsKey,
  ]) {
    const { status, headers } = await read(wrong);
    expect([status, headers.get('www-authenticate')], wrong).toEqual([401, 'Bearer realm="metrics"']);
  }
  // Neither without a credential nor with a market data key, which `ask` sends.
  expect((await fetch(`${url}/metrics`)).status).toBe(401);
  expect((await ask('/metrics')).status).toBe(401);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  expect(logged.join()).not.toContain(metricsKey);
});
