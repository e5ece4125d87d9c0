import { once } from 'node:events';
import { createBrotliDecompress, createGunzip, createZstdDecompress } from 'node:zlib';
import { fastify } from 'fastify';
import { describe, expect, onTestFinished, test } from 'vitest';
import { sendChunks } from '../../src/server/http/stream-response.ts';
import { day0 } from '../archive/scratch.ts';
import { askCoded, beginCoded, type CodingName, codingNames, readCoded } from './coded.ts';
import { lake } from './historical-archive.ts';
import { sharedServing } from './serving.ts';

const service = sharedServing({}, lake.copyTo);

const history = '/api/v1/historical';
const manyErrors = `${history}/ticks?${Array.from({ length: 60 }, (_, i) => `unknown${i}=1`).join('&')}`;

/** Every route with text of more than 1 kB, and the status. */
const texts: readonly (readonly [path: string, status: number])[] = [
  ['/', 200],
  ['/api/v1/openapi.json', 200],
  ['/api/v1/markets', 200],
  [`/api/v1/ticks?symbol=BBB&from=${day0}`, 200],
  ['/api/v1/export?since=0', 200],
  [`${history}/markets`, 200],
  [`${history}/ticks`, 200],
  [`${history}/orderbooks`, 200],
  [`${history}/candles?interval=1h`, 200],
  [`${history}/coverage`, 200],
  [`${history}/coverage?symbol=BBB`, 200],
  ...['markets', 'ticks', 'orderbooks', 'candles?interval=1h', 'coverage'].flatMap((route) =>
    ['csv', 'ndjson'].map(
      (format) => [`${history}/${route}${route.includes('?') ? '&' : '?'}format=${format}`, 200] as const,
    ),
  ),
  [manyErrors, 400],
];

/** Headers that differ with every response. */
const varying = [
  'date',
  'x-request-id',
  'ratelimit',
  'content-length',
  'content-encoding',
  'etag',
  'transfer-encoding',
];
const withoutVarying = (headers: object) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !varying.includes(name)));

test.each(codingNames)('every text has the same content with %s', async (coding) => {
  const page = (await askCoded(service(), '/')).text;
  const assets = [...page.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)].map(([, path]) => [path!, 200] as const);
  expect(assets.length).toBeGreaterThan(2);
  for (const [path, status] of [...texts, ...assets]) {
    const plain = await askCoded(service(), path);
    expect([plain.status, plain.headers['content-encoding']], path).toEqual([status, undefined]);
    const coded = await askCoded(service(), path, { 'accept-encoding': coding });
    if (plain.body.length < 1024) {
      expect([coded.headers['content-encoding'], coded.text], path).toEqual([undefined, plain.text]);
      continue;
    }
    expect([coded.status, coded.headers['content-encoding']], path).toEqual([status, coding]);
    expect(coded.text, path).toBe(plain.text);
    expect(coded.body.length, path).toBeLessThan(plain.body.length);
    expect(coded.headers.vary, path).toContain('accept-encoding');
    expect(withoutVarying(coded.headers), path).toEqual(withoutVarying(plain.headers));
    if (plain.headers.etag?.startsWith('"'))
      expect(coded.headers.etag, path).toBe(`${plain.headers.etag.slice(0, -1)}-${coding}"`);
    const bare = await askCoded(service(), path, { 'accept-encoding': coding }, 'HEAD');
    expect([bare.status, bare.body.length, bare.headers['content-encoding']], path).toEqual([status, 0, coding]);
    expect([bare.headers.etag, bare.headers['content-length']], path).toEqual([
      coded.headers.etag,
      coded.headers['content-length'],
    ]);
    expect(withoutVarying(bare.headers), path).toEqual(withoutVarying(coded.headers));
  }
});

test.each([
  [undefined, undefined],
  ['', undefined],
  ['identity', undefined],
  ['deflate', undefined],
  ['gzip, deflate, br, zstd', 'zstd'],
  ['gzip, deflate, br', 'br'],
  ['gzip, deflate', 'gzip'],
  ['zstd;q=0.5, br;q=0.9, gzip;q=0.9', 'br'],
  ['gzip;q=0.5, identity;q=0.8', undefined],
  ['gzip;q=0, *', 'zstd'],
  ['*;q=0.1', 'zstd'],
  ['GZIP', 'gzip'],
  ['identity;q=0, gzip', 'gzip'],
  // Nothing is acceptable: sent as it is.
  ['*;q=0', undefined],
  ['gzip;q=0, identity;q=0', undefined],
  [`gzip, ${'x'.repeat(200)}`, 'gzip'],
])('Accept-Encoding %s selects %s', async (accepted, coding) => {
  const headers: Record<string, string> = accepted === undefined ? {} : { 'accept-encoding': accepted };
  for (const path of [`${history}/ticks`, '/api/v1/markets', `${history}/ticks?format=csv`]) {
    const { status, headers: sent } = await askCoded(service(), path, headers);
    expect([status, sent['content-encoding']], path).toEqual([200, coding]);
  }
});

