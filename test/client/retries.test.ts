import { expect, test } from 'vitest';
import { UpstreamError } from '../../src/base/errors.ts';
import {
  failure,
  open,
  openTransportWithHeadHook,
  sendJson,
  serve,
  serveRaw,
  subject,
  ticksBody,
  ticksQuery,
} from './loopback.ts';
import { createSeededRandom } from './seeded.ts';

const page = ticksBody();

test.each([408, 425, 429, 500, 502, 503, 504, 599])('retries after %i', async (status) => {
  await using server = await serve((_, response, index) => {
    if (index < 2) response.writeHead(status).end('busy');
    else sendJson(response, page);
  });
  await using upstream = open(server.url);
  expect((await upstream.ticks(ticksQuery)).received).toBe(2);
  expect(upstream.counters()).toMatchObject({ requests: 3, retries: 2, bytes: page.length });
});

test('reports the attempts when they are used up', async () => {
  await using server = await serve((_, response) => response.writeHead(503).end());
  await using upstream = open(server.url);
  const error = await failure(upstream.ticks(ticksQuery));
  expect(error).toBeInstanceOf(UpstreamError);
  expect(error.message).toBe(`${subject}: HTTP 503, 6 attempts`);
  const window = { from: ticksQuery.from, to: ticksQuery.to };
  expect(error).toMatchObject({ failure: 'transient', status: 503, symbol: 'KXBTC', window });
  expect(server.requests).toHaveLength(6);
});

test('reports different reasons with their counts', async () => {
  await using server = await serve((request, response, index) => {
    if (index === 1) request.socket.resetAndDestroy();
    else if (index === 2) sendJson(response, '{"ticks":[');
    else response.writeHead(500).end();
  });
  await using upstream = open(server.url, { retryAttemptsMax: 4 });
  const { message } = await failure(upstream.ticks(ticksQuery));
  expect(message).toBe(
    `${subject}: HTTP 500, 2 attempts; connection reset, 1 attempt; HTTP 200 with broken JSON, 1 attempt`,
  );
});

test('retries after a connection reset, before and during a response', async () => {
  let reset = () => {};
  await using server = await serve((request, response, index) => {
    if (index === 0) return request.socket.resetAndDestroy();
    reset = () => {};
    if (index > 1) return sendJson(response, page);
    reset = () => request.socket.resetAndDestroy();
    response.writeHead(200, { 'content-length': page.length }).write(page.slice(0, 40));
  });
  await using upstream = open(server.url, {}, { openTransport: openTransportWithHeadHook(() => reset()) });
  expect((await upstream.ticks(ticksQuery)).received).toBe(2);
  expect(server.requests).toHaveLength(3);
});

