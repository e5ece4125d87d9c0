import { createHash, randomFillSync } from 'node:crypto';
import { mkdirSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { formatManifest } from '../../src/archive/format/manifest.ts';
import { setMeta } from '../../src/archive/journal/database.ts';
import { opened } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { type Serving, serving } from './serving.ts';

/** Far more than the socket buffers of both sides hold. */
const size = 24 * 1024 * 1024;
const url = '/api/v1/export/files/ticks/2026-06-01/part-00.parquet';

/** A published file of random data that exceeds the cache. */
async function large() {
  const archive = opened({ parts: 1 });
  const path = 'ticks/date=2026-06-01/part-00.parquet';
  const at = join(archive.layout.root, path);
  const bytes = randomFillSync(Buffer.alloc(size));
  mkdirSync(dirname(at), { recursive: true });
  writeFileSync(at, bytes);
  const facts = { rows: 0, t_min: null, t_max: null, symbols: 0, symbol_from: null, symbol_to: null, generation: 1 };
  const file = { path, date: '2026-06-01', bytes: size, sha256: sha256(bytes), ...facts };
  const manifest = archive.readManifest();
  const datasets = { ...manifest.datasets, ticks: { files: [file] } };
  writeFileSync(archive.layout.manifestPath, formatManifest({ ...manifest, generation: 1, datasets }));
  setMeta(archive.state.db, 'generation', '1');
  const service = await serving(archive, { set: ['service.cache_bytes_max=0'] });
  return { at, bytes, file, ...service };
}

/** A response whose body is not read yet. */
const begin = ({ url: base, key }: Serving): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    get(`${base}${url}`, { headers: { authorization: `Bearer ${key}` } }, resolve).on('error', reject);
  });

/** Number of open descriptors of the file in this process. */
const openOf = (path: string): number =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === path;
    } catch {
      return false;
    }
  }).length;

const closed = (path: string): Promise<true> => waitFor(() => openOf(path) === 0, 'a file that is closed');

test('serves a large file to several clients and in ranges, and closes it', async () => {
  const { at, ask, file, bytes } = await large();
  const hash = async (): Promise<string> => {
    const sum = createHash('sha256');
    for await (const piece of (await ask(url)).body!) sum.update(piece);
    return sum.digest('hex');
  };
  expect(await Promise.all([hash(), hash(), hash()])).toEqual(Array.from({ length: 3 }, () => file.sha256));
  const ends = await ask(url, { headers: { range: `bytes=0-999999,-1000000` } });
  const body = Buffer.from(await ends.arrayBuffer());
  expect(body.length).toBe(Number(ends.headers.get('content-length')));
  expect([body.includes(bytes.subarray(0, 1_000_000)), body.includes(bytes.subarray(-1_000_000))]).toEqual([
    true,
    true,
  ]);
  await closed(at);
});

test('closes a file when the client disconnects', async () => {
  const one = await large();
  const answered = await begin(one);
  expect([answered.statusCode, openOf(one.at)]).toEqual([200, 1]);
  answered.destroy();
  await closed(one.at);
  expect((await one.ask(url, { method: 'HEAD' })).status).toBe(200);
});

test('aborts the response if the file is modified while it is sent', async () => {
  const one = await large();
  const answered = await begin(one);
  writeFileSync(one.at, randomFillSync(Buffer.alloc(size)));
  let count = 0;
  const all = (async () => {
    for await (const piece of answered) count += (piece as Buffer).length;
  })();
  await expect(all).rejects.toThrow(/aborted/);
  expect(count).toBeLessThan(size);
  await closed(one.at);
  expect((await one.ask(url)).status).toBe(503);
});
