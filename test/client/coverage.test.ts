import { describe, expect, test } from 'vitest';
import { UpstreamError } from '../../src/base/errors.ts';
import { decodeCoveragePage } from '../../src/client/decode.ts';
import { UnreadableResponseError } from '../../src/client/response-body.ts';
import { failure, open, sendJson, serve } from './loopback.ts';

const row = (from: number, to: number, more: object = {}) => ({
  ...{ dataset: 'ticks', symbol: 'A B', t_from: from, t_to: to, ticks: 1, fetched_at: 99, origin: 'poll' },
  ...{ evidence: 'confirmed', grain_ms: null, ...more },
});
const body = (coverage: readonly unknown[], next: unknown = null) => JSON.stringify({ coverage, next_cursor: next });
const query = { symbol: 'A B', from: -0.5, to: 40.5 };

test('reads all pages of the coverage of a symbol, with retries, and stores none of them', async () => {
  await using server = await serve((_, response, index) => {
    if (index === 0)
      sendJson(response, body([row(0, 10), row(10, 20, { evidence: 'inferred', fetched_at: 7 })], 'x y'));
    else if (index === 1) response.writeHead(503).end();
    else sendJson(response, body([row(30, 41, { evidence: 'repeated' })]));
  });
  const stored: unknown[] = [];
  await using upstream = open(`${server.url}/prefix`, {}, { onResponse: (response) => void stored.push(response) });
  expect(await upstream.coverage(query)).toEqual([
    { from: 0, to: 10, evidence: 'confirmed', fetchedAt: 99 },
    { from: 10, to: 20, evidence: 'inferred', fetchedAt: 7 },
    { from: 30, to: 41, evidence: 'repeated', fetchedAt: 99 },
  ]);
  const path = '/prefix/api/v1/historical/coverage?symbol=A%20B&from=0&to=41&limit=10000';
  expect(server.requests.map(({ url }) => url)).toEqual([path, `${path}&cursor=x%20y`, `${path}&cursor=x%20y`]);
  expect(upstream.counters()).toMatchObject({ requests: 3, retries: 1 });
  expect(stored).toEqual([]);
});

test.each([
  [404, 'refused', 'HTTP 404; source.mirror needs the coverage route of an oddslake'],
  [403, 'credential', 'HTTP 403; source.mirror needs the coverage route of an oddslake'],
])('says what a response %i is needed for', async (status, kind, reason) => {
  await using server = await serve((_, response) => void response.writeHead(status).end());
  await using upstream = open(server.url);
  const error = await failure(upstream.coverage(query));
  expect(error).toBeInstanceOf(UpstreamError);
  expect(error).toMatchObject({ failure: kind, reason, status, symbol: 'A B' });
});

describe('a page of coverage', () => {
  const decode = (text: string, since = 0) => decodeCoveragePage(Buffer.from(text), 'A B', since);

  test('may be empty', () => expect(decode(body([]))).toEqual({ windows: [], next: null }));

  test.each([
    ['without a list', '{"next_cursor":null}', 'no coverage array'],
    ['with an error', '{"error":"down","coverage":[],"next_cursor":null}', 'an error'],
    ['without a cursor', '{"coverage":[]}', 'coverage without a usable next_cursor'],
    ['with an odd cursor', body([row(0, 1)], 7), 'coverage without a usable next_cursor'],
    ['that is empty and not the last', body([], 'x'), 'coverage without a usable next_cursor'],
    ['of another symbol', body([row(0, 1, { symbol: 'A' })]), 'an invalid window of coverage'],
    ['of another dataset', body([row(0, 1, { dataset: 'quotes' })]), 'an invalid window of coverage'],
    ['with unknown evidence', body([row(0, 1, { evidence: 'hoped' })]), 'an invalid window of coverage'],
    ['with a time that is none', body([row(0, 1.5)]), 'an invalid window of coverage'],
    ['without the time of the response', body([row(0, 1, { fetched_at: null })]), 'an invalid window of coverage'],
    ['with an empty window', body([row(1, 1)]), 'an invalid window of coverage'],
    ['with windows that overlap', body([row(0, 2), row(1, 3)]), 'an invalid window of coverage'],
    ['with a window that is null', body([null]), 'an invalid window of coverage'],
  ])('is rejected, and retried: %s', (_, text, reason) => {
    expect(() => decode(text)).toThrow(UnreadableResponseError);
    expect(() => decode(text)).toThrow(reason);
  });

  test('is rejected if it repeats the one before', () => {
    expect(() => decode(body([row(0, 2)], 'x'), 2)).toThrow('an invalid window of coverage');
  });
});
