import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type AccessSettings, isPublicRequest, type RequestOrigin } from '../../src/server/auth/public-access.ts';
import { now, opened } from '../archive/scratch.ts';
import { rawAnswer } from './raw.ts';
import { serving, sharedServing } from './serving.ts';
import { steppedClock } from './workspace/stepped-clock.ts';

const auto: AccessSettings = { publicCatalogue: 'auto', host: '127.0.0.1' };
const local: RequestOrigin = { remoteAddress: '127.0.0.1', httpVersion: '1.1', headers: { host: '127.0.0.1:8080' } };
const withHost = (host: string): RequestOrigin => ({ ...local, headers: { host } });
const withHeaders = (headers: Record<string, string>): RequestOrigin => ({
  ...local,
  headers: { ...local.headers, ...headers },
});

describe('with auto', () => {
  test.each(['127.0.0.1', '127.9.8.7', '::1', 'localhost', 'LOCALHOST'])('a service on %s is open', (host) => {
    expect(isPublicRequest({ ...auto, host }, local)).toBe(true);
  });

  test.each(['0.0.0.0', '::', '192.168.1.5', 'example.org', 'localhost.example.org', '127.0.0.1.example.org'])(
    'a service on %s asks for a key',
    (host) => expect(isPublicRequest({ ...auto, host }, local)).toBe(false),
  );

  test.each(['localhost', 'localhost:8080', '127.0.0.1', '127.3.2.1:80', '[::1]', '[::1]:8080', 'LocalHost:1'])(
    'Host: %s names this machine',
    (host) => expect(isPublicRequest(auto, withHost(host))).toBe(true),
  );

  test.each([
    'example.org',
    '127.0.0.1.example.org',
    'localhost.example.org:8080',
    'xlocalhost',
    'localhost.',
    '127.1',
    '0x7f.0.0.1',
    '2130706433',
    '0.0.0.0:8080',
    '[::]:8080',
    '[::1].example.org',
    '::1',
    'example.org@127.0.0.1',
    'localhost:8080, example.org',
    'localhost:',
    'localhost:123456',
    '',
  ])('Host: %j does not, as after DNS rebinding', (host) => {
    expect(isPublicRequest(auto, withHost(host))).toBe(false);
  });

  test.each([
    'forwarded',
    'via',
    'x-forwarded-for',
    'x-forwarded-host',
    'x-forwarded-proto',
    'x-forwarded',
    'x-forwarded-anything',
    'x-real-ip',
    'cf-connecting-ip',
    'true-client-ip',
  ])('a request with %s came through a proxy', (name) => {
    expect(isPublicRequest(auto, withHeaders({ [name]: '127.0.0.1' }))).toBe(false);
    expect(isPublicRequest(auto, withHeaders({ [name]: '' }))).toBe(false);
  });

  test('HTTP/1.0, as a proxy speaks that is configured with an address alone, is not open', () => {
    expect(isPublicRequest(auto, { ...local, httpVersion: '1.0' })).toBe(false);
  });

  test.each(['192.168.1.5', '::ffff:192.168.1.5', '2001:db8::1', '', undefined])(
    'nor is a connection from %s',
    (remoteAddress) => {
      expect(isPublicRequest(auto, { ...local, remoteAddress })).toBe(false);
    },
  );

  test('scripts of other sites and of other ports are refused, and links are followed', () => {
    const fetched = (site: string, mode: string, destination = 'empty') =>
      isPublicRequest(
        auto,
        withHeaders({ 'sec-fetch-site': site, 'sec-fetch-mode': mode, 'sec-fetch-dest': destination }),
      );
    expect(fetched('same-origin', 'cors')).toBe(true);
    expect(fetched('none', 'navigate', 'document')).toBe(true);
    expect(fetched('cross-site', 'navigate', 'document')).toBe(true);
    expect(fetched('cross-site', 'navigate', 'iframe')).toBe(false);
    for (const site of ['cross-site', 'same-site', 'anything'])
      for (const mode of ['cors', 'no-cors']) expect(fetched(site, mode)).toBe(false);
    expect(isPublicRequest(auto, withHeaders({ origin: 'http://127.0.0.1:8080' }))).toBe(true);
    for (const origin of ['http://127.0.0.1:3000', 'https://example.org', 'null'])
      expect(isPublicRequest(auto, withHeaders({ origin }))).toBe(false);
  });

  test('no host name but those of this machine is accepted', () => {
    fc.assert(
      fc.property(fc.domain(), fc.nat(65_535), (name, port) => !isPublicRequest(auto, withHost(`${name}:${port}`))),
    );
  });
});

test('true opens the catalogue to everyone, and false to nobody', () => {
  const remote: RequestOrigin = {
    remoteAddress: '203.0.113.7',
    httpVersion: '1.1',
    headers: { host: 'example.org', 'x-forwarded-for': '203.0.113.9' },
  };
  expect(isPublicRequest({ publicCatalogue: true, host: '0.0.0.0' }, remote)).toBe(true);
  expect(isPublicRequest({ publicCatalogue: false, host: '127.0.0.1' }, local)).toBe(false);
});

