import { describe, expect, test } from 'vitest';
import { job as publishJob } from '../../jobs/publish.ts';
import type { Archive } from '../../src/archive/archive.ts';
import { type DatasetName, datasetNames } from '../../src/archive/format/datasets.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { replaceDamage } from '../../src/archive/journal/published-files.ts';
import { exitCodes } from '../../src/base/errors.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { clockAt, day0, dayMs, now, publishedRows, publishedTicks } from '../archive/scratch.ts';
import { createContext } from '../harness/job-context.ts';
import { type Serving, serving } from '../server/serving.ts';
import { bytesOf, copyDamageLake, journalDay } from './damage-lake.ts';
import { type Damage, damageKinds } from './damages.ts';
import { type Draw, drawFrom, search, searchMsMax } from './seeds.ts';

// Everything that needs a damaged file refuses it: a publish, file downloads of the service, and all reads.

/** A whole job, as a process runs it. */
async function createPublish(archive: Archive) {
  const settings = await loadSettings({ env: {}, cwd: '/', output: archive.layout.root, set: [] });
  const context = createContext({ settings, clock: clockAt(now + 10), random: Math.random });
  return publishJob.run(context, undefined);
}

const damageOf = (root: string, path: string, draw: Draw): Damage =>
  draw.one(Object.values(damageKinds))(root, path, draw);

/** Datasets whose files a publish reads before it rewrites them. */
const merged: readonly DatasetName[] = [
  'ticks',
  'coverage',
  'conflicts',
  'markets',
  'orderbooks',
  'quotes',
  'trades',
  'quote_conflicts',
  'trade_conflicts',
];

const journaled = ({ state: { db } }: Archive): Record<string, number> =>
  Object.fromEntries(
    [
      'journal_ticks',
      'journal_coverage',
      'journal_markets',
      'journal_books',
      'journal_book_coverage',
      'journal_series',
      'journal_series_coverage',
    ].map((table) => [table, db.one<{ n: number }>(`select count(*) as n from ${table}`)!.n]),
  );

const rowsOf = (root: string) => ({
  ticks: publishedTicks(root),
  ...Object.fromEntries(
    (datasetNames.filter((name) => name !== 'ticks') as Exclude<DatasetName, 'ticks'>[]).map((name) => [
      name,
      publishedRows(root, name),
    ]),
  ),
});

describe('a publish that needs a damaged file', { timeout: searchMsMax }, () => {
  test('keeps the file and the journal, exits with 6, and publishes once the file is restored', async () => {
    const undamaged = await copyDamageLake();
    for (const day of [0, 1]) journalDay(undamaged, day, 2);
    expect(await createPublish(undamaged)).toMatchObject({ exit_code: exitCodes.done });
    const expected = rowsOf(undamaged.layout.root);
    await search({ name: 'refused publishes', least: 40, share: 0.03 }, async (seed) => {
      const draw = drawFrom(seed);
      const archive = await copyDamageLake();
      const { root } = archive.layout;
      const { path } = draw.one(archive.readManifest().datasets[draw.one(merged)].files);
      const damage = damageOf(root, path, draw);
      for (const day of [0, 1]) journalDay(archive, day, 2);
      const refused = await createPublish(archive);
      expect(refused, damage.description).toMatchObject({
        exit_code: exitCodes.damaged,
        error: expect.stringContaining(path),
      });
      const remaining = journaled(archive);
      expect(
        Object.values(remaining).some((n) => n > 0),
        `${damage.description}: ${JSON.stringify(remaining)}`,
      ).toBe(true);
      // The file was not replaced, and nothing was published in place of its content.
      expect(
        (await verifyArchive(archive, null)).findings.map((finding) => finding.path),
        damage.description,
      ).toEqual([path]);
      damage.undo();
      // The damage stays recorded until a full check.
      expect(await createPublish(archive), damage.description).toMatchObject({ exit_code: exitCodes.damaged });
      expect((await verifyArchive(archive, null)).findings).toEqual([]);
      replaceDamage(archive.state.db, [], 'verify', now);
      expect(await createPublish(archive), damage.description).toMatchObject({ exit_code: exitCodes.done });
      expect(rowsOf(root), damage.description).toEqual(expected);
      expect((await verifyArchive(archive, null)).findings).toEqual([]);
      archive.close();
    });
  });
});

