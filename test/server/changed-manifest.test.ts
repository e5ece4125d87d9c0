import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Manifest } from '../../src/archive/format/manifest.ts';
import { answer, append, day0, dayMs, opened, publishNow, scratchFolder } from '../archive/scratch.ts';
import { type Serving, serving } from './serving.ts';

const window = `from=${day0}&to=${day0 + 2 * dayMs}`;
const paths = [
  `ticks?symbol=A&${window}`,
  'historical/ticks',
  'historical/ticks?format=csv',
  'historical/markets',
  'export',
  'export?since=0',
  'export/files/ticks/2026-06-02/part-00.parquet',
].map((path) => `/api/v1/${path}`);

/** An archive of two days whose first day was deleted from manifest.json. */
async function shortened() {
  const root = scratchFolder();
  const archive = opened({ root, parts: 1 });
  append(archive, answer('A', [[day0, 0.5]]), answer('A', [[day0 + dayMs, 0.6]]));
  await publishNow(archive);
  const original = readFileSync(archive.layout.manifestPath, 'utf8');
  const manifest = JSON.parse(original) as Manifest;
  (manifest.datasets.ticks.files as unknown[]).shift();
  writeFileSync(archive.layout.manifestPath, JSON.stringify(manifest));
  return { root, archive, original };
}

const statuses = async (service: Serving): Promise<number[]> => {
  const found: number[] = [];
  for (const path of paths) found.push((await service.ask(path)).status);
  return found;
};

test('does not serve an archive whose manifest.json was modified', async () => {
  const { root, archive, original } = await shortened();
  const service = await serving(opened({ root }));
  expect(await statuses(service)).toEqual(paths.map(() => 503));
  const ready = await service.json<{ errors: object[] }>('/readyz');
  expect([ready.status, ready.body.errors]).toEqual([503, [{ name: 'archive', reason: 'cannot be read' }]]);
  const metrics = await (await service.ask('/metrics')).text();
  expect(metrics).toMatch(/^oddslake_archive_readable 0$/m);
  // The original manifest is served again.
  writeFileSync(archive.layout.manifestPath, original);
  expect(await statuses(service)).toEqual(paths.map(() => 200));
  expect((await service.json<{ count: number }>(paths[0]!)).body.count).toBe(2);
});

test('does not serve a manifest that was modified while the service runs', async () => {
  const { root, archive, original } = await shortened();
  const changed = readFileSync(archive.layout.manifestPath);
  writeFileSync(archive.layout.manifestPath, original);
  const service = await serving(opened({ root }));
  expect(await statuses(service)).toEqual(paths.map(() => 200));
  writeFileSync(archive.layout.manifestPath, changed);
  // The ticks of both days are unchanged; a write to the state makes the service read the manifest again.
  expect((await service.json<{ count: number }>(paths[0]!)).body.count).toBe(2);
  append(archive, answer('A', [[day0 + 1, 0.7]]));
  expect((await service.ask('/api/v1/export')).status).toBe(503);
});
