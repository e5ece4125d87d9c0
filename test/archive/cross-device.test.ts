import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type Disk, systemDisk } from '../../src/archive/disk/file-system.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { openArchiveQuery } from '../../src/archive/query/pinned-query.ts';
import { takeSnapshot } from '../../src/archive/read/snapshot.ts';
import {
  apartDisk,
  dayFolder,
  elsewhere,
  expected,
  filesOf,
  first,
  movedApart,
  part,
  second,
  start,
  ticksOf,
} from './apart.ts';
import { repairNow } from './damaged.ts';
import { answer, append, day0, publishNow, scratchFolder } from './scratch.ts';

/** Every operation that must work with an archive folder on another file system. */
async function expectAllWorks(root: string, disk: Disk): Promise<void> {
  const tree = await expected();
  const archive = start(root, disk);
  append(archive, ...second);
  await publishNow(archive);
  expect(filesOf(root)).toEqual(tree);
  expect((await verifyArchive(archive, null)).findings).toEqual([]);

  const { query, close } = await openArchiveQuery(archive, 'select count(*) as n from ticks', () => 0.5);
  await query.close();
  await close();
  const snapshot = join(scratchFolder(), 'snap');
  await takeSnapshot(archive, snapshot, { id: 'a' });
  expect(filesOf(snapshot)).toEqual(tree);

  writeFileSync(join(root, part()), 'no file of Parquet');
  writeFileSync(join(root, dayFolder, 'copy.parquet'), 'PAR1');
  const repaired = await repairNow(archive);
  expect(repaired.repaired.map(({ path, outcome }) => [path, outcome])).toEqual([
    [part(), 'removed'],
    [`${dayFolder}/copy.parquet`, 'quarantined'],
  ]);
  const kept = repaired.repaired.map(({ moved_to }) => readFileSync(join(root, moved_to!), 'utf8'));
  expect(kept).toEqual(['no file of Parquet', 'PAR1']);
  append(archive, answer('AAA', [...first[0]!.ticks.t].map((t) => [t, 0.5]) as [number, number][]));
  append(archive, answer('AAA', [[day0 + 1, 0.6]]));
  await publishNow(archive);
  expect(filesOf(root, ['ticks'])).toEqual(ticksOf(tree));
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
}

describe('an archive with folders on another file system is published, read, copied and repaired', () => {
  test('a dataset, on a real file system', async () => {
    const place = elsewhere();
    if (place === null) {
      console.warn('SKIPPED: /dev/shm is no other file system than the temporary folder here.');
      return;
    }
    await expectAllWorks(await movedApart(join(place, 'moved'), 'ticks'), systemDisk);
  });

  test.each([dayFolder, '.oddslake'])('%s, on a simulated one', async (folder) => {
    const root = await movedApart(join(scratchFolder(), 'moved'), folder);
    await expectAllWorks(root, apartDisk([join(root, folder)]));
  });
});

test('an invalid file on another file system is left in place, with advice', async () => {
  const root = await movedApart(join(scratchFolder(), 'moved'), dayFolder);
  mkdirSync(join(root, dayFolder, 'sub.parquet'));
  const archive = start(root, apartDisk([join(root, dayFolder)]));
  await expect(repairNow(archive)).rejects.toMatchObject({
    exitCode: 6,
    message: expect.stringMatching(
      /sub\.parquet .* is not a regular file, .* Move it away and run the command again\.$/,
    ),
  });
  expect(existsSync(join(root, dayFolder, 'sub.parquet'))).toBe(true);
  rmSync(join(root, dayFolder, 'sub.parquet'), { recursive: true });
  expect((await repairNow(archive)).repaired).toEqual([]);
});

test('a publish into a link without a target reports it, and finishes once it is back', async () => {
  const root = await movedApart(join(scratchFolder(), 'moved'), dayFolder);
  const archive = start(root, systemDisk);
  const target = join(root, 'ticks/date=2026-06-03');
  symlinkSync(join(root, 'later'), target);
  append(archive, ...second);
  await expect(publishNow(archive)).rejects.toMatchObject({
    exitCode: 1,
    message: expect.stringContaining(`${target} is a symbolic link whose target does not exist.`),
  });
  mkdirSync(join(root, 'later'));
  await publishNow(archive);
  expect(filesOf(root, ['ticks'])).toEqual(ticksOf(await expected()));
});

test.each(['ticks', dayFolder])('a repair removes nothing of %s, a link without a target', async (folder) => {
  const [place, movedTo] = [join(scratchFolder(), 'moved'), join(scratchFolder(), 'away')];
  const root = await movedApart(place, folder);
  const before = filesOf(root);
  const archive = start(root, systemDisk);
  renameSync(place, movedTo);
  await expect(repairNow(archive)).rejects.toMatchObject({
    exitCode: 6,
    message: expect.stringContaining(`${join(root, folder)} is a symbolic link whose target does not exist.`),
  });
  renameSync(movedTo, place);
  expect(await repairNow(archive)).toMatchObject({ repaired: [], lost: [] });
  expect(filesOf(root)).toEqual(before);
  // A user who removes the link gives up its contents.
  rmSync(join(root, folder));
  expect((await repairNow(archive)).lost.length).toBeGreaterThan(0);
});
