import { cpSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createDisk, sha256 } from '../../src/archive/disk/file-system.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { recoverPublish } from '../../src/archive/publish/publish.ts';
import {
  apartCalls,
  apartDisk,
  dayFolder,
  expected,
  filesOf,
  movedApart,
  part,
  second,
  start,
} from '../archive/apart.ts';
import { append, clockAt, now, publishNow } from '../archive/scratch.ts';
import { fastScratch } from './damage-lake.ts';
import { faultCalls } from './fault-disk.ts';
import { type FaultKind, startFaults } from './fault-points.ts';

test('the next run finishes a publish to another file system after a fault, and readers never see half of it', async () => {
  const expectedFiles = await expected();
  const origin = await movedApart(join(fastScratch(), 'moved'), dayFolder);
  const before = sha256(readFileSync(join(origin, part())));

  /** Publishes with a fault at one call, then again without; resolves to the calls of the first publish. */
  async function struck(kind: FaultKind, at: number): Promise<readonly string[]> {
    const place = fastScratch();
    const [root, moved] = [join(place, 'archive'), join(place, 'moved')];
    cpSync(origin, root, { recursive: true, verbatimSymlinks: true });
    rmSync(join(root, dayFolder));
    cpSync(join(origin, dayFolder), moved, { recursive: true, dereference: true });
    symlinkSync(moved, join(root, dayFolder));
    const folders = [join(root, dayFolder)];
    const faults = startFaults({ at, kind });
    const dying = start(root, createDisk(faultCalls(faults, apartCalls(folders))));
    append(dying, ...second);
    await publishNow(dying).catch(() => {});
    dying.close();

    expect([before, expectedFiles[part()]]).toContain(sha256(readFileSync(join(root, part()))));
    const next = start(root, apartDisk(folders));
    // A half-copied file next to its target is no orphan while the publish is unfinished.
    expect((await verifyArchive(next, null)).findings, `${kind} at ${at}`).toEqual([]);
    await recoverPublish(next, 0, clockAt(now));
    await publishNow(next);
    expect(filesOf(root), `${kind} at ${at}`).toEqual(expectedFiles);
    next.close();
    return faults.calls;
  }

  const calls = await struck('crash before', Number.POSITIVE_INFINITY);
  const draft = calls.indexOf('open .part-00.parquet.next') + 1;
  expect(calls.slice(draft - 2, draft + 3)).toEqual([
    'rename part-00.parquet',
    ...['open', 'write', 'fsync'].map((call) => `${call} .part-00.parquet.next`),
    'rename part-00.parquet',
  ]);
  for (const kind of ['crash before', 'crash after', 'torn write', 'EIO', 'ENOSPC'] as const)
    for (let at = draft - 1; at <= draft + 4; at++) await struck(kind, at);
});