const span = `from=${day0}&to=${day0 + 2 * dayMs}&limit=1000`;
/** Reads of published files for a response, other than file downloads. */
const routes = [
  'ticks?symbol=AAA&limit=10000',
  `ticks?symbol=BBB&${span}`,
  'markets',
  'orderbook?symbol=AAA',
  `historical/ticks?${span}`,
  `historical/ticks?symbol=CCC&format=csv`,
  `historical/orderbooks?${span}`,
  `historical/candles?interval=1h&${span}`,
  `historical/candles?interval=1d&symbol=AAA&${span}`,
  `historical/candles?interval=15m&symbol=DDD&${span}`,
  `historical/markets?limit=1000`,
  `historical/coverage?dataset=ticks&${span}`,
  'historical/ticks?format=parquet&symbol=DDD',
].map((path) => `/api/v1/${path}`);

async function sendRequests(service: Serving, paths: readonly string[]): Promise<Map<string, [number, string]>> {
  const requests = paths.map(async (path): Promise<[string, [number, string]]> => {
    try {
      const response = await service.ask(path);
      return [path, [response.status, Buffer.from(await response.arrayBuffer()).toString('latin1')]];
    } catch (error) {
      // An interrupted response does not count.
      return [path, [0, String(error)]];
    }
  });
  return new Map(await Promise.all(requests));
}

const urlOf = (path: string): string => `/api/v1/export/files/${path.replace('date=', '')}`;

describe.each([
  ['from disk', '0'],
  ['from memory', '1048576'],
])('a service that returns %s', (_, bytes) => {
  test('refuses a damaged file with 503 and sends no byte from it or derived from it', {
    timeout: searchMsMax,
  }, async () => {
    const archive = await copyDamageLake();
    const { root } = archive.layout;
    const files = listManifestFiles(archive.readManifest());
    const start = () => serving(archive, { set: [`service.cache_bytes_max=${bytes}`] });
    const undamaged = await start();
    const paths = [...routes, ...files.map(({ path }) => urlOf(path))];
    const expected = await sendRequests(undamaged, paths);
    for (const [path, [status, body]] of expected) expect([path, status, body.length > 0]).toEqual([path, 200, true]);
    for (const { path } of files)
      expect(expected.get(urlOf(path))![1], path).toBe(bytesOf(archive, path).toString('latin1'));
    await undamaged.stop();
    const refusals = new Map<string, number>();
    await search({ name: `damage served, ${bytes} bytes kept`, least: 30, share: 0.03 }, async (seed) => {
      const draw = drawFrom(seed);
      const { path } = draw.one(files);
      // A service that has not read the file before, and one that has.
      const service = await start();
      if (draw.chance(0.3)) await sendRequests(service, draw.chance(0.5) ? paths : routes);
      const damage = damageOf(root, path, draw);
      const responses = await sendRequests(service, paths);
      for (const [url, response] of responses) {
        if (response[0] === 503) refusals.set(url, (refusals.get(url) ?? 0) + 1);
        else expect(response, `${damage.description}: ${url}`).toEqual(expected.get(url));
      }
      damage.undo();
      // No record of the damage remains after a repair.
      const repaired = await sendRequests(service, [urlOf(path)]);
      expect(repaired.get(urlOf(path)), damage.description).toEqual(expected.get(urlOf(path)));
      await service.stop();
    });
    console.log(`refused ${[...refusals.values()].reduce((a, b) => a + b, 0)} times over ${refusals.size} paths`);
    expect(refusals.size).toBeGreaterThan(10);
  });
});
