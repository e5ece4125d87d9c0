import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createDisk } from '../../../src/archive/disk/file-system.ts';
import { UsageError } from '../../../src/base/errors.ts';
import {
  acquireArchiveLease,
  leaseMs,
  readLeaseId,
  releaseArchiveLease,
  requireArchiveLease,
} from '../../../src/server/jobs/archive-lease.ts';
import { openWorkspaceDatabase } from '../../../src/server/workspace/workspace-database.ts';
import { opened } from '../../archive/scratch.ts';
import { powerModel } from '../../faults/power-loss.ts';
import { freshDatabase, overEachDatabase } from '../workspace/databases.ts';

const first = { leaseId: 'lease', archiveFile: 'first' };
const copy = { leaseId: 'lease', archiveFile: 'copy' };

overEachDatabase((kind) => {
  test('a lease belongs to its archive while that is served', async () => {
    const db = await openWorkspaceDatabase(await freshDatabase(kind));
    onTestFinished(() => db.destroy());
    const refusal = (nowMs: number) =>
      requireArchiveLease(db, copy, nowMs).then(
        () => null,
        (error: unknown) => error,
      );
    expect(await refusal(1000)).toBeNull();
    expect([await acquireArchiveLease(db, first, 1000), await acquireArchiveLease(db, first, 5000)]).toEqual([
      true,
      true,
    ]);
    expect(await acquireArchiveLease(db, copy, 5000 + leaseMs)).toBe(false);
    expect(await refusal(5000 + leaseMs)).toBeInstanceOf(UsageError);
    expect(await requireArchiveLease(db, first, 5000)).toBeUndefined();
    expect(await acquireArchiveLease(db, { ...copy, leaseId: 'another lease' }, 5000)).toBe(true);
    // Its service was killed, so the other archive takes over.
    expect(await acquireArchiveLease(db, copy, 5001 + leaseMs)).toBe(true);
    expect(await acquireArchiveLease(db, first, 5002 + leaseMs)).toBe(false);
    await releaseArchiveLease(db, first);
    expect(await acquireArchiveLease(db, first, 5002 + leaseMs)).toBe(false);
    await releaseArchiveLease(db, copy);
    expect([await refusal(5002 + leaseMs), await acquireArchiveLease(db, first, 5002 + leaseMs)]).toEqual([null, true]);
  });

  test('only one of two archives acquires a lease at the same time', async () => {
    const db = await openWorkspaceDatabase(await freshDatabase(kind));
    onTestFinished(() => db.destroy());
    const claims = await Promise.all([first, copy, first, copy].map((claim) => acquireArchiveLease(db, claim, 1000)));
    expect(claims.filter(Boolean)).toHaveLength(2);
    expect(claims[0]).toBe(claims[2]);
  });
});

test('a lease ID that was read is durable, although the process that wrote it was killed', () => {
  const top = mkdtempSync(join(tmpdir(), 'oddslake-place-'));
  onTestFinished(() => rmSync(top, { recursive: true }));
  const root = join(top, 'archive');
  opened({ root, parts: 1 }).close();
  const power = powerModel(root);
  const { calls } = power;
  let isDead = false;
  const dying = createDisk({
    ...calls,
    link(from, to) {
      calls.link(from, to);
      isDead = true;
    },
    sync(file) {
      if (isDead) throw new Error('killed');
      calls.sync(file);
    },
  });
  const archive = opened({ root, parts: 1 });
  expect(() => readLeaseId({ ...archive, disk: dying }, () => 0.25)).toThrow('killed');
  const leaseId = readLeaseId({ ...archive, disk: createDisk(calls) }, () => 0.75);
  archive.close();
  power.cut(`${root}.kept`, 'vanished');
  const after = opened({ root: `${root}.kept`, parts: 1 });
  expect(readLeaseId(after, () => 0.5)).toBe(leaseId);
  after.close();
});
