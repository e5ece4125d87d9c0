import { expect, onTestFinished, test } from 'vitest';
import { UsageError } from '../../src/core/errors.ts';
import { claimPlace, leavePlace, requireOwnPlace, servedMs } from '../../src/workspace/archive-lease.ts';
import { openWorkspaceDatabase } from '../../src/workspace/database.ts';
import { freshDatabase, overEachDatabase } from './databases.ts';

const first = { place: 'word', archive: 'first' };
const copy = { place: 'word', archive: 'copy' };

overEachDatabase((kind) => {
  test('a place is the archive of whom it was claimed for as long as that one is served', async () => {
    const db = await openWorkspaceDatabase(await freshDatabase(kind));
    onTestFinished(() => db.destroy());
    const refusal = (nowMs: number) =>
      requireOwnPlace(db, copy, nowMs).then(
        () => null,
        (error: unknown) => error,
      );
    expect(await refusal(1000)).toBeNull();
    expect([await claimPlace(db, first, 1000), await claimPlace(db, first, 5000)]).toEqual([true, true]);
    expect(await claimPlace(db, copy, 5000 + servedMs)).toBe(false);
    expect(await refusal(5000 + servedMs)).toBeInstanceOf(UsageError);
    expect(await requireOwnPlace(db, first, 5000)).toBeUndefined();
    expect(await claimPlace(db, { ...copy, place: 'another word' }, 5000)).toBe(true);
    // Its service was killed: the other archive is what was made of it.
    expect(await claimPlace(db, copy, 5001 + servedMs)).toBe(true);
    expect(await claimPlace(db, first, 5002 + servedMs)).toBe(false);
    await leavePlace(db, first);
    expect(await claimPlace(db, first, 5002 + servedMs)).toBe(false);
    await leavePlace(db, copy);
    expect([await refusal(5002 + servedMs), await claimPlace(db, first, 5002 + servedMs)]).toEqual([null, true]);
  });

  test('of two archives that claim one place at the same moment one has it', async () => {
    const db = await openWorkspaceDatabase(await freshDatabase(kind));
    onTestFinished(() => db.destroy());
    const claims = await Promise.all([first, copy, first, copy].map((claim) => claimPlace(db, claim, 1000)));
    expect(claims.filter(Boolean)).toHaveLength(2);
    expect(claims[0]).toBe(claims[2]);
  });
});
