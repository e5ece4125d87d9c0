import type http from 'node:http';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { limitMs, waitFor } from '../harness/limits.ts';
import {
  failure,
  open,
  openTransportWithHeadHook,
  sendJson,
  serve,
  serveRaw,
  ticksBody,
  ticksQuery,
} from './loopback.ts';
import { createVirtualClock } from './virtual-clock.ts';

const page = ticksBody();

test('sends the documented request, with the key as bearer token', async () => {
  await using server = await serve((_, response) => sendJson(response, ticksBody('A B+C/ü?')));
  await using upstream = open(`${server.url}/data/v2/`);
  await upstream.ticks({ ...ticksQuery, symbol: 'A B+C/ü?' });
  const request = server.requests[0]!;
  expect(request.method).toBe('GET');
  expect(request.url).toBe(
    '/data/v2/api/v1/ticks?symbol=A%20B%2BC%2F%C3%BC%3F&from=1700000000000&to=1700003600000&limit=1000',
  );
  expect(request.headers).toMatchObject({
    authorization: 'Bearer key-that-nobody-may-see',
    'accept-encoding': 'gzip',
    'user-agent': 'oddslake/test',
  });
});

test('returns a tick page as columns', async () => {
  await using server = await serve((_, response) => sendJson(response, page));
  await using upstream = open(server.url);
  const { t, p, ...rest } = await upstream.ticks(ticksQuery);
  expect([...t]).toEqual([1_700_000_000_000, 1_700_000_000_001]);
  expect([...p]).toEqual([0.001, 0.002]);
  expect(rest).toMatchObject({
    from: ticksQuery.from,
    to: ticksQuery.to,
    generatedAt: ticksQuery.to + 5,
    gaps: [],
    rejected: [],
  });
});

test('keeps market records as received', async () => {
  const markets = [{ canonical_id: 'm1', venues: [{ ticker: 'X' }], extra: null }, 'not an object'];
  await using server = await serve((_, response) => sendJson(response, JSON.stringify({ markets, total: 7.5 })));
  await using upstream = open(server.url);
  const answer = await upstream.markets({ source: 'kalshi', limit: 5 });
  expect(answer).toEqual({ markets, total: null, generatedAt: null });
  expect(server.requests[0]!.url).toBe('/api/v1/markets?source=kalshi&limit=5');
});

test('reuses a connection', async () => {
  await using server = await serve((_, response) => sendJson(response, page));
  await using upstream = open(server.url, { concurrency: 1 });
  for (let i = 0; i < 5; i++) await upstream.ticks(ticksQuery);
  expect(new Set(server.requests.map((request) => request.socket.remotePort)).size).toBe(1);
});

test.each([
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['deflate', deflateSync],
  ['deflate', deflateRawSync],
  ['br', brotliCompressSync],
  ['zstd', zstdCompressSync],
  ['identity', (body: string) => Buffer.from(body)],
  ['deflate, gzip', (body: string) => gzipSync(deflateSync(body))],
])('decodes %s', async (coding, compress) => {
  await using server = await serve((_, response) => {
    sendJson(response, compress(page), { 'content-encoding': coding });
  });
  await using upstream = open(server.url);
  expect((await upstream.ticks(ticksQuery)).received).toBe(2);
});

test.each([
  ['a truncated gzip body', gzipSync(page).subarray(0, 40), 'gzip', 'a broken gzip body'],
  ['an unknown coding', Buffer.from(page), 'constructor', 'an unknown content coding'],
  ['too many codings', Buffer.from(page), 'gzip, gzip, gzip', 'more than two content codings'],
])('treats %s as an unreadable response', async (_, body, coding, reason) => {
  await using server = await serve((_request, response) => sendJson(response, body, { 'content-encoding': coding }));
  await using upstream = open(server.url, { retryAttemptsMax: 1 });
  expect((await failure(upstream.ticks(ticksQuery))).message).toContain(`HTTP 200 with ${reason}`);
});

test('stops a gzip bomb at the limit', async () => {
  const bomb = gzipSync(Buffer.alloc(50_000_000, ' '));
  await using server = await serve((_, response) => sendJson(response, bomb, { 'content-encoding': 'gzip' }));
  await using upstream = open(server.url, { retryAttemptsMax: 2, responseBytesMax: 1_000_000 });
  expect((await failure(upstream.ticks(ticksQuery))).message).toContain(
    'HTTP 200 with more than 1000000 bytes, 2 attempts',
  );
});

test('stops an endless body at the limit', async () => {
  let written = 0;
  await using server = await serveRaw((socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"ticks":[');
    const chunk = '{"t":1,"p":0},'.repeat(1000);
    const more = () => {
      while (!socket.destroyed && socket.write(chunk)) written += chunk.length;
    };
    socket.on('drain', more);
    more();
  });
  await using upstream = open(server.url, { retryAttemptsMax: 1, responseBytesMax: 300_000 });
  expect((await failure(upstream.ticks(ticksQuery))).message).toContain('HTTP 200 with more than 300000 bytes');
  expect(written).toBeLessThan(20_000_000);
});

test('has one deadline for headers and body together', async () => {
  const clock = createVirtualClock();
  const responses: http.ServerResponse[] = [];
  let [heads, tries] = [0, 0];
  await using server = await serve((_, response) => {
    responses.push(response);
    response.write(' ');
  });
  const deps = {
    clock,
    random: () => 1,
    openTransport: openTransportWithHeadHook(() => heads++),
    onCounters: () => tries++,
  };
  await using upstream = open(server.url, { retryAttemptsMax: 2, requestDeadlineMs: 250 }, deps);
  let error: Error | undefined;
  const failed = failure(upstream.ticks(ticksQuery)).then((one) => {
    error = one;
  });
  for (const attempt of [1, 2]) {
    await waitFor(() => heads === attempt, `the head of answer ${attempt}`);
    // A body that continues does not move the deadline.
    for (const ms of [100, 100, 49]) {
      responses.at(-1)!.write(' ');
      await clock.pass(ms);
    }
    expect([error, responses.at(-1)!.destroyed]).toEqual([undefined, false]);
    await clock.pass(1);
    await waitFor(() => tries === attempt, `the end of try ${attempt}`);
    // Before the retry.
    if (attempt === 1) await clock.pass(2);
  }
  await failed;
  expect(error!.message).toContain('no complete response within 0.25 s, 2 attempts');
  expect(error).toMatchObject({ failure: 'transient' });
  expect(clock.monotonicMs()).toBe(250 + 2 + 250);
});

test('frees its slot if an error has an endless body', async () => {
  await using server = await serveRaw((socket, index) => {
    if (index > 0) socket.end(`HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n${page}`);
    else socket.write('HTTP/1.1 500 Oops\r\n\r\nwait for it');
  });
  const clock = createVirtualClock();
  let [heads, tries] = [0, 0];
  const deps = { clock, openTransport: openTransportWithHeadHook(() => heads++), onCounters: () => tries++ };
  await using upstream = open(server.url, { concurrency: 1, requestDeadlineMs: limitMs }, deps);
  const answer = upstream.ticks(ticksQuery);
  await waitFor(() => heads === 1, 'the head of the error');
  // The body is read for its error text until the deadline.
  await clock.pass(limitMs);
  await waitFor(() => tries === 1, 'the end of the first try');
  // Before the retry.
  await clock.pass(5);
  expect((await answer).received).toBe(2);
  expect(upstream.counters().requests).toBe(2);
});
