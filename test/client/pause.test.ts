import type http from 'node:http';
import { expect, test } from 'vitest';
import { parseRetryAfterMs } from '../../src/client/classify-error.ts';
import { computeBackoffMs, createRetryBudget } from '../../src/client/request.ts';
import { failure, open, sendJson, serve, subject, ticksBody, ticksQuery } from './loopback.ts';
import { createLeapingClock } from './virtual-clock.ts';

const page = ticksBody();

/**
 * Serves the third request with `headers`. Records the times of that response, of the client's pause and of the arrivals
 * after it, by a clock on which waiting takes no time.
 */
async function serveOnePause(status: number, headers: (nowMs: number) => http.OutgoingHttpHeaders, body = '') {
  const clock = createLeapingClock();
  const seen = { answeredAt: Number.NaN, pausedAt: Number.NaN, later: [] as number[] };
  const server = await serve((_, response, index) => {
    if (index === 2) {
      response.sendDate = false;
      response.writeHead(status, headers(clock.nowMs())).end(body);
      seen.answeredAt = clock.monotonicMs();
      return;
    }
    if (!Number.isNaN(seen.pausedAt)) seen.later.push(clock.monotonicMs());
    sendJson(response, page);
  });
  const pause = () => {
    seen.pausedAt = clock.monotonicMs();
  };
  return { server, seen, deps: { clock, log: { debug() {}, info: pause, warn: pause } } };
}

test.each<[string, number, (nowMs: number) => http.OutgoingHttpHeaders]>([
  ['seconds', 429, () => ({ 'retry-after': '1' })],
  ['seconds on 503', 503, () => ({ 'retry-after': '1' })],
  ['a date', 429, (now) => ({ 'retry-after': new Date(Math.ceil(now / 1000) * 1000 + 1000).toUTCString() })],
  [
    "a date by the server's own clock, which is years behind",
    503,
    () => ({ date: 'Mon, 03 Feb 2003 09:00:00 GMT', 'retry-after': 'Mon, 03 Feb 2003 09:00:01 GMT' }),
  ],
])('pauses all requests with the key until Retry-After has passed: %s', async (_, status, headers) => {
  const { server, seen, deps } = await serveOnePause(status, headers);
  await using _server = server;
  await using upstream = open(server.url, { requestsPerSecond: 50, concurrency: 2 }, deps);
  await Promise.all(Array.from({ length: 10 }, () => upstream.ticks(ticksQuery)));
  const pauses = seen.later.map((at) => at - seen.answeredAt);
  const paused = pauses.filter((pause) => pause >= 1000);
  // The other slot's request may be in flight at that time, and still arrives.
  expect(pauses.length - paused.length).toBeLessThanOrEqual(1);
  expect(Math.min(...paused)).toBeLessThan(2300);
  expect(server.requests).toHaveLength(11);
  expect(seen.later.length).toBeGreaterThanOrEqual(7);
  // A date is at least a second after the response was written, and some milliseconds less after it was read.
  expect(upstream.counters().throttledMs).toBeGreaterThanOrEqual(1000);
});

test('backs off after a 429 without Retry-After', async () => {
  const { server, seen, deps } = await serveOnePause(429, () => ({}));
  await using _server = server;
  const options = { retryDelayMsMin: 150, retryDelayMsMax: 200, requestsPerSecond: 50, concurrency: 4 };
  await using upstream = open(server.url, options, deps);
  await Promise.all(Array.from({ length: 10 }, () => upstream.ticks(ticksQuery)));
  const pauses = seen.later.map((at) => at - seen.pausedAt);
  // Requests in flight at that time still arrive.
  expect(pauses.filter((pause) => pause < 150).length).toBeLessThanOrEqual(3);
  expect(pauses.filter((pause) => pause >= 150).length).toBeGreaterThanOrEqual(5);
});

test('fails instead of waiting too long, and sends nothing meanwhile', async () => {
  await using server = await serve((_, response) => response.writeHead(429, { 'retry-after': '86400' }).end());
  await using upstream = open(server.url);
  const reason = 'the service requested a pause of 86400 s, which exceeds the maximum';
  const first = await failure(upstream.ticks(ticksQuery));
  expect(first.message).toBe(`${subject}: HTTP 429; ${reason}`);
  expect(first).toMatchObject({ failure: 'transient', status: 429 });
  const second = await failure(upstream.ticks(ticksQuery));
  expect(second.message).toBe(`${subject}: ${reason}`);
  expect(second).toMatchObject({ failure: 'transient' });
  expect(server.requests).toHaveLength(1);
});

