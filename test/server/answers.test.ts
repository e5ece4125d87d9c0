import { expect, test } from 'vitest';
import { opened } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { type Line, noted } from './noted.ts';
import { head, rawAnswer, sent } from './raw.ts';
import { serving } from './serving.ts';

test('every response has security headers against sniffing, caching and framing', async () => {
  const { ask } = await serving(opened());
  for (const path of ['/healthz', '/api/v1/openapi.json', '/api/v1/nothing', '/heal%zz', '/healthz?a=1']) {
    const { headers } = await ask(path);
    expect(headers.get('x-content-type-options')).toBe('nosniff');
    expect(headers.get('content-security-policy')).toMatch(/^default-src 'none'/);
    expect(headers.get('cache-control')).toMatch(/^no-(store|cache)$/);
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    for (const reported of ['server', 'x-powered-by', 'access-control-allow-origin'])
      expect(headers.get(reported)).toBeNull();
  }
  expect((await ask('/api/v1/nothing')).headers.get('vary')).toBe('accept-encoding, authorization');
  expect((await ask('/healthz')).headers.get('vary')).toBe('accept-encoding');
});

test('a request has an ID in its response and in one log line, which has no secrets', async () => {
  const { log, lines } = noted();
  const { ask, key } = await serving(opened(), { log });
  const answer = await ask('/api/v1/nothing?token=olk_secret');
  await waitFor(() => lines.length > 0, 'a log line');
  expect(lines).toHaveLength(1);
  const [{ level, facts }] = lines as [Line];
  expect(level).toBe('info');
  expect(facts).toMatchObject({
    request_id: answer.headers.get('x-request-id'),
    method: 'GET',
    path: '/api/v1/nothing',
    status: 404,
    key: key.split('_')[1],
  });
  expect(facts.ms).toBeGreaterThanOrEqual(0);
  expect(JSON.stringify(lines)).not.toContain('olk_');
  const other = await ask('/healthz');
  expect(other.headers.get('x-request-id')).not.toBe(answer.headers.get('x-request-id'));
  await waitFor(() => lines.length > 1, 'a second log line');
  expect(lines.map((line) => line.level)).toEqual(['info', 'debug']);
  await ask('/heal%zz');
  await waitFor(() => lines.length > 2, 'a third log line');
  expect(lines.at(-1)!.facts).toMatchObject({ path: '/heal%zz', status: 400 });
});

test('requests that cannot be parsed have an ID and a log line, too', async () => {
  const { log, lines } = noted();
  const { url } = await serving(opened(), { log });
  const { headers } = await rawAnswer(url, 'hello\r\n\r\n');
  expect(lines).toEqual([
    { level: 'debug', message: 'cannot parse a request', facts: expect.objectContaining({ status: 400 }) },
  ]);
  expect(lines[0]!.facts.request_id).toBe(headers.get('x-request-id'));
});

test('an internal error is reported without its reason, which is logged', async () => {
  const { log, lines } = noted();
  const { json, workspace } = await serving(opened(), { log });
  await workspace.close();
  const { status, headers, body } = await json('/api/v1/nothing', {
    headers: { authorization: `Bearer olk_${'a'.repeat(12)}_${'b'.repeat(43)}` },
  });
  expect(status).toBe(500);
  expect(body).toEqual({
    type: '/docs/problems#internal_error',
    code: 'internal_error',
    title: 'Internal error',
    status: 500,
    detail: 'Internal error. You can retry the request.',
  });
  const [line] = lines.filter(({ level }) => level === 'error');
  expect(line!.facts.request_id).toBe(headers.get('x-request-id'));
  expect(line!.facts.err).toBeInstanceOf(Error);
});

test('a hundred pipelined requests get their responses in order', async () => {
  const { url } = await serving(opened());
  const one = head('/healthz').replace('Connection: close\r\n', '');
  const text = await sent(url, one.repeat(99) + head('/healthz'));
  expect(text.split('{"status":"ok"}').length - 1).toBe(100);
});

test('the documentation requires no key and loads nothing from other hosts', async () => {
  const { ask, url } = await serving(opened());
  const open = { headers: { authorization: '' } };
  const page = await ask('/docs', open);
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
  const policy = page.headers.get('content-security-policy')!;
  expect(policy).toMatch(/^default-src 'none'; script-src 'self';/);
  expect(policy).toContain("connect-src 'self'");
  expect(policy).not.toMatch(/https?:|\*|unsafe-eval|script-src[^;]*unsafe/);
  const html = await page.text();
  // Fragments are places on the page itself.
  const named = [...html.matchAll(/(?:src|href)="([^#"][^"]*)"/g)].map(([, path]) => path!);
  expect(named.length).toBeGreaterThan(4);
  expect(html).not.toMatch(/<script(?![^>]*src=)|\son\w+=|style="/);
  for (const path of named) {
    expect(new URL(path, `${url}/docs`).origin).toBe(url);
    const asset = await ask(path, open);
    expect([path, asset.status]).toEqual([path, 200]);
    await asset.body?.cancel();
  }
  const started = await (await ask('/docs/static/swagger-initializer.js', open)).text();
  expect(started.replace(/^ *\/\/.*$/gm, '')).not.toMatch(/https?:\/\//);
  expect(await (await ask('/docs/json', open)).json()).toEqual(await (await ask('/api/v1/openapi.json', open)).json());
});
