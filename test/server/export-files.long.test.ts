import { createHash } from 'node:crypto';
import { readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { PublishedFile } from '../../src/archive/format/manifest.ts';
import { answer, append, day0, publishNow } from '../archive/scratch.ts';
import { madeOnce } from './made-once.ts';
import { type Serving, type ServingOptions, serving } from './serving.ts';

interface Served extends Serving {
  /** A published file of ticks, its bytes and its URL. */
  readonly file: PublishedFile;
  readonly bytes: Buffer;
  readonly path: string;
}

const published = madeOnce(
  async (archive) => {
    const pairs = Array.from({ length: 400 }, (_, i) => [day0 + i * 1000, Math.sin(i)] as const);
    append(archive, answer('KX A', pairs));
    await publishNow(archive);
  },
  { parts: 1 },
);

async function served(options: ServingOptions = {}): Promise<Served> {
  const archive = await published();
  const file = archive.readManifest().datasets.ticks.files[0]!;
  const bytes = readFileSync(join(archive.layout.root, file.path));
  const path = `/api/v1/export/files/ticks/${file.date}/part-00.parquet`;
  return { file, bytes, path, ...(await serving(archive, options)) };
}

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
const bodyOf = async (answered: Response): Promise<Buffer> => Buffer.from(await answered.arrayBuffer());
/** From memory, and with the cache disabled from disk. */
const ways = [
  ['from memory', []],
  ['from the disk', ['service.cache_bytes_max=0']],
] as const;

describe.each(ways)('a published file %s', (_way, set) => {
  test('is served byte for byte, with headers for caching and verifying it', async () => {
    const { ask, path, bytes, file, archive } = await served({ set });
    const answered = await ask(path);
    expect(answered.status).toBe(200);
    expect(await bodyOf(answered)).toEqual(bytes);
    const written = statSync(join(archive.layout.root, file.path)).mtimeMs;
    expect(Object.fromEntries(answered.headers)).toMatchObject({
      etag: `"${file.sha256}"`,
      'accept-ranges': 'bytes',
      'cache-control': 'private, no-cache, no-transform',
      'content-length': String(file.bytes),
      'content-type': 'application/vnd.apache.parquet',
      'last-modified': new Date(written).toUTCString(),
      'repr-digest': `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`,
    });
  });

  test('has the same headers for HEAD, without a body', async () => {
    const { ask, path } = await served({ set });
    const [whole, head] = [await ask(path), await ask(path, { method: 'HEAD' })];
    expect(head.status).toBe(200);
    expect((await bodyOf(head)).length).toBe(0);
    const without = (headers: Headers) =>
      Object.fromEntries(
        [...headers].filter(([name]) => !/^(date|connection|keep-alive|x-request-id|ratelimit)$/.test(name)),
      );
    expect(without(head.headers)).toEqual(without(whole.headers));
  });

  test('serves one range', async () => {
    const { ask, path, bytes } = await served({ set });
    for (const [range, from, to] of [
      ['bytes=0-0', 0, 0],
      ['bytes=10-19', 10, 19],
      ['BYTES=10-19', 10, 19],
      ['bytes=100-', 100, -1],
      ['bytes=-7', -7, -1],
      ['bytes=5-99999999999999999999', 5, -1],
      ['bytes=-99999999', 0, -1],
      ['bytes=999999999-, 3-4', 3, 4],
    ] as const) {
      const answered = await ask(path, { headers: { range } });
      const [first, last] = [from, to].map((at) => (at < 0 ? bytes.length + at : at)) as [number, number];
      expect([range, answered.status]).toEqual([range, 206]);
      expect(answered.headers.get('content-range')).toBe(`bytes ${first}-${last}/${bytes.length}`);
      expect(answered.headers.get('content-length')).toBe(String(last - first + 1));
      expect(answered.headers.get('repr-digest')).toContain(createHash('sha256').update(bytes).digest('base64'));
      expect(await bodyOf(answered)).toEqual(bytes.subarray(first, last + 1));
    }
  });

  test('serves several ranges as one multipart body, in the requested order', async () => {
    const { ask, path, bytes } = await served({ set });
    const answered = await ask(path, { headers: { range: 'bytes=20-29, 0-4,-3' } });
    expect(answered.status).toBe(206);
    const [, boundary] = /^multipart\/byteranges; boundary=(.+)$/.exec(answered.headers.get('content-type')!)!;
    const size = bytes.length;
    const part = (first: number, last: number) => [
      Buffer.from(
        `--${boundary}\r\nContent-Type: application/vnd.apache.parquet\r\nContent-Range: bytes ${first}-${last}/${size}\r\n\r\n`,
      ),
      bytes.subarray(first, last + 1),
      Buffer.from('\r\n'),
    ];
    const wanted = [...part(20, 29), ...part(0, 4), ...part(size - 3, size - 1), Buffer.from(`--${boundary}--\r\n`)];
    const body = await bodyOf(answered);
    expect(body).toEqual(Buffer.concat(wanted));
    expect(answered.headers.get('content-length')).toBe(String(body.length));
  });

  test('gives 503 if it differs from the manifest', async () => {
    const { ask, path, archive, file, bytes } = await served({ set });
    const bad = Buffer.from(bytes);
    bad[200]! ^= 1;
    writeFileSync(join(archive.layout.root, file.path), bad);
    for (const method of ['GET', 'HEAD']) {
      const answered = await ask(path, { method, headers: { range: 'bytes=0-3' } });
      expect(answered.status).toBe(503);
      expect(answered.headers.get('etag')).toBeNull();
      expect(answered.headers.get('content-type')).toContain('application/problem+json');
    }
    writeFileSync(join(archive.layout.root, file.path), bytes);
    expect((await ask(path)).status).toBe(200);
  });

  test('gives 503 if it is truncated or missing', async () => {
    const { ask, path, archive, file, bytes } = await served({ set });
    writeFileSync(join(archive.layout.root, file.path), bytes.subarray(0, 100));
    expect((await ask(path)).status).toBe(503);
    archive.disk.remove(join(archive.layout.root, file.path));
    expect((await ask(path)).status).toBe(503);
  });
});

test('verifies a file again after it was modified in place', async () => {
  const { ask, path, archive, file, bytes } = await served({ set: ['service.cache_bytes_max=0'] });
  expect((await ask(path)).status).toBe(200);
  const at = join(archive.layout.root, file.path);
  const { mtime } = statSync(at);
  const bad = Buffer.from(bytes);
  bad[200]! ^= 1;
  writeFileSync(at, bad);
  // Even if mtime is restored, as ctime cannot be.
  utimesSync(at, mtime, mtime);
  expect((await ask(path)).status).toBe(503);
});

test('keeps verified files in memory within the limit of the settings', async () => {
  for (const [bytesMax, status] of [
    [100_000, 200],
    [5000, 503],
  ]) {
    const { ask, path, archive, file } = await served({ set: [`service.cache_bytes_max=${bytesMax}`] });
    expect((await ask(path)).status).toBe(200);
    archive.disk.remove(join(archive.layout.root, file.path));
    expect([bytesMax, (await ask(path)).status]).toEqual([bytesMax, status]);
  }
});

describe('conditions', () => {
  test('on the ETag give 304 if the client has the file, 412 if it changed', async () => {
    const { ask, path, file, bytes } = await served();
    const tag = `"${file.sha256}"`;
    const status = async (headers: Record<string, string>, method = 'GET') =>
      (await ask(path, { method, headers })).status;
    for (const list of [tag, `W/${tag}`, `"other", ${tag}`, '*'])
      expect([list, await status({ 'if-none-match': list })]).toEqual([list, 304]);
    for (const list of ['"other"', file.sha256, '', 'W/"other"'])
      expect([list, await status({ 'if-none-match': list })]).toEqual([list, 200]);
    for (const list of [tag, `"other",${tag}`, '*'])
      expect([list, await status({ 'if-match': list })]).toEqual([list, 200]);
    for (const list of ['"other"', `W/${tag}`, file.sha256, ''])
      expect([list, await status({ 'if-match': list })]).toEqual([list, 412]);
    expect(await status({ 'if-match': '"other"', 'if-none-match': tag })).toBe(412);
    expect(await status({ 'if-match': '"other"' }, 'HEAD')).toBe(412);
    expect(await status({ 'if-none-match': tag, range: 'bytes=0-1' }, 'HEAD')).toBe(304);
    const same = await ask(path, { headers: { 'if-none-match': tag } });
    expect([same.headers.get('etag'), (await bodyOf(same)).length]).toEqual([tag, 0]);
    const other = await ask(path, { headers: { 'if-match': '"other"' } });
    expect(await other.json()).toMatchObject({ status: 412, title: 'Precondition failed' });
    expect(await bodyOf(await ask(path, { headers: { 'if-match': tag, range: 'bytes=1-2' } }))).toEqual(
      bytes.subarray(1, 3),
    );
  });

  test('on the ETag are evaluated without opening the file', async () => {
    const { ask, path, archive, file } = await served();
    archive.disk.remove(join(archive.layout.root, file.path));
    expect((await ask(path, { headers: { 'if-none-match': `"${file.sha256}"` } })).status).toBe(304);
    expect((await ask(path, { headers: { 'if-match': '"other"' } })).status).toBe(412);
  });

  test('on time have a resolution of seconds, and are ignored if there is one on the ETag', async () => {
    const { ask, path, archive, file } = await served();
    const at = join(archive.layout.root, file.path);
    utimesSync(at, 1_700_000_000.5, 1_700_000_000.5);
    const date = (seconds: number) => new Date(seconds * 1000).toUTCString();
    const status = async (headers: Record<string, string>) => (await ask(path, { headers })).status;
    expect((await ask(path)).headers.get('last-modified')).toBe(date(1_700_000_000));
    expect(await status({ 'if-modified-since': date(1_700_000_000) })).toBe(304);
    expect(await status({ 'if-modified-since': date(1_699_999_999) })).toBe(200);
    expect(await status({ 'if-modified-since': 'yesterday' })).toBe(200);
    expect(await status({ 'if-modified-since': date(1_700_000_000), 'if-none-match': '"other"' })).toBe(200);
    expect(await status({ 'if-unmodified-since': date(1_700_000_000) })).toBe(200);
    expect(await status({ 'if-unmodified-since': date(1_699_999_999) })).toBe(412);
    const tag = `"${file.sha256}"`;
    expect(await status({ 'if-unmodified-since': date(1_699_999_999), 'if-match': tag })).toBe(200);
    expect(await status({ 'if-unmodified-since': date(1_699_999_999), 'if-none-match': tag })).toBe(412);
    expect(await status({ 'if-unmodified-since': date(1_700_000_000), 'if-none-match': tag })).toBe(304);
  });

  test('If-Range allows a range only for the same strong ETag', async () => {
    const { ask, path, file } = await served();
    const status = async (ifRange: string) =>
      (await ask(path, { headers: { range: 'bytes=0-9', 'if-range': ifRange } })).status;
    expect(await status(`"${file.sha256}"`)).toBe(206);
    for (const other of ['"other"', `W/"${file.sha256}"`, (await ask(path)).headers.get('last-modified')!])
      expect([other, await status(other)]).toEqual([other, 200]);
  });
});

describe('ranges', () => {
  test('outside of the file give 416 with its size', async () => {
    const { ask, path, bytes } = await served();
    for (const range of [`bytes=${bytes.length}-`, 'bytes=-0', `bytes=${bytes.length}-,-0`]) {
      const answered = await ask(path, { headers: { range } });
      expect([range, answered.status]).toEqual([range, 416]);
      expect(answered.headers.get('content-range')).toBe(`bytes */${bytes.length}`);
      expect(answered.headers.get('content-type')).toContain('application/problem+json');
    }
  });

  test('are ignored if they are malformed, too many or too large', async () => {
    const { ask, path, bytes } = await served();
    for (const range of [
      'items=0-1',
      'bytes=',
      'bytes=-',
      'bytes=a-b',
      'bytes=5-1',
      'bytes=1-2;3-4',
      'bytes 1-2',
      'bytes=1-2,x',
      'bytes=0-,0-',
      `bytes=${Array.from({ length: 9 }, (_, i) => `${i * 2}-${i * 2}`).join()}`,
      `bytes=${Array.from({ length: 1000 }, () => '0-').join()}`,
    ]) {
      const answered = await ask(path, { headers: { range } });
      expect([range, answered.status]).toEqual([range, 200]);
      expect(await bodyOf(answered)).toEqual(bytes);
    }
  });

  test('of HEAD are ignored', async () => {
    const { ask, path, bytes } = await served();
    const answered = await ask(path, { method: 'HEAD', headers: { range: 'bytes=0-1' } });
    expect([answered.status, answered.headers.get('content-length')]).toEqual([200, String(bytes.length)]);
  });
});

describe('paths', () => {
  test('the file of symbols has no date', async () => {
    const { ask, archive } = await served();
    const answered = await ask('/api/v1/export/files/symbols/part-00.parquet');
    const file = archive.readManifest().datasets.symbols.files[0]!;
    expect([answered.status, sha256(await bodyOf(answered))]).toEqual([200, file.sha256]);
  });

  /** Sends the path unchanged; `fetch` would normalize it. */
  const raw = ({ url, key }: Serving, path: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const { hostname, port } = new URL(url);
      const requested = request({ hostname, port, path, headers: { authorization: `Bearer ${key}` } }, (answered) => {
        answered.resume();
        resolve(answered.statusCode!);
      });
      requested.on('error', reject).end();
    });

  test('serves only files of the manifest, for every spelling of a path', async () => {
    const one = await served();
    const { date } = one.file;
    writeFileSync(join(one.archive.layout.root, 'ticks', `date=${date}`, 'part-01.parquet'), 'not listed');
    const files = '/api/v1/export/files';
    for (const path of [
      `${files}/ticks/${date}/part-01.parquet`,
      `${files}/ticks/1999-01-01/part-00.parquet`,
      `${files}/ticks/date=${date}/part-00.parquet`,
      `${files}/symbols/part-01.parquet`,
      `${files}/symbols/${date}/part-00.parquet`,
      `${files}/ticks/${date}`,
      `${files}/ticks/part-00.parquet`,
      `${files}/Ticks/${date}/part-00.parquet`,
      `${files}/ticks/${date}/part-00.parquet%00`,
      `${files}/ticks/${date}/part-00.parquet/`,
      `${files}//ticks/${date}/part-00.parquet`,
      `${files}/ticks/../ticks/${date}/part-00.parquet`,
      `${files}/../../../../manifest.json`,
      `${files}/ticks/..%2f..%2f/manifest.json`,
      `${files}/%2e%2e/%2e%2e/manifest.json`,
      `${files}/symbols/..%2f.oddslake%2fstate.sqlite`,
      `${files}/symbols/%2e%2e%2fmanifest.json`,
      `${files}/symbols/..%5cmanifest.json`,
      `${files}/symbols/..%252fmanifest.json`,
      `${files}/.oddslake/lease-id`,
      `${files}/__proto__/${date}/part-00.parquet`,
      `${files}/ticks/${date}/%2fetc%2fpasswd`,
      `${files}/symbols//etc/passwd`,
      `${files}/symbols/%zz`,
    ])
      expect([path, [400, 404].includes(await raw(one, path))]).toEqual([path, true]);
    expect(await raw(one, `${files}/ticks/${date}/part-00.parquet`)).toBe(200);
  });

  test('names the invalid segment of a path', async () => {
    const { json } = await served();
    const { status, body } = await json('/api/v1/export/files/deals/2026-6-1/x');
    expect(status).toBe(400);
    const { errors } = body as { errors: { name: string }[] };
    expect(errors.map(({ name }) => name).sort()).toEqual(['dataset', 'date', 'part']);
  });

  test('require a key', async () => {
    const { ask, path } = await served();
    for (const at of [path, '/api/v1/export']) {
      expect((await ask(at, { headers: { authorization: '' } })).status).toBe(401);
      expect((await ask(at, { method: 'HEAD', headers: { authorization: '' } })).status).toBe(401);
    }
  });
});
