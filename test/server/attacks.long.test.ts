import { expect, test } from 'vitest';
import { answersIn, head, type RawAnswer, rawAnswer, sent } from './raw.ts';
import { sharedServing } from './serving.ts';
import { alice, withTokens } from './users.ts';

/** None of the requests changes this archive. */
const service = sharedServing({ set: withTokens });

interface Described {
  readonly paths: Record<string, { get?: Get }>;
}
interface Get {
  readonly security: object[];
  readonly parameters?: readonly { name: string; in: string; required?: boolean }[];
}

/** The credential for a route: a token for routes that accept only users, else the key. */
const credentialOf = ({ security }: { readonly security?: readonly object[] }, key: string): string =>
  security !== undefined && security.length > 0 && security.every((one) => 'token' in one) ? alice : key;

/** Checks that a response is a problem of a status and reveals no internals. */
function expectProblem({ status, headers, body }: RawAnswer, wanted: number): void {
  expect(status, body).toBe(wanted);
  expect(headers.get('content-type')).toMatch(/^application\/problem\+json/);
  expect(headers.get('x-content-type-options')).toBe('nosniff');
  expect(headers.get('cache-control')).toBe('no-store');
  const problem = JSON.parse(body) as { status: number; title: string; detail?: string };
  expect(problem.status).toBe(wanted);
  expect(problem.title).not.toBe('Error');
  expect(body).not.toMatch(/FST_|HPE_|node:|\.ts\b|\n\s+at |ajv/i);
}

