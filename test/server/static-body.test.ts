import { type FastifyInstance, fastify } from 'fastify';
import { expect, onTestFinished, test } from 'vitest';
import type { CompressBody } from '../../src/server/http/compress-response.ts';
import { createStaticBody, type StaticBody, sendStaticBody } from '../../src/server/http/static-body.ts';
import { askCoded, codingNames } from './coded.ts';
import { sharedServing } from './serving.ts';

const service = sharedServing();

const files = ['swagger-ui-bundle.js', 'swagger-ui.css', 'index.css', 'favicon-32x32.png'];
const targets = [
  '/api/v1/openapi.json',
  '/docs/json',
  '/docs/problems',
  ...files.map((name) => `/docs/static/${name}`),
];

test('documents and files of the documentation have a strong ETag for each coding, and give 304', async () => {
  for (const path of targets) {
    const plain = await askCoded(service(), path);
    expect([plain.status, plain.headers.etag], path).toEqual([200, expect.stringMatching(/^"[0-9a-f]{64}"$/)]);
    const isCompressed = plain.body.length >= 1024 && !path.endsWith('.png');
    const tags = new Set([plain.headers.etag]);
    for (const coding of codingNames) {
      const accept = { 'accept-encoding': coding };
      const coded = await askCoded(service(), path, accept);
      expect([coded.status, coded.headers['content-encoding']], path).toEqual([200, isCompressed ? coding : undefined]);
      expect(coded.text, path).toBe(plain.text);
      if (isCompressed) expect(coded.body.length, path).toBeLessThan(plain.body.length / 2);
      tags.add(coded.headers.etag);
      for (const etag of [coded.headers.etag!, `W/${coded.headers.etag}`, '*']) {
        const known = await askCoded(service(), path, { ...accept, 'if-none-match': etag });
        expect([known.status, known.body.length, known.headers.etag], path).toEqual([304, 0, coded.headers.etag]);
        expect(known.headers['content-encoding'], path).toBeUndefined();
        expect([known.headers.vary, known.headers['cache-control']], path).toEqual([
          coded.headers.vary,
          coded.headers['cache-control'],
        ]);
      }
      const other = await askCoded(service(), path, { ...accept, 'if-none-match': '"other"' });
      expect([other.status, other.text === plain.text], path).toEqual([200, true]);
      const bare = await askCoded(service(), path, accept, 'HEAD');
      expect([bare.status, bare.body.length, bare.headers.etag, bare.headers['content-length']], path).toEqual([
        200,
        0,
        coded.headers.etag,
        String(coded.body.length),
      ]);
    }
    expect(tags.size, path).toBe(isCompressed ? 4 : 1);
  }
});

test('a path that is no file of the documentation gives 404', async () => {
  for (const name of ['none.js', '..%2fpackage.json', '%2e%2e/package.json', 'swagger-ui.css/', 'constructor'])
    expect((await askCoded(service(), `/docs/static/${name}`)).status, name).toBe(404);
});

/** Serves a body, and counts how often it is compressed. */
async function counted(body: StaticBody, compress: CompressBody): Promise<FastifyInstance> {
  const app = fastify();
  onTestFinished(() => app.close());
  app.get('/', (request, reply) => sendStaticBody(request, reply, body, compress));
  await app.ready();
  return app;
}

test('a body is compressed once per coding, also for concurrent requests', async () => {
  const count = { zstd: 0, br: 0, gzip: 0 };
  const app = await counted(createStaticBody('text/plain', 'x'.repeat(5000)), async (coding) => {
    count[coding]++;
    await new Promise((resolve) => setImmediate(resolve));
    return Buffer.from(coding);
  });
  const get = (accept: string) => app.inject({ url: '/', headers: { 'accept-encoding': accept } });
  const bodies = await Promise.all(['br', 'br', 'gzip', 'gzip', 'br'].map(async (accept) => (await get(accept)).body));
  expect(bodies).toEqual(['br', 'br', 'gzip', 'gzip', 'br']);
  expect((await get('br')).headers['content-encoding']).toBe('br');
  expect(count).toEqual({ zstd: 0, br: 1, gzip: 1 });
});

test('a compression that failed is repeated by the next request', async () => {
  let failures = 1;
  const app = await counted(createStaticBody('text/plain', 'x'.repeat(5000)), async () => {
    if (failures-- > 0) throw new Error('no memory');
    return Buffer.from('coded');
  });
  const get = async () => (await app.inject({ url: '/', headers: { 'accept-encoding': 'br' } })).statusCode;
  expect([await get(), await get()]).toEqual([500, 200]);
});