test('a short body is compressed only for a client that refuses it otherwise', async () => {
  for (const path of ['/healthz', `${history}/ticks?limit=1`]) {
    const plain = await askCoded(service(), path, { 'accept-encoding': 'gzip' });
    expect([plain.headers['content-encoding'], plain.headers['content-length']]).toEqual([
      undefined,
      String(plain.body.length),
    ]);
    const coded = await askCoded(service(), path, { 'accept-encoding': 'gzip, identity;q=0' });
    expect([coded.headers['content-encoding'], coded.text]).toEqual(['gzip', plain.text]);
  }
});

test('columnar files and published files have no content coding', async () => {
  const { json } = service();
  const { body } = await json<{ files: { url: string }[] }>('/api/v1/export?since=0');
  expect(body.files.length).toBeGreaterThan(5);
  for (const path of [
    `${history}/ticks?format=parquet`,
    `${history}/ticks?format=arrow`,
    // The manifest is served byte for byte, too: its ETag is its SHA-256.
    '/api/v1/export',
    ...body.files.map(({ url }) => url),
  ]) {
    const plain = await askCoded(service(), path);
    const coded = await askCoded(service(), path, { 'accept-encoding': 'gzip, br, zstd' });
    expect([path, coded.status, coded.headers['content-encoding']]).toEqual([path, 200, undefined]);
    expect(coded.headers.etag).toBe(plain.headers.etag);
    if (path.includes('/export/')) expect(coded.body.equals(plain.body)).toBe(true);
  }
});

describe.each(codingNames)('a stream with %s', (coding) => {
  const createDecoder = { zstd: createZstdDecompress, br: createBrotliDecompress, gzip: createGunzip } as const;

  /** A server with one stream of CSV. */
  async function streaming(chunks: () => AsyncGenerator<Uint8Array>) {
    const app = fastify();
    onTestFinished(() => app.close());
    app.get('/', (request, reply) => sendChunks(request, reply.type('text/csv; charset=utf-8'), chunks()));
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    return await beginCoded({ url, key: '' }, '/', { 'accept-encoding': coding });
  }

  test('sends rows when they are computed', async () => {
    const end = Promise.withResolvers<void>();
    const message = await streaming(async function* () {
      yield Buffer.from('t,p\n');
      await end.promise;
      yield Buffer.from('1,2\n');
    });
    expect(message.headers['content-encoding']).toBe(coding);
    const decoded = message.pipe(createDecoder[coding as CodingName]());
    const [first] = (await once(decoded, 'data')) as [Buffer];
    expect(String(first)).toBe('t,p\n');
    end.resolve();
    const [second] = (await once(decoded, 'data')) as [Buffer];
    expect(String(second)).toBe('1,2\n');
    await once(decoded, 'end');
  });

  test('is incomplete for the client if it fails in the middle', async () => {
    const arrived = Promise.withResolvers<void>();
    const message = await streaming(async function* () {
      yield Buffer.from('t,p\n');
      await arrived.promise;
      throw new Error('the disk failed');
    });
    message.once('data', () => arrived.resolve());
    await expect(readCoded(message)).rejects.toThrow('aborted');
  });

  test('closes its source when the client disconnects, and computes no more than it reads', async () => {
    const closed = Promise.withResolvers<void>();
    let count = 0;
    const message = await streaming(async function* () {
      try {
        for (;;) {
          count++;
          // Incompressible.
          yield crypto.getRandomValues(new Uint8Array(65_536));
        }
      } finally {
        closed.resolve();
      }
    });
    await once(message, 'readable');
    let before = -1;
    // The buffers between server and client are full at some time.
    while (count > before) {
      before = count;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(count * 65_536).toBeLessThan(32 * 1024 * 1024);
    message.destroy();
    await closed.promise;
  });
});
