import { expect, test } from 'vitest';
import { now, opened } from '../archive/scratch.ts';
import { lake } from './historical-archive.ts';
import { type Serving, serving } from './serving.ts';

/** Requests with a new key; returns the status, the challenge and the detail of an error. */
async function keyOf({ workspace, ask }: Serving, permissions: { scopes?: string[]; datasets?: string[] }) {
  const { key } = await workspace.createKey(
    { name: 'n', expiresAt: null, requestsPerMinute: 1_000_000, ...permissions },
    now,
  );
  const send = (path: string, init: RequestInit = {}): Promise<Response> =>
    ask(path, { ...init, headers: { ...init.headers, authorization: `Bearer ${key}` } });
  return {
    send,
    async status(path: string, init?: RequestInit) {
      const answer = await send(path, init);
      const text = await answer.text();
      return { status: answer.status, challenge: answer.headers.get('www-authenticate'), text };
    },
  };
}

const challengeOf = (scope: string) => `Bearer error="insufficient_scope", scope="${scope}"`;

/** The scope of every route that only keys may use, and the dataset if it does not depend on the request. */
const scopes: Readonly<Record<string, 'read' | 'export' | null>> = {
  'get /api/v1/markets': 'read',
  'get /api/v1/ticks': 'read',
  'get /api/v1/ticks/stream': 'read',
  'get /api/v1/orderbook': 'read',
  'get /api/v1/historical/markets': 'read',
  'get /api/v1/historical/ticks': 'read',
  'get /api/v1/historical/candles': 'read',
  'get /api/v1/historical/coverage': 'read',
  'get /api/v1/historical/orderbooks': 'read',
  'get /api/v1/historical/quotes': 'read',
  'get /api/v1/historical/trades': 'read',
  'get /api/v1/historical/conflicts': 'read',
  'get /api/v1/symbols': 'read',
  'get /api/v1/export': null,
  'get /api/v1/export/files/symbols/{part}': 'export',
  'get /api/v1/export/files/{dataset}/{date}/{part}': 'export',
};

test('every route for keys requires its documented scope, before it looks at the request', async () => {
  const service = await serving(opened());
  const keys = {
    read: await keyOf(service, { scopes: ['read'] }),
    export: await keyOf(service, { scopes: ['export'] }),
  };
  const { body } = await service.json<{ paths: Record<string, Record<string, { security: { key?: string[] }[] }>> }>(
    '/api/v1/openapi.json',
  );
  const routes = Object.entries(body.paths).flatMap(([path, operations]) =>
    Object.entries(operations)
      .filter(([, { security }]) => security.length === 1 && security[0]!.key !== undefined)
      .map(([method, { security }]) => ({ method, path, scope: security[0]!.key![0] ?? null })),
  );
  expect(Object.fromEntries(routes.map(({ method, path, scope }) => [`${method} ${path}`, scope]))).toEqual(scopes);
  for (const { method, path, scope } of routes) {
    const url = path.replace(/\{\w+\}/g, 'x');
    for (const [name, key] of Object.entries(keys))
      for (const sent of method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()]) {
        const { status, challenge, text } = await key.status(url, { method: sent });
        const isRefused = scope !== null && scope !== name;
        expect([status === 403, challenge], `${sent} ${path} with ${name}: ${status}`).toEqual([
          isRefused,
          isRefused ? challengeOf(scope) : null,
        ]);
        expect(status, `${sent} ${path}`).toBeLessThan(500);
        if (isRefused && sent !== 'HEAD')
          expect(JSON.parse(text).detail).toContain(`the scope ${scope}. It has: ${name}.`);
      }
  }
  // Routes without a scope: a path that does not exist, and the description of the key itself.
  expect((await keys.export.status('/api/v1/nothing')).status).toBe(404);
  expect(JSON.parse((await keys.export.status('/api/v1/me')).text)).toMatchObject({ scopes: ['export'] });
});

