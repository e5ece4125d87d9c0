import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { apiKey, failure, open, sendJson, serve } from './loopback.ts';

type Body = string | Buffer;

/** The error of a request that gets these responses in turn, and then the last one again. */
async function reasonOf(
  responses: readonly (readonly [status: number, body: Body, headers?: Record<string, string>])[],
) {
  await using server = await serve((_, response, index) => {
    const [status, body, headers = {}] = responses[Math.min(index, responses.length - 1)]!;
    response.writeHead(status, headers).end(body);
  });
  await using upstream = open(server.url, { retryAttemptsMax: 3 });
  const error = await failure(upstream.markets({}));
  return error.message.replace('markets: ', '');
}

const json = { 'content-type': 'application/json' };
const problem = { 'content-type': 'application/problem+json; charset=utf-8' };
const plain = { 'content-type': 'text/plain' };

test.each<[string, string, Record<string, string>]>([
  ['the detail of a problem', '{"type":"about:blank","title":"Bad Request","detail":"limit over 1000"}', problem],
  ['a title without detail', '{"title":"limit over 1000","detail":""}', problem],
  ['a message', '{"statusCode":400,"message":"limit over 1000","error":"Bad Request"}', json],
  ['an error', '{"error":"limit over 1000"}', json],
  ['an error within an error', '{"error":{"code":7,"message":"limit over 1000"}}', json],
  ['a list of details', '{"detail":[{"loc":["query","limit"],"msg":"limit over 1000"}]}', json],
  ['JSON without a content type', '{"error":"limit over 1000"}', {}],
  ['text as JSON', '"limit over 1000"', json],
  ['plain text', 'limit over 1000\n', plain],
  ['plain text without a content type', 'limit over 1000', {}],
])('quotes %s', async (_, body, headers) => {
  expect(await reasonOf([[400, body, headers]])).toBe('HTTP 400 ("limit over 1000")');
});

test('quotes a compressed body', async () => {
  const body = gzipSync('{"detail":"limit over 1000"}');
  expect(await reasonOf([[422, body, { ...json, 'content-encoding': 'gzip' }]])).toBe('HTTP 422 ("limit over 1000")');
});

test('quotes why a credential was refused', async () => {
  expect(await reasonOf([[403, '{"detail":"this key has expired"}', problem]])).toBe(
    'HTTP 403 ("this key has expired")',
  );
});

test.each<[string, Body, Record<string, string>]>([
  ['HTML', '<!doctype html><p>no', { 'content-type': 'text/html' }],
  ['HTML that claims to be text', '\n <html><body>no</body></html>', plain],
  ['HTML without a content type', '<p>no</p>', {}],
  ['HTML after some text', 'Sorry: <b>no</b>', plain],
  ['HTML within JSON', '{"message":"<html><body>no"}', json],
  ['XML', '<Error><Message>no</Message></Error>', { 'content-type': 'application/xml' }],
  ['JSON without words', '{"status":400,"detail":7,"error":{}}', json],
  ['broken JSON', '{"detail":"no', json],
  ['text that claims to be JSON', 'no', json],
  ['bytes that are not text', Buffer.from([0x6e, 0xff, 0xfe]), {}],
  ['a long body', JSON.stringify({ detail: 'no', trace: 'x'.repeat(9000) }), json],
  ['a bomb', gzipSync(Buffer.alloc(1_000_000, 'n')), { 'content-encoding': 'gzip', ...plain }],
  ['an empty body', '', json],
  ['only white space', ' \n\t', plain],
])('does not quote %s', async (_, body, headers) => {
  expect(await reasonOf([[400, body, headers]])).toBe('HTTP 400');
});

test('does not quote the body of a redirect', async () => {
  expect(await reasonOf([[302, 'Found', { ...plain, location: '/x' }]])).not.toContain('Found');
});

test('truncates a long text at a whole character', async () => {
  expect(await reasonOf([[400, '🎲'.repeat(200), plain]])).toBe(`HTTP 400 ("${'🎲'.repeat(120)}…")`);
});

test('removes control characters and line breaks', async () => {
  const body = 'a\u001b[31mb\r\nc\u0000\u202ed\u2028e "f"';
  expect(await reasonOf([[400, JSON.stringify({ detail: body }), json]])).toBe('HTTP 400 ("a [31mb c d e \\"f\\"")');
});

test('replaces the key, even if truncation would leave a part of it', async () => {
  expect(await reasonOf([[400, `unknown key ${apiKey}`, plain]])).toBe('HTTP 400 ("unknown key [key]")');
  const reason = await reasonOf([[400, `${'x'.repeat(110)}${apiKey}`, plain]]);
  expect(reason).toBe(`HTTP 400 ("${'x'.repeat(110)}[key]")`);
});

test('quotes one text for several attempts, even if the texts differ', async () => {
  expect(
    await reasonOf([
      [500, 'request 1 failed', plain],
      [502, '<html>', {}],
      [500, 'request 3 failed', plain],
    ]),
  ).toBe('HTTP 500 ("request 3 failed"), 2 attempts; HTTP 502, 1 attempt');
});

test('reuses the connection after an error with a text', async () => {
  await using server = await serve((_, response, index) => {
    if (index === 0) response.writeHead(500, json).end('{"detail":"no"}');
    else sendJson(response, '{"markets":[]}');
  });
  await using upstream = open(server.url, { concurrency: 1 });
  await upstream.markets({});
  expect(new Set(server.requests.map((request) => request.socket.remotePort)).size).toBe(1);
});
