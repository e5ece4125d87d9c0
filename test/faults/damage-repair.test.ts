import { join } from 'node:path';
import { expect, test } from 'vitest';
import { datasetNames } from '../../src/archive/format/datasets.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { repairNow } from '../archive/damaged.ts';
import { publishedTicks } from '../archive/scratch.ts';
import { bytesOf, copyDamageLake, withLock } from './damage-lake.ts';
import { type Damage, damageKinds, orphanKinds, swapFiles } from './damages.ts';
import { type Draw, drawFrom, search, searchMsMax } from './seeds.ts';

/** Rows per row group of the archive that is damaged here. */
const groupRows = 250;

/** Every kind of damage to files of an archive, one at a time. */
const kinds: Readonly<Record<string, (root: string, paths: readonly string[], draw: Draw) => Damage>> = {
  ...Object.fromEntries(
    Object.entries(damageKinds).map(([name, make]) => [
      name,
      (root: string, paths: readonly string[], draw: Draw) => make(root, draw.one(paths), draw),
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(orphanKinds).map(([name, make]) => [
      name,
      (root: string, [like]: readonly string[], draw: Draw) => make(root, draw.one(datasetNames), like!, draw),
    ]),
  ),
  'swapped files': (root, paths, draw) => {
    const [a, ...rest] = paths.toSorted(() => draw() - 0.5);
    return swapFiles(root, a!, rest[0]!);
  },
};

test('after a repair verify finds no error, no tick is wrong, and a flipped bit costs at most one row group', {
  timeout: searchMsMax,
}, async () => {
  const seen = new Map<string, [cases: number, lost: number]>();
  await search({ name: 'repaired damage', least: 60, share: 0.05 }, async (seed) => {
    const draw = drawFrom(seed);
    const archive = await copyDamageLake(undefined, groupRows);
    const { root } = archive.layout;
    const files = listManifestFiles(archive.readManifest());
    const before = publishedTicks(root);
    const ticks = archive.readManifest().datasets.ticks.files.map(({ path }) => path);
    const paths = draw.chance(0.5) ? ticks : withLock(archive.readManifest());
    const [kind, damaged] = draw.one(Object.entries(kinds));
    const damage = damaged(root, kind === 'swapped files' ? files.map(({ path }) => path) : paths, draw);
    const { repaired, lost, unrecoverable } = await repairNow(archive);
    expect(repaired.length, damage.description).toBeGreaterThan(0);
    expect((await verifyArchive(archive, null)).findings, damage.description).toEqual([]);
    const after = publishedTicks(root);
    const known = new Set(before);
    expect(
      after.filter((tick) => !known.has(tick)),
      damage.description,
    ).toEqual([]);
    const rowsLost = repaired.reduce((sum, file) => sum + (file.rows_lost ?? 0), 0);
    if (kind === 'a flipped bit') expect(rowsLost, damage.description).toBeLessThanOrEqual(groupRows);
    // Lost ticks are reported, as windows to fetch again or as rows lost permanently.
    if (after.length < before.length) expect(lost.length, damage.description).toBeGreaterThan(0);
    if (rowsLost === 0) expect([after.length, unrecoverable], damage.description).toEqual([before.length, []]);
    const [cases, total] = seen.get(kind) ?? [0, 0];
    seen.set(kind, [cases + 1, total + before.length - after.length]);
    archive.close();
  });
  console.log([...seen].map(([kind, [cases, total]]) => `${kind}: ${cases}, ${total} ticks lost`).join('\n'));
});

test('part files of the damaged archive have several row groups', async () => {
  const archive = await copyDamageLake(undefined, groupRows);
  const { files } = archive.readManifest().datasets.ticks;
  expect(Math.max(...files.map(({ rows }) => rows))).toBeGreaterThan(2 * groupRows);
  for (const { path, bytes } of files) expect(bytesOf(archive, path).length, join(path)).toBe(bytes);
});
