import { expect, test } from 'vitest';
import { systemClock } from '../../src/base/system.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import type { SandboxStats } from '../../src/sandbox/stats.ts';
import { createVirtualClock } from '../client/virtual-clock.ts';
import { limitMs, waitFor as untilSeen } from '../harness/limits.ts';
import { fetchMarkets, fetchPage, findBusiest, noon, openSandbox, sendRequest } from './sandbox-requests.ts';

test('requires the key, and rejects it once it is revoked or forbidden', async () => {
  const box = await openSandbox({ key: 'k1' });
  const refused = await fetch(`${box.url}/api/v1/markets`);
  expect(refused.status).toBe(401);
  expect(refused.headers.get('content-type')).toBe('application/problem+json');
  expect(await refused.json()).toMatchObject({ type: 'about:blank', title: 'Unauthorized', status: 401 });
  expect((await sendRequest(box, 'markets', {}, 'k1')).status).toBe(200);
  expect((await sendRequest(box, 'markets', {}, 'other')).status).toBe(401);
  box.set({ forbidden: true });
  expect((await sendRequest(box, 'markets', {}, 'k1')).status).toBe(403);
  box.set({ forbidden: false, key: 'k2' });
  expect((await sendRequest(box, 'markets', {}, 'k1')).status).toBe(401);
});

test('answers malformed requests with a problem and keeps running', async () => {
  const box = await openSandbox();
  const { symbol } = findBusiest(box);
  const cases: [string, Record<string, string | number>, number][] = [
    ['ticks', {}, 400],
    ['ticks', { symbol: '' }, 400],
    ['ticks', { symbol: 'no such' }, 404],
    ['ticks', { symbol: '__proto__' }, 404],
    ['ticks', { symbol, from: 'x' }, 400],
    ['ticks', { symbol, from: -1 }, 400],
    ['ticks', { symbol, from: '1e9' }, 400],
    ['ticks', { symbol, from: 5, to: 4 }, 400],
    ['ticks', { symbol, limit: 0 }, 400],
    ['ticks', { symbol, limit: '9'.repeat(40) }, 400],
    ['markets', { view: 'x' }, 400],
    ['markets', { limit: '%' }, 400],
    ['orderbook', {}, 400],
    ['nothing', {}, 404],
    ['ticks', { symbol, from: 0, to: '999999999999999' }, 200],
  ];
  for (const [resource, query, status] of cases) {
    const response = await sendRequest(box, resource, query);
    expect([resource, query, response.status]).toEqual([resource, query, status]);
    expect(response.headers.get('content-type')).toBe(status === 200 ? 'application/json' : 'application/problem+json');
    await response.arrayBuffer();
  }
  expect((await fetch(`${box.url}/api/v1/ticks?symbol=%E0%A4%A&&=&from`)).status).toBe(401);
  expect((await fetch(`${box.url}//`, { method: 'POST', body: 'x' })).status).toBe(404);
});

test('limits the rate per second and sends Retry-After', async () => {
  let monotonicMs = 0;
  const clock = { ...systemClock, monotonicMs: () => monotonicMs };
  const box = await openSandbox({ requestsPerSecond: 5 }, { clock });
  const responses = await Promise.all(Array.from({ length: 12 }, () => sendRequest(box, 'markets', { limit: 1 })));
  const refused = responses.filter(({ status }) => status === 429);
  expect(refused.length).toBe(7);
  expect(refused.every(({ headers }) => headers.get('retry-after') === '1')).toBe(true);
  expect(box.stats()).toMatchObject({ requests: 12, perSecondMax: 12, earlyRequests: 0 });
  monotonicMs = 100;
  expect((await sendRequest(box, 'markets', { limit: 1 })).status).toBe(429);
  expect(box.stats().earlyRequests).toBe(1);
  monotonicMs = 1_150;
  expect((await sendRequest(box, 'markets', { limit: 1 })).status).toBe(200);
  expect(box.stats()).toMatchObject({
    earlyRequests: 1,
    perSecondMax: 13,
    byPath: { '/api/v1/markets': { 200: 6, 429: 8 } },
  });
});