test('malformed requests get a response, and the connection is closed', async () => {
  const { url } = service();
  const refused: readonly (readonly [reported: string, text: string, status: number])[] = [
    ['not HTTP', 'hello\r\n\r\n', 400],
    ['HTTP/0.9', 'GET /\r\n\r\n', 400],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['another version', 'GET / HTTP/3.1\r\nHost: here\r\n\r\n', 400],
    ['a TLS hello', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
    ['an unknown method', head('/healthz', 'STEAL'), 400],
    ['a blank in the target', head('/heal thz'), 400],
    ['NUL in the target', head('/heal\0thz'), 400],
    ['NUL in a header', head('/healthz', 'GET', ['X-Odd: a\0b']), 400],
    ['a blank before a colon', head('/healthz', 'GET', ['X-Odd : a']), 400],
    ['a folded header', head('/healthz', 'GET', ['X-Odd: a', ' b']), 400],
    ['both lengths', head('/healthz', 'POST', ['Content-Length: 4', 'Transfer-Encoding: chunked']), 400],
    ['two lengths', head('/healthz', 'POST', ['Content-Length: 4', 'Content-Length: 5']), 400],
    ['a negative length', head('/healthz', 'POST', ['Content-Length: -1']), 400],
    ['a length with a sign', head('/healthz', 'POST', ['Content-Length: +4']), 400],
    ['chunked not last', head('/healthz', 'POST', ['Transfer-Encoding: chunked, gzip']), 400],
    ['17 kB of headers', head('/healthz', 'GET', [`X-Long: ${'a'.repeat(17 * 1024)}`]), 431],
    [
      '17 kB in many headers',
      head(
        '/healthz',
        'GET',
        Array.from({ length: 1000 }, (_, i) => `X-${i}: ${'a'.repeat(12)}`),
      ),
      431,
    ],
    ['17 kB of a target', head(`/${'a'.repeat(17 * 1024)}`), 431],
  ];
  for (const [reported, text, status] of refused) {
    const answer = await rawAnswer(url, text).catch((error: Error) => expect.fail(`${reported}: ${error.message}`));
    expect([reported, answer.status]).toEqual([reported, status]);
    expectProblem(answer, status);
    expect(answer.headers.get('connection'), reported).toBe('close');
  }
});

test('rejects a request without a host, with two hosts or credentials, or with an absolute target', async () => {
  const { url } = service();
  const close = 'Connection: close\r\n\r\n';
  for (const text of [
    `GET /healthz HTTP/1.1\r\n${close}`,
    `GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n${close}`,
    head('/healthz', 'GET', ['Authorization: Bearer a', 'Authorization: Bearer b']),
    head('http://elsewhere/healthz'),
    head('*'),
    head('healthz'),
  ])
    expectProblem(await rawAnswer(url, text), 400);
  expect((await rawAnswer(url, `GET /healthz HTTP/1.0\r\n\r\n`)).status).toBe(200);
  expect((await rawAnswer(url, head('*', 'OPTIONS'))).status).toBe(204);
});

test('does not answer a smuggled second request', async () => {
  const { url } = service();
  const inner = 'GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n';
  for (const text of [
    `POST /healthz HTTP/1.1\r\nHost: here\r\nContent-Length: ${inner.length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${inner}`,
    `GET /healthz HTTP/1.1\r\nHost: here\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`,
    `GET /healthz HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`,
    `GET /healthz HTTP/1.1\nHost: here\n\n${inner}`,
    `POST /healthz HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: xchunked\r\n\r\n${inner}`,
  ]) {
    const answers = answersIn(await sent(url, text));
    expect(
      answers.map(({ status }) => status).filter((status) => status < 400),
      text,
    ).toEqual([]);
    expect(answers.length).toBe(1);
  }
});

test('rejects every spelling of path traversal', async () => {
  const { url, key, app } = service();
  const paths = Object.keys((app.swagger() as unknown as { paths: object }).paths);
  const bases = [
    ...new Set(['/', '/docs/static/', ...paths.map((path) => `${path.replace(/\{.*$/, '').replace(/\/$/, '')}/`)]),
  ];
  const climbs = [
    '../'.repeat(8),
    '..%2f'.repeat(8),
    '%2e%2e/'.repeat(8),
    '%2e%2e%2f'.repeat(8),
    '%252e%252e%252f'.repeat(8),
    '..\\'.repeat(8),
    '..%5c'.repeat(8),
    '....//'.repeat(8),
    '..;/'.repeat(8),
    '%c0%ae%c0%ae/'.repeat(8),
    '%00/../',
    '..%00/',
    '//',
    '/./',
    '%2f',
    '..%ef%bc%8f'.repeat(8),
  ];
  const targets = ['etc/passwd', 'manifest.json', '.oddslake/state.sqlite', 'proc/self/environ'];
  for (const base of bases) {
    for (const climb of climbs) {
      for (const target of targets.slice(0, base === '/docs/static/' ? 4 : 1)) {
        const text = head(`${base}${climb}${target}`, 'GET', [`Authorization: Bearer ${key}`]);
        const answer = await rawAnswer(url, text);
        expect(answer.status, base + climb).toBeGreaterThanOrEqual(400);
        expectProblem(answer, answer.status);
        expect([400, 403, 404, 414]).toContain(answer.status);
      }
    }
  }
});

test('an unsupported method gives 405 with Allow; HEAD and OPTIONS are supported', async () => {
  const { url, ask, app } = service();
  const { paths } = app.swagger() as unknown as { paths: Record<string, Record<string, object>> };
  for (const [path, methods] of Object.entries(paths)) {
    const target = path.replace(/\{[^}]+\}/g, 'x');
    for (const method of ['PUT', 'PATCH', 'DELETE', 'POST', 'TRACE', 'PROPFIND'].filter(
      (one) => !(one.toLowerCase() in methods),
    )) {
      const answer = await rawAnswer(url, head(target, method));
      expectProblem(answer, 405);
      expect(answer.headers.get('allow')).toContain('OPTIONS');
    }
    const options = await ask(target, { method: 'OPTIONS', headers: { authorization: '' } });
    expect(options.status).toBe(204);
    expect(options.headers.get('allow')!.toLowerCase().split(', ')).toEqual(
      expect.arrayContaining(Object.keys(methods)),
    );
    if (!('get' in methods)) continue;
    const [head1, get] = [await ask(target, { method: 'HEAD' }), await ask(target)];
    expect([path, head1.status]).toEqual([path, get.status]);
    expect(await head1.text()).toBe('');
    expect(head1.headers.get('content-type')).toBe(get.headers.get('content-type'));
    await get.body?.cancel();
  }
  expect((await rawAnswer(url, head('here:80', 'CONNECT'))).status).toBe(405);
});

