import type http from 'node:http';
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { UsageError } from '../../src/base/errors.ts';
import { apiKey, failure, open, sendJson, serve, subject, ticksBody, ticksQuery } from './loopback.ts';

const page = ticksBody();

test.each([401, 403])('ends all requests immediately after %i', async (status) => {
  // The first one is answered when the maximum is in flight, the others never.
  await using server = await serve((_, response, index) => {
    if (index === 0) first = response;
    if (index === 2) first!.writeHead(status).end();
  });
  let first: http.ServerResponse | undefined;
  await using upstream = open(server.url, { concurrency: 3 });
  const waiting = Array.from({ length: 20 }, () => failure(upstream.ticks(ticksQuery)));
  const [refused, ...others] = await Promise.all(waiting);
  expect(refused!.message).toBe(`${subject}: HTTP ${status}`);
  expect(refused).toMatchObject({ failure: 'credential', status });
  for (const other of others) expect(other).toMatchObject({ failure: 'credential', status });
  const later = await failure(upstream.markets({}));
  expect(later.message).toBe(`markets: given up: the service rejected this key (HTTP ${status})`);
  expect(server.requests).toHaveLength(3);
});

test('follows no redirect and reports its target', async () => {
  await using elsewhere = await serve((_, response) => sendJson(response, page));
  await using server = await serve((_, response) => response.writeHead(302, { location: `${elsewhere.url}/x` }).end());
  await using upstream = open(server.url);
  const error = await failure(upstream.ticks(ticksQuery));
  expect(error.message).toBe(`${subject}: HTTP 302, a redirect to "${elsewhere.url}/x", which is not followed`);
  expect(error).toMatchObject({ failure: 'refused', status: 302 });
  expect(server.requests).toHaveLength(1);
  expect(elsewhere.requests).toHaveLength(0);
});

test('shows the key in no error and no log, even if the service echoes it', async () => {
  const logged: unknown[] = [];
  const keep = (...line: unknown[]) => void logged.push(line);
  await using server = await serve((request, response, index) => {
    const echo = request.headers.authorization!;
    if (index === 0) response.writeHead(429, { 'retry-after': '0' }).end(echo);
    else if (index === 1) sendJson(response, `${echo} is no JSON`);
    else if (index === 2) sendJson(response, JSON.stringify({ symbol: echo, ticks: [] }));
    else if (index === 3) request.socket.end(`HTTP/1.1 ${echo}\r\n\r\n`);
    else response.writeHead(307, { location: `/login?was=${apiKey}` }).end();
  });
  await using upstream = open(server.url, {}, { log: { debug: keep, info: keep, warn: keep } });
  const error = await failure(upstream.ticks(ticksQuery));
  expect(error.message).toContain('a redirect to "/login", which');
  expect(logged).toHaveLength(5);
  expect(inspect({ error, logged, stack: error.stack }, { depth: 20 })).not.toContain(apiKey);
});

test.each(['', 'two words', 'line\nbreak', 'späti'])('rejects the key %j without showing it', (key) => {
  const opening = () => open('http://localhost', { apiKey: key });
  expect(opening).toThrow(UsageError);
  if (key !== '') expect(opening).not.toThrow(key);
});

test.each(['ftp://example.org', 'example.org', 'http://user:pass@example.org', 'https://example.org/?a=1'])(
  'rejects the base URL %s',
  (baseUrl) => {
    expect(() => open(baseUrl)).toThrow(UsageError);
  },
);

test('throws the reason of the signal immediately in any state', async () => {
  await using server = await serve((_, response, index) => {
    if (index > 0) response.writeHead(503, { 'retry-after': '86400' }).end();
  });
  const stop = new AbortController();
  const ignore = () => {};
  // Only the signal ends any of these within a day.
  const limits = { retryAfterMsMax: 2 * 86_400_000, requestDeadlineMs: 86_400_000 };
  const log = { debug: ignore, info: ignore, warn: () => setImmediate(() => stop.abort(reason)) };
  await using upstream = open(server.url, { concurrency: 2, ...limits }, { log });
  // One waits for headers, one is paused after its response, the others wait in the queue.
  const waiting = Array.from({ length: 30 }, () => failure(upstream.ticks(ticksQuery, stop.signal)));
  const reason = new Error('enough');
  expect(new Set(await Promise.all(waiting))).toEqual(new Set([reason]));
  expect(await failure(upstream.ticks(ticksQuery, stop.signal))).toBe(reason);
  expect(server.requests).toHaveLength(2);
});

test('ends running requests when it is closed', async () => {
  await using server = await serve(() => void upstream.close());
  const upstream = open(server.url);
  const waiting = failure(upstream.ticks(ticksQuery));
  expect((await waiting).message).toBe(`${subject}: the client was closed`);
  expect((await failure(upstream.ticks(ticksQuery))).message).toBe(`${subject}: the client was closed`);
});

test('reports its counters after each attempt', async () => {
  const seen: number[] = [];
  await using server = await serve((_, response, index) => {
    if (index === 0) response.writeHead(500).end();
    else sendJson(response, page);
  });
  await using upstream = open(server.url, {}, { onCounters: ({ requests }) => seen.push(requests) });
  await upstream.ticks(ticksQuery);
  expect(seen).toEqual([1, 2]);
});