test('a key reads only the datasets that it permits', async () => {
  const archive = await lake();
  const service = await serving(archive);
  const day = archive.readManifest().datasets.ticks.files[0]!.date!;
  const urls: Readonly<Record<string, readonly string[]>> = {
    ticks: [
      '/api/v1/ticks?symbol=AAA',
      '/api/v1/historical/ticks?limit=1',
      '/api/v1/historical/ticks?format=csv',
      ...['1m', '5m', '15m', '30m'].map((interval) => `/api/v1/historical/candles?interval=${interval}&limit=1`),
      `/api/v1/export/files/ticks/${day}/part-00.parquet`,
    ],
    candles_1h: [
      ...['1h', '4h', '6h', '12h'].map((interval) => `/api/v1/historical/candles?interval=${interval}&limit=1`),
      `/api/v1/export/files/candles_1h/${day}/part-00.parquet`,
    ],
    candles_1d: ['1d', '1w'].map((interval) => `/api/v1/historical/candles?interval=${interval}&limit=1`),
    markets: ['/api/v1/markets?view=matched', '/api/v1/historical/markets?limit=1'],
    orderbooks: ['/api/v1/orderbook?symbol=AAA', '/api/v1/historical/orderbooks?limit=1'],
    quotes: [
      '/api/v1/historical/quotes?limit=1',
      '/api/v1/historical/quotes?format=csv',
      `/api/v1/export/files/quotes/${day}/part-00.parquet`,
    ],
    trades: [
      '/api/v1/historical/trades?limit=1',
      '/api/v1/historical/trades?format=csv',
      `/api/v1/export/files/trades/${day}/part-00.parquet`,
    ],
    conflicts: ['/api/v1/historical/conflicts?limit=1', '/api/v1/historical/conflicts?format=csv'],
    coverage: ['/api/v1/historical/coverage?limit=1'],
    symbols: ['/api/v1/export/files/symbols/part-00.parquet'],
  };
  for (const permitted of Object.keys(urls)) {
    const key = await keyOf(service, { datasets: [permitted] });
    for (const [dataset, paths] of Object.entries(urls))
      for (const path of paths) {
        const { status, challenge, text } = await key.status(path);
        if (dataset === permitted) expect([200, 404], `${path}: ${status}`).toContain(status);
        else {
          expect([status, challenge], path).toEqual([403, 'Bearer error="insufficient_scope"']);
          expect(JSON.parse(text).detail).toBe(
            `The key does not permit the dataset ${dataset}. It permits: ${permitted}.`,
          );
        }
      }
  }
});

test('a list of changes has the permitted datasets only, and the manifest all', async () => {
  const service = await serving(await lake());
  const key = await keyOf(service, { datasets: ['ticks', 'symbols'] });
  const listed = async (send: (path: string) => Promise<Response>) =>
    (await (await send('/api/v1/export?since=0')).json()) as { files: { path: string; url: string }[]; count: number };
  const [all, permitted] = [await listed(service.ask), await listed(key.send)];
  const foldersOf = ({ files }: typeof all) => [...new Set(files.map(({ path }) => path.split('/')[0]))].sort();
  expect(foldersOf(all)).toEqual(expect.arrayContaining(['candles_1h', 'coverage', 'markets', 'symbols', 'ticks']));
  expect([foldersOf(permitted), permitted.count]).toEqual([['symbols', 'ticks'], permitted.files.length]);
  for (const { url } of permitted.files) expect((await key.status(url)).status).toBe(200);
  expect(await (await key.send('/api/v1/export')).text()).toBe(await (await service.ask('/api/v1/export')).text());
});

test.each([
  [{ scopes: ['write'] }, /--scope write: the scope is unknown. Expected one of read, export/],
  [{ datasets: ['fills'] }, /--dataset fills: the dataset is unknown. Expected one of ticks/],
  [{ scopes: [] }, /at least one scope/],
  [{ datasets: [] }, /at least one dataset/],
])('rejects a key with %j', async (permissions, sentence) => {
  await expect(keyOf(await serving(opened()), permissions)).rejects.toThrow(sentence);
});