test('retries after a truncated body, with and without a stated length', async () => {
  await using server = await serveRaw((socket, index) => {
    const length = index === 1 ? '' : `content-length: ${page.length}\r\n`;
    const body = index < 2 ? page.slice(0, 50) : page;
    socket.end(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${length}connection: close\r\n\r\n${body}`);
  });
  await using upstream = open(server.url);
  expect((await upstream.ticks(ticksQuery)).received).toBe(2);
  expect(upstream.counters().requests).toBe(3);
});

test('retries after a response that is not HTTP', async () => {
  await using server = await serveRaw((socket) => socket.end('220 smtp.example.org ESMTP\r\n'));
  await using upstream = open(server.url, { retryAttemptsMax: 2 });
  expect((await failure(upstream.ticks(ticksQuery))).message).toBe(`${subject}: invalid HTTP response, 2 attempts`);
});

test.each([
  ['HTML with a good status', '<!doctype html><p>Please wait', 'text/html', 'HTML instead of JSON'],
  ['HTML that claims to be JSON', '\n <html></html>', 'application/json', 'HTML instead of JSON'],
  ['an empty body', '', 'application/json', 'an empty body'],
  ['an array', '[]', 'application/json', 'JSON that is not an object'],
  ['no ticks', '{"symbol":"KXBTC"}', 'application/json', 'no ticks array'],
  ['another symbol', ticksBody('KXETH'), 'application/json', 'ticks of another symbol, "KXETH"'],
  ['a wrong count', '{"ticks":[],"count":3}', 'application/json', 'a count of 3 over 0 ticks'],
])('treats %s as an unreadable response', async (_, body, type, reason) => {
  await using server = await serve((_request, response, index) => {
    if (index < 3) sendJson(response, body, { 'content-type': type });
    else sendJson(response, page);
  });
  await using hasty = open(server.url, { retryAttemptsMax: 2 });
  const error = await failure(hasty.ticks(ticksQuery));
  expect(error.message).toBe(`${subject}: HTTP 200 with ${reason}, 2 attempts`);
  expect(error).toMatchObject({ failure: 'transient', status: 200 });
  await using patient = open(server.url);
  expect((await patient.ticks(ticksQuery)).received).toBe(2);
});

test('accepts JSON with any content type', async () => {
  await using server = await serve((_, response) => sendJson(response, page, { 'content-type': 'text/html' }));
  await using upstream = open(server.url);
  expect((await upstream.ticks(ticksQuery)).received).toBe(2);
});

test('gets every page in spite of 40 % faults', async () => {
  const random = createSeededRandom(7);
  await using server = await serve((request, response) => {
    const dice = random();
    if (dice < 0.1) response.writeHead(503).end();
    else if (dice < 0.2) request.socket.resetAndDestroy();
    else if (dice < 0.3) sendJson(response, page.slice(0, 60));
    else if (dice < 0.4) sendJson(response, '<html>', { 'content-type': 'text/html' });
    else sendJson(response, page);
  });
  await using upstream = open(server.url, { retryAttemptsMax: 12, concurrency: 8 });
  const pages = await Promise.all(Array.from({ length: 60 }, () => upstream.ticks(ticksQuery)));
  expect(pages.every((each) => each.received === 2)).toBe(true);
});

test('stops retrying when the shared budget is empty', async () => {
  await using server = await serve((_, response) => response.writeHead(500).end());
  await using upstream = open(server.url, { retryBudget: 3 });
  expect((await failure(upstream.ticks(ticksQuery))).message).toBe(
    `${subject}: HTTP 500, 4 attempts; retry budget exhausted`,
  );
  expect((await failure(upstream.ticks(ticksQuery))).message).toBe(`${subject}: HTTP 500; retry budget exhausted`);
  expect(server.requests).toHaveLength(5);
});

test.each([400, 404, 405, 410, 422])('does not retry after %i', async (status) => {
  await using server = await serve((_, response) => response.writeHead(status).end());
  await using upstream = open(server.url);
  const error = await failure(upstream.markets({ view: 'matched' }));
  expect(error.message).toBe(`markets of view matched: HTTP ${status}`);
  expect(error).toMatchObject({ failure: 'refused', status });
  expect(server.requests).toHaveLength(1);
});

test('reports a closed port and an unknown host name as unreachable', async () => {
  const server = await serve(() => {});
  await server[Symbol.asyncDispose]();
  await using closed = open(server.url, { retryAttemptsMax: 2 });
  const refused = await failure(closed.ticks(ticksQuery));
  expect(refused.message).toBe(`${subject}: connection refused, 2 attempts`);
  expect(refused).toMatchObject({ failure: 'unreachable' });
  await using nowhere = open('http://no-such-host.invalid', { retryAttemptsMax: 2 });
  expect(await failure(nowhere.ticks(ticksQuery))).toMatchObject({ failure: 'unreachable' });
});

test('tells https on a port of plain http', async () => {
  await using server = await serve((_, response) => sendJson(response, page));
  await using client = open(server.url.replace('http:', 'https:'), { retryAttemptsMax: 1 });
  const refused = await failure(client.ticks(ticksQuery));
  expect(refused.message).toMatch(/: it answers plain http: use http:\/\/ in its address/);
  expect(refused).toMatchObject({ failure: 'unreachable' });
});
