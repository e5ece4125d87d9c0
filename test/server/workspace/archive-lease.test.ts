import { expect, onTestFinished, test } from 'vitest';
import { UsageError } from '../../../src/base/errors.ts';
import {
  acquireArchiveLease,
  leaseMs,
  releaseArchiveLease,
  requireArchiveLease,
} from '../../../src/server/jobs/archive-lease.ts';
import { openWorkspaceDatabase } from '../../../src/server/workspace/database.ts';
import { freshDatabase, overEachDatabase } from './databases.ts';

const first = { leaseId: 'word', archiveFile: 'first' };
const copy = { leaseId: 'word', archiveFile: 'copy' };

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
    expect(await acquireArchiveLease(db, { ...copy, leaseId: 'another word' }, 5000)).toBe(true);
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