test('sends Retry-After as a date or not at all', async () => {
  const clock = { ...systemClock, nowMs: () => noon, monotonicMs: () => 0 };
  const box = await openSandbox({ requestsPerSecond: 0.2, retryAfter: 'date' }, { clock });
  await sendRequest(box, 'markets');
  const until = Date.parse((await sendRequest(box, 'markets')).headers.get('retry-after')!);
  expect(until - noon).toBe(5_000);
  box.set({ retryAfter: 'none' });
  const refused = await sendRequest(box, 'markets');
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, null]);
});

test('delays each response by the latency and counts concurrent requests', async () => {
  const clock = createVirtualClock();
  const box = await openSandbox({ latencyMs: 80 }, { clock });
  let responses = 0;
  const requests = [1, 2, 3].map(() => fetchMarkets(box).then(() => responses++));
  await untilSeen(() => box.stats().inFlightMax === 3, 'three requests at once');
  await clock.pass(79);
  expect([responses, box.stats().byPath]).toEqual([0, {}]);
  await clock.pass(1);
  await Promise.all(requests);
  expect(box.stats().inFlightMax).toBe(3);
});

test('counts requests and ticks', async () => {
  const box = await openSandbox({}, { clock: { ...systemClock, monotonicMs: () => 0 } });
  const { symbol, from, to } = findBusiest(box);
  const one = await fetchPage(box, { symbol, from, to, limit: 10 });
  const two = await fetchPage(box, { symbol, from, to, limit: 20 });
  await fetchMarkets(box);
  await sendRequest(box, 'ticks', { symbol: 'none' });
  await sendRequest(box, 'ticks', {}, 'bad key');
  await sendRequest(box, 'orderbook', { symbol });
  await fetch(`${box.url}/elsewhere`);
  const stats = (await (await fetch(`${box.url}/sandbox/stats`)).json()) as SandboxStats;
  expect(stats).toEqual(box.stats());
  expect(stats).toEqual({
    requests: 7,
    byPath: {
      '/api/v1/ticks': { 200: 2, 404: 1, 401: 1 },
      '/api/v1/markets': { 200: 1 },
      '/api/v1/orderbook': { 200: 1 },
      other: { 404: 1 },
    },
    tickRequests: 4,
    tickRows: one.count + two.count,
    perSecondMax: 7,
    earlyRequests: 0,
    inFlightMax: 1,
    faults: {},
    bySymbol: { [symbol]: 3 },
  });
});

test('rejects invalid options at the start and at run time', async () => {
  const start = (options: object) => startSandbox(options, { clock: systemClock });
  await expect(start({ cap: 0 })).rejects.toThrow('cap is 0, expected a whole number from 1 to 1000000');
  await expect(start({ faults: ['flood'] })).rejects.toThrow('expected a list of 429-seconds');
  await expect(start({ colour: 1 })).rejects.toThrow('unknown option colour');
  const box = await openSandbox();
  expect(() => box.set({ truncate: 'middle' as 'latest' })).toThrow('expected one of earliest, latest');
  expect(() => box.set({ seed: 2 } as object)).toThrow('seed cannot change while it runs');
  expect(() => box.readTruth('none', { from: 0, to: 1 })).toThrow('unknown symbol none');
});

test('stops immediately, even during a response', async () => {
  // Only stopping the sandbox ends this response.
  const box = await openSandbox({ latencyMs: 2 * limitMs });
  const requests = sendRequest(box, 'markets').catch((error: Error) => error);
  await untilSeen(() => box.stats().requests === 1, 'the request');
  await box.stop();
  await box.stop();
  expect(await requests).toBeInstanceOf(Error);
});
