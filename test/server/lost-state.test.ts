import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { answer, append, day0, opened, publishNow, scratchFolder } from '../archive/scratch.ts';
import { type Serving, serving } from './serving.ts';

const paths = [
  'ticks?symbol=A',
  'markets',
  'orderbook?symbol=A',
  'historical/ticks',
  'historical/ticks?format=csv',
  'export',
  'historical/coverage?dataset=ticks',
  'export/files/ticks/2026-06-01/part-00.parquet',
].map((path) => `/api/v1/${path}`);

const open = { headers: { authorization: '' } };

async function archived() {
  const root = scratchFolder();
  const writer = opened({ root, parts: 1 });
  append(writer, answer('A', [[day0, 0.5]]));
  await publishNow(writer);
  writer.close();
  return root;
}

async function statuses(service: Serving): Promise<number[]> {
  return await Promise.all(paths.map(async (path) => (await service.ask(path)).status));
}

async function standing(service: Serving) {
  const text = await (await service.ask('/metrics', open)).text();
  const metric = (name: string): string | undefined => new RegExp(`^oddslake_${name} (.*)$`, 'm').exec(text)?.[1];
  const ready = (await service.ask('/readyz', open)).status;
  const page = (await service.ask('/', open)).status;
  return { ready, page, readable: metric('archive_readable'), generation: metric('generation') };
}

test('gives 503 if the state was removed or replaced while the service runs', async () => {
  const root = await archived();
  const service = await serving(opened({ root }));
  const usual = await statuses(service);
  expect(usual.every((status) => status === 200 || status === 404)).toBe(true);
  expect(await standing(service)).toEqual({ ready: 200, page: 200, readable: '1', generation: '1' });
  const refused = { ready: 503, page: 503, readable: '0', generation: 'Nan' };
  const all = paths.map(() => 503);
  const [state, aside] = [join(root, '.oddslake'), join(root, 'aside')];
  renameSync(state, aside);
  expect(await statuses(service)).toEqual(all);
  expect(await standing(service)).toEqual(refused);
  const writer = opened({ root });
  append(writer, answer('A', [[day0 + 1, 0.7]]));
  await publishNow(writer);
  writer.close();
  expect(await statuses(service)).toEqual(all);
  expect(await standing(service)).toEqual(refused);
  const { body } = await service.json<{ detail: string }>(paths[0]!);
  expect(body.detail).toMatch(/^The state of the archive was removed or replaced while the service ran\./);
  // A new service over the same archive works.
  const again = await serving(opened({ root }));
  expect((await again.json<{ count: number }>(`${paths[0]}`)).body.count).toBe(2);
  expect(await standing(again)).toEqual({ ready: 200, page: 200, readable: '1', generation: '2' });
});

test('recovers when the state is restored', async () => {
  const root = await archived();
  const service = await serving(opened({ root }));
  const usual = await statuses(service);
  renameSync(join(root, '.oddslake'), join(root, 'aside'));
  expect(await statuses(service)).toEqual(paths.map(() => 503));
  rmSync(join(root, '.oddslake'), { recursive: true, force: true });
  renameSync(join(root, 'aside'), join(root, '.oddslake'));
  expect(await statuses(service)).toEqual(usual);
  expect((await standing(service)).ready).toBe(200);
});
