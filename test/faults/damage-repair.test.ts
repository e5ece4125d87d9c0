import { join } from 'node:path';
import { expect, test } from 'vitest';
import { datasetNames } from '../../src/archive/format/datasets.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { repairNow } from '../archive/damaged.ts';
import { publishedTicks } from '../archive/scratch.ts';
import { bytesOf, damageLake, guarded } from './damage-lake.ts';
import { type Damage, kindsOfFile, kindsOfStranger, swapped } from './damages.ts';
import { type Draw, drawFrom, search, searchMsMax } from './seeds.ts';

/** Rows of a row group of the archive that is damaged here. */
const groupRows = 250;

/** Every way in which files of an archive are damaged, one of them at a time. */
const kinds: Readonly<Record<string, (root: string, paths: readonly string[], draw: Draw) => Damage>> = {
  ...Object.fromEntries(
    Object.entries(kindsOfFile).map(([name, make]) => [
      name,
      (root: string, paths: readonly string[], draw: Draw) => make(root, draw.one(paths), draw),
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(kindsOfStranger).map(([name, make]) => [
      name,
      (root: string, [like]: readonly string[], draw: Draw) => make(root, draw.one(datasetNames), like!, draw),
    ]),
  ),
  'swapped files': (root, paths, draw) => {
    const [a, ...others] = paths.toSorted(() => draw() - 0.5);
    return swapped(root, a!, others[0]!);
  },
};

test('after a repair verify is content, no tick is wrong, and a flipped bit cost a row group at most', {
  timeout: searchMsMax,
}, async () => {
  const seen = new Map<string, [cases: number, lost: number]>();
  await search({ name: 'repaired damage', least: 60, share: 0.1 }, async (seed) => {
    const draw = drawFrom(seed);
    const archive = await damageLake(undefined, groupRows);
    const { root } = archive.layout;
    const files = listManifestFiles(archive.readManifest());
    const before = publishedTicks(root);
    const ticks = archive.readManifest().datasets.ticks.files.map(({ path }) => path);
    const paths = draw.chance(0.5) ? ticks : guarded(archive.readManifest());
    const [kind, damaged] = draw.one(Object.entries(kinds));
    const damage = damaged(root, kind === 'swapped files' ? files.map(({ path }) => path) : paths, draw);
    const { repaired, lost, unrecoverable } = await repairNow(archive);
    expect(repaired.length, damage.told).toBeGreaterThan(0);
    expect((await verifyArchive(archive, null)).findings, damage.told).toEqual([]);
    const after = publishedTicks(root);
    const held = new Set(before);
    expect(
      after.filter((tick) => !held.has(tick)),
      damage.told,
    ).toEqual([]);
    const rowsLost = repaired.reduce((sum, file) => sum + (file.rows_lost ?? 0), 0);
    if (kind === 'a flipped bit') expect(rowsLost, damage.told).toBeLessThanOrEqual(groupRows);
    // What is lost is told: as windows to be asked for again, or as rows that are gone for good.
    if (after.length < before.length) expect(lost.length, damage.told).toBeGreaterThan(0);
    if (rowsLost === 0) expect([after.length, unrecoverable], damage.told).toEqual([before.length, []]);
    const [cases, total] = seen.get(kind) ?? [0, 0];
    seen.set(kind, [cases + 1, total + before.length - after.length]);
    archive.close();
  });
  console.log([...seen].map(([kind, [cases, total]]) => `${kind}: ${cases}, ${total} ticks lost`).join('\n'));
});

test('the archive that is damaged has parts of several row groups', async () => {
  const archive = await damageLake(undefined, groupRows);
  const { files } = archive.readManifest().datasets.ticks;
  expect(Math.max(...files.map(({ rows }) => rows))).toBeGreaterThan(2 * groupRows);
  for (const { path, bytes } of files) expect(bytesOf(archive, path).length, join(path)).toBe(bytes);
});