test('rejects more than 100 parameters, and repeated, unknown or badly encoded ones', async () => {
  const { json, app } = service();
  const { paths } = app.swagger() as unknown as { paths: Record<string, { get?: { security: object[] } }> };
  const many = (count: number): string => Array.from({ length: count }, (_, i) => `p${i}=1`).join('&');
  const refusals: readonly (readonly [query: string, reported: RegExp])[] = [
    [many(101), /more than 100 parameters/],
    [many(5000).slice(0, 8000), /more than 100 parameters/],
    ['a=1&a=2', /given more than once/],
    ['limit=1&limit=1', /given more than once/],
    ['from=%zz', /percent-encoded/],
    ['symbol=%ff', /percent-encoded/],
    ['symbol=%ed%a0%80', /percent-encoded/],
    ['symbol=%00', /NUL character/],
    ['a%0d%0aSet-Cookie:b=1', /is unknown/],
    ['__proto__=1', /is unknown/],
    ['constructor=1', /is unknown/],
    ['__proto__[limit]=1', /is unknown/],
    [many(100), /is unknown/],
  ];
  for (const [path, { get }] of Object.entries(paths)) {
    // Users' routes reject the key before they look at the query.
    if (get === undefined || JSON.stringify(get.security) === '[{"token":[]}]') continue;
    for (const [query, reported] of refusals) {
      const { status, body } = await json(`${path.replace(/\{[^}]+\}/g, 'x')}?${query}`);
      expect([path, status]).toEqual([path, 400]);
      // If the path is invalid, too, either error may be reported.
      if (!path.includes('{')) expect(JSON.stringify(body)).toMatch(reported);
    }
  }
  expect((await json('/healthz?')).status).toBe(200);
  expect((await json(`/healthz?symbol=${'a'.repeat(8200)}`)).status).toBe(414);
});

test('every route rejects a limit that is not a positive integer', async () => {
  const { ask, app, key } = service();
  const { paths } = app.swagger() as unknown as Described;
  const limited = Object.entries(paths).filter(([, { get }]) => get?.parameters?.some(({ name }) => name === 'limit'));
  for (const [path, { get }] of limited) {
    const headers = { authorization: `Bearer ${credentialOf(get!, key)}` };
    for (const limit of ['0', '-1', '1e9', '1.5', '', '%20', '1%20', '0x10', 'NaN', 'Infinity', '01', '+1', '９']) {
      const { status } = await ask(`${path}?limit=${limit}`, { headers });
      expect([path, limit, status]).toEqual([path, limit, 400]);
    }
    // A huge limit is reduced: the response may have other errors, but none about the limit.
    expect(await (await ask(`${path}?limit=1000000000`, { headers })).text()).not.toContain('"limit"');
  }
});