describe('a service that is open on this machine', () => {
  const service = sharedServing({ set: ['service.public_catalogue=auto'] });
  const get = (path: string, headers: readonly string[] = [], method = 'GET') =>
    rawAnswer(
      service().url,
      `${[`${method} ${path} HTTP/1.1`, ...(headers.some((one) => /^host:/i.test(one)) ? [] : [`Host: ${new URL(service().url).host}`]), ...headers, 'Connection: close'].join('\r\n')}\r\n\r\n`,
    );

  /** The routes that the page reads, and no others. */
  const open = [
    '/api/v1/export',
    '/api/v1/export?since=0',
    '/api/v1/symbols',
    '/api/v1/historical/markets',
    '/api/v1/historical/ticks',
    '/api/v1/historical/candles?interval=1h',
    '/api/v1/historical/coverage',
    '/api/v1/historical/orderbooks',
    '/api/v1/historical/quotes',
    '/api/v1/historical/trades',
  ];

  test('opens exactly the reads of the catalogue, and only for GET and HEAD', async () => {
    const { paths } = JSON.parse((await get('/api/v1/openapi.json')).body) as {
      paths: Record<string, Record<string, { security?: object[] }>>;
    };
    const opened: string[] = [];
    for (const [path, operations] of Object.entries(paths)) {
      for (const [method, { security = [] }] of Object.entries(operations)) {
        // Routes that never ask for a credential, or respond with less without one.
        if (security.length === 0 || security.some((one) => Object.keys(one).length === 0)) continue;
        const { status } = await get(path.replaceAll(/\{\w+\}/g, 'x'), [], method.toUpperCase());
        if (status !== 401) opened.push(`${method.toUpperCase()} ${path}`);
      }
    }
    const expected = [
      'GET /api/v1/orderbook',
      'GET /api/v1/ticks',
      'GET /api/v1/historical/conflicts',
      ...new Set(open.map((path) => `GET ${path.split('?')[0]}`)),
      'GET /api/v1/export/files/{dataset}/{date}/{part}',
      'GET /api/v1/export/files/symbols/{part}',
    ];
    expect(opened.sort()).toEqual(expected.sort());
    for (const path of open) {
      expect([path, (await get(path)).status]).toEqual([path, 200]);
      for (const method of ['POST', 'PUT', 'DELETE', 'PATCH'])
        expect([401, 405]).toContain((await get(path, ['Content-Length: 0'], method)).status);
    }
  });

  test.each([
    ['a forged Host', ['Host: example.org']],
    ['a Host that contains the address', ['Host: 127.0.0.1.example.org']],
    ['X-Forwarded-For', ['X-Forwarded-For: 127.0.0.1']],
    ['X-Forwarded-Host', ['X-Forwarded-Host: localhost']],
    ['Forwarded', ['Forwarded: for=127.0.0.1']],
    ['an empty Via', ['Via: ']],
    ['X-Real-IP', ['X-REAL-IP: 127.0.0.1']],
    ['another site', ['Sec-Fetch-Site: cross-site', 'Sec-Fetch-Mode: no-cors']],
  ])('asks for a key with %s', async (_, headers) => {
    for (const path of open) expect([path, (await get(path, headers)).status]).toEqual([path, 401]);
    // The page follows the same decision.
    if (!headers[0]!.startsWith('Sec-')) expect((await get('/', headers)).body).toContain('data-access="key"');
  });

  test('a file without a key is of named symbols, or of at most one day', async () => {
    const file = (query: string) => fetch(`${service().url}/api/v1/historical/ticks?format=csv${query}`);
    expect((await file('')).status).toBe(401);
    expect((await file('&from=0&to=86400001')).status).toBe(401);
    expect((await file('&from=0&to=86400000')).status).toBe(200);
    expect((await file('&symbol=UNKNOWN')).status).toBe(404);
  });

  test('an invalid credential is refused, and not taken for none', async () => {
    for (const credential of ['Bearer wrong', 'Bearer', 'Basic eDp4', 'Bearer ols_x'])
      expect([credential, (await get('/api/v1/export', [`Authorization: ${credential}`])).status]).toEqual([
        credential,
        401,
      ]);
  });

  test('serves the page as open', async () => {
    expect((await get('/')).body).toContain('data-access="public"');
  });
});

test('requests without a key have a rate limit of their own, counted by address', async () => {
  const clock = steppedClock(now);
  const set = ['service.public_catalogue=true', 'service.requests_per_minute=3'];
  const { url, ask } = await serving(opened(), { clock, set });
  const anonymous = (address: string) =>
    fetch(`${url}/api/v1/export`, { headers: { 'x-forwarded-for': address } }).then(({ status, headers }) => ({
      status,
      reported: headers.get('ratelimit'),
    }));
  for (const left of [2, 1, 0])
    expect(await anonymous('203.0.113.1')).toEqual({ status: 200, reported: `"address";r=${left};t=60` });
  expect((await anonymous('203.0.113.1')).status).toBe(429);
  expect((await anonymous('203.0.113.2')).status).toBe(200);
  expect((await ask('/api/v1/export')).status).toBe(200);
  clock.forward(60_000);
  expect((await anonymous('203.0.113.1')).status).toBe(200);
});
