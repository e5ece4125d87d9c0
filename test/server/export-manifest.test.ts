import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { coveredDatasets, datasetNames, isDated } from '../../src/archive/format/datasets.ts';
import { exportDatasets, FilePath } from '../../src/contract/export-manifest.ts';
import { HistoricalCoverageQuery } from '../../src/contract/historical.ts';
import { answer, append, day0, dayMs, opened, publishNow, scratchFolder } from '../archive/scratch.ts';
import { serving } from './serving.ts';

const path = '/api/v1/export';

async function grown() {
  const root = scratchFolder();
  const [writer, archive] = [opened({ root, parts: 1 }), opened({ root, parts: 1 })];
  const add = async (day: number, p: number): Promise<void> => {
    append(writer, answer('KX A', [[day0 + day * dayMs, p]]));
    await publishNow(writer);
  };
  await add(0, 0.5);
  return { add, ...(await serving(archive)) };
}

interface Changes {
  readonly since: number;
  readonly generation: number;
  readonly count: number;
  readonly files: readonly { dataset: string; path: string; sha256: string; url: string; generation: number }[];
}

test('serves the manifest byte for byte, and 304 if the client has it', async () => {
  const { archive, ask, add } = await grown();
  const bytes = () => readFileSync(archive.layout.manifestPath);
  const first = await ask(path);
  expect(Buffer.from(await first.arrayBuffer())).toEqual(bytes());
  const tag = first.headers.get('etag')!;
  expect(tag).toBe(`"${createHash('sha256').update(bytes()).digest('hex')}"`);
  expect(first.headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(first.headers.get('cache-control')).toBe('private, no-cache, no-transform');
  expect((await ask(path, { headers: { 'if-none-match': tag } })).status).toBe(304);
  expect((await ask(path, { method: 'HEAD' })).headers.get('content-length')).toBe(String(bytes().length));
  await add(1, 0.6);
  const second = await ask(path, { headers: { 'if-none-match': tag } });
  expect([second.status, Buffer.from(await second.arrayBuffer())]).toEqual([200, bytes()]);
  expect((await ask(path, { headers: { 'if-match': tag } })).status).toBe(412);
});

test('serves an empty manifest before the first publish', async () => {
  const { json } = await serving(opened());
  const { status, body } = await json(path);
  expect([status, body.generation]).toEqual([200, 0]);
  expect((await json<Changes>(`${path}?since=0`)).body).toMatchObject({ since: 0, generation: 0, count: 0, files: [] });
});

test('lists changes since a generation with working URLs', async () => {
  const { json, ask, add, archive } = await grown();
  const all = await json<Changes>(`${path}?since=0`);
  expect(all.body).toMatchObject({ since: 0, generation: 1, count: all.body.files.length });
  expect(all.body.count).toBe(Object.values(archive.readManifest().datasets).flatMap(({ files }) => files).length);
  for (const { url, sha256 } of all.body.files) {
    const answered = await ask(url);
    expect([url, answered.status, answered.headers.get('etag')]).toEqual([url, 200, `"${sha256}"`]);
  }
  expect(all.body.files.map(({ url }) => url)).toContain('/api/v1/export/files/ticks/2026-06-01/part-00.parquet');
  expect(all.body.files.map(({ url }) => url)).toContain('/api/v1/export/files/symbols/part-00.parquet');
  await add(1, 0.6);
  const { body } = await json<Changes>(`${path}?since=1`);
  expect(body.generation).toBe(2);
  expect(body.files.every(({ generation }) => generation === 2)).toBe(true);
  expect(body.files.filter(({ dataset }) => dataset === 'ticks').map((file) => file.path)).toEqual([
    'ticks/date=2026-06-02/part-00.parquet',
  ]);
  expect((await json<Changes>(`${path}?since=2`)).body).toMatchObject({ count: 0, files: [] });
});

test('rejects a future or invalid generation', async () => {
  const { json } = await grown();
  for (const since of ['2', '-1', '1.5', '', 'x', '1&since=1', '1e0', '99999999999999999999']) {
    const { status, body } = await json(`${path}?since=${since}`);
    expect([since, status, (body.errors as { name: string }[])[0]!.name]).toEqual([since, 400, 'since']);
  }
  expect((await json(`${path}?until=1`)).body).toMatchObject({ status: 400, errors: [{ name: 'until' }] });
});

test('the contract names every dataset and format, and the dated and the covered datasets', () => {
  expect([...exportDatasets].sort()).toEqual([...datasetNames].sort());
  const dated = datasetNames.filter(isDated);
  const { enum: named } = FilePath.properties.dataset as unknown as { enum: string[] };
  expect([...named].sort()).toEqual([...dated].sort());
  const { enum: covered } = HistoricalCoverageQuery.properties.dataset as unknown as { enum: string[] };
  expect([...covered].sort()).toEqual(coveredDatasets);
});