test('rejects bodies that are unexpected, encoded, too large, of another type, malformed, or attack prototypes', async () => {
  const { url, key, app } = service();
  const { paths } = app.swagger() as unknown as {
    paths: Record<string, Record<string, { requestBody?: object; security: object[] }>>;
  };
  const withBody = (target: string, method: string, body: string, ...rest: string[]) => {
    const { security } = paths[target.replace('/x', '/{id}')]?.[method.toLowerCase()] ?? { security: [] };
    const authorization = `Authorization: Bearer ${credentialOf({ security }, key)}`;
    return rawAnswer(url, head(target, method, [authorization, `Content-Length: ${body.length}`, ...rest]) + body);
  };
  expectProblem(await withBody('/healthz', 'GET', '{}', 'Content-Type: application/json'), 400);
  expect(await sent(url, `${head('/healthz', 'HEAD', ['Content-Length: 2'])}{}`)).toMatch(/^HTTP\/1\.1 400 /);
  const taking = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { requestBody }]) => requestBody !== undefined)
      .map(([method]) => [path.replace('{id}', 'x'), method.toUpperCase()] as const),
  );
  expect(taking.map(([, method]) => method)).toEqual(expect.arrayContaining(['POST', 'PATCH']));
  const json = 'Content-Type: application/json';
  for (const [path, method] of taking) {
    expectProblem(await withBody(path, method, '\x1f\x8b\x08', json, 'Content-Encoding: gzip'), 415);
    expectProblem(await withBody(path, method, '{}', 'Content-Type: text/xml'), 415);
    expectProblem(await withBody(path, method, '{}', 'Content-Type: text/plain'), 415);
    expectProblem(await withBody(path, method, '{}'), 415);
    expectProblem(await withBody(path, method, 'a=1', 'Content-Type: application/x-www-form-urlencoded'), 415);
    expectProblem(await withBody(path, method, '{}', 'Content-Type: ///'), 415);
    expectProblem(await withBody(path, method, `{"a":"${'a'.repeat(70_000)}"}`, json), 413);
    for (const body of ['{', '', '[1', '{"__proto__":{"a":1}}', '{"constructor":{"prototype":{"a":1}}}', '[]', 'null'])
      expectProblem(await withBody(path, method, body, json), 400);
    expectProblem(await withBody(path, method, '{"name":"\\ud800"}', json), 400);
    const twice = await withBody(path, method, '{"name":"a","n\\u0061me":"b"}', json);
    expectProblem(twice, 400);
    expect(JSON.parse(twice.body).errors, path).toEqual([{ name: 'name', reason: 'is given more than once' }]);
    expectProblem(await withBody(path, method, `${'['.repeat(20_000)}${']'.repeat(20_000)}`, json), 400);
  }
});

test('rejects an expectation other than 100-continue', async () => {
  const { url } = service();
  expectProblem(await rawAnswer(url, head('/healthz', 'GET', ['Expect: miracles'])), 417);
});

test('a thousand ranges cost no more than one request', async () => {
  const { ask, app } = service();
  const { paths } = app.swagger() as unknown as { paths: Record<string, Record<string, object>> };
  const range = `bytes=${Array.from({ length: 1000 }, (_, i) => `${i}-${i}`).join(',')}`;
  for (const [path, methods] of Object.entries(paths)) {
    if (!('get' in methods)) continue;
    const answer = await ask(path.replace(/\{[^}]+\}/g, 'x'), { headers: { range } });
    expect([200, 400, 401, 403, 404, 416, 503], path).toContain(answer.status);
    await answer.body?.cancel();
  }
});

test('lists only the first of thousands of errors in a body', async () => {
  const { ask, app, key } = service();
  const path = '/api/v1/research/backtest';
  const { paths } = app.swagger() as unknown as { paths: Record<string, { post: { security: object[] } }> };
  const authorization = `Bearer ${credentialOf(paths[path]!.post, key)}`;
  const run = (symbols: unknown[]) => ({
    entry_executable: { name: 'threshold' },
    objective: 'total_pnl',
    parameters: { buy_below: 0.4, sell_above: 0.6 },
    symbols,
  });
  const bodies = [
    run(Array(30_000).fill(1)),
    Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`f${i}`, i])),
    run(Array.from({ length: 1000 }, (_, i) => `none ${i}`)),
  ];
  for (const body of bodies) {
    const headers = { 'content-type': 'application/json', authorization };
    const answer = await ask(path, { method: 'POST', headers, body: JSON.stringify(body) });
    const text = await answer.text();
    expect(answer.status).toBe(400);
    const { errors } = JSON.parse(text) as { errors: unknown[] };
    expect(errors.length).toBeGreaterThanOrEqual(50);
    expect(errors.length).toBeLessThanOrEqual(100);
    expect(text.length).toBeLessThan(20_000);
  }
});