const now = Date.UTC(2026, 10, 19, 12);

test.each([
  ['0', undefined, 0],
  ['120', undefined, 120_000],
  [' 1.0001 ', undefined, 1001],
  ['Thu, 19 Nov 2026 12:00:30 GMT', undefined, 30_000],
  ['Thu, 19 Nov 2026 11:00:00 GMT', undefined, 0],
  ['Thu, 19 Nov 2026 12:00:30 GMT', 'Thu, 19 Nov 2026 12:00:10 GMT', 20_000],
  ['Thu, 19 Nov 2026 12:00:30 GMT', 'rubbish', 30_000],
  ['Thursday, 19-Nov-26 12:00:05 GMT', undefined, 5000],
  ['Thu Nov 19 12:00:05 2026', undefined, 5000],
])('parses Retry-After %j with Date %j as %i ms', (value, date, ms) => {
  expect(parseRetryAfterMs(value, date, now)).toBe(ms);
});

test.each([undefined, '', '-1', 'soon', '1e3', 'Thu, 99 Nov 2026 12:00:30 GMT', '2026-11-19T12:00:30Z'])(
  'ignores Retry-After %j',
  (value) => {
    expect(parseRetryAfterMs(value, undefined, now)).toBeUndefined();
  },
);

test('draws the backoff below a bound that doubles up to its maximum', () => {
  expect([0, 1, 2, 3, 50].map((attempt) => computeBackoffMs(attempt, 500, 3000, () => 0.5))).toEqual([
    250, 500, 1000, 1500, 1500,
  ]);
  expect(computeBackoffMs(3, 500, 3000, () => 0)).toBe(0);
});

test('returns half a retry for a success, up to the initial budget', () => {
  const budget = createRetryBudget(2, 0.5);
  expect([budget.take(), budget.take(), budget.take()]).toEqual([true, true, false]);
  budget.noteSuccess();
  expect(budget.take()).toBe(false);
  for (let i = 0; i < 50; i++) budget.noteSuccess();
  expect([budget.take(), budget.take(), budget.take()]).toEqual([true, true, false]);
});

test.each<[string, () => http.OutgoingHttpHeaders]>([
  ['the draft', () => ({ ratelimit: '"default";r=0;t=1' })],
  ['the older form', () => ({ 'ratelimit-limit': '3', 'ratelimit-remaining': '0', 'ratelimit-reset': '1' })],
  ['X-', () => ({ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '1' })],
])('sends nothing after the last allowed request until the reset: %s', async (_, headers) => {
  const { server, seen, deps } = await serveOnePause(200, headers, page);
  await using _server = server;
  await using upstream = open(server.url, { requestsPerSecond: 50, concurrency: 2 }, deps);
  await Promise.all(Array.from({ length: 6 }, () => upstream.ticks(ticksQuery)));
  const pauses = seen.later.map((at) => at - seen.pausedAt);
  // The other slot's request may be in flight at that time.
  expect(pauses.filter((pause) => pause < 1000).length).toBeLessThanOrEqual(1);
  expect(pauses.filter((pause) => pause >= 1000).length).toBeGreaterThanOrEqual(2);
  expect(upstream.counters()).toMatchObject({ retries: 0, requests: 6 });
});

test('waits for a stated reset at most as long as for Retry-After', async () => {
  await using server = await serve((_, response) => sendJson(response, page, { ratelimit: '"day";r=0;t=86400' }));
  await using upstream = open(server.url, { retryAfterMsMax: 50 }, { clock: createLeapingClock() });
  for (let i = 0; i < 3; i++) await upstream.ticks(ticksQuery);
  expect(server.requests).toHaveLength(3);
  expect(upstream.counters().throttledMs).toBeGreaterThanOrEqual(100);
});

test('applies a policy from the first response on', async () => {
  const arrivals: number[] = [];
  await using server = await serve((_, response) => {
    arrivals.push(clock.monotonicMs());
    sendJson(response, page, { 'ratelimit-policy': '"default";q=20;w=2' });
  });
  const clock = createLeapingClock();
  await using upstream = open(server.url, { requestsPerSecond: 1000, concurrency: 1 }, { clock });
  for (let i = 0; i < 6; i++) await upstream.ticks(ticksQuery);
  // One request per tenth of a second, from the one after the first response on.
  expect(arrivals[5]! - arrivals[1]!).toBeGreaterThanOrEqual(399);
});
