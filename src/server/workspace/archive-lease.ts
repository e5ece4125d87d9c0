import { UsageError } from '../../base/errors.ts';
import type { WorkspaceDatabase } from './database.ts';

/** An archive as the services' database knows it. */
export interface ArchiveLease {
  /** The word that its jobs are kept under; a copy has the same one. */
  readonly leaseId: string;
  /** What no copy has: which file that word is in. */
  readonly archiveFile: string;
}

/** A service that has not said so for as long, ms, serves the archive no more. */
export const leaseMs = 60_000;

/**
 * Says that an archive is served under its place now; several services of one archive may. False where another archive of
 * the same place is: one of the two is a copy, and each would do and undo the other's jobs. Where that one is not served
 * any more, this is the archive, moved or restored.
 */
export async function acquireArchiveLease(
  db: WorkspaceDatabase,
  { leaseId, archiveFile }: ArchiveLease,
  nowMs: number,
): Promise<boolean> {
  const claimed = await db
    .insertInto('places')
    .values({ place: leaseId, archive: archiveFile, served_at: nowMs })
    .onConflict((on) =>
      on
        .column('place')
        .doUpdateSet({ archive: archiveFile, served_at: nowMs })
        .where(({ or, eb }) =>
          or([eb('places.archive', '=', archiveFile), eb('places.served_at', '<', nowMs - leaseMs)]),
        ),
    )
    .returning('place')
    .executeTakeFirst();
  return claimed !== undefined;
}

/** Says that it is served no more. Another service of the same archive says the contrary in a moment. */
export async function releaseArchiveLease(
  db: WorkspaceDatabase,
  { leaseId, archiveFile }: ArchiveLease,
): Promise<void> {
  await db
    .updateTable('places')
    .set({ served_at: 0 })
    .where('place', '=', leaseId)
    .where('archive', '=', archiveFile)
    .execute();
}

/** @throws UsageError where another archive is served under the place of this one */
export async function requireArchiveLease(
  db: WorkspaceDatabase,
  { leaseId, archiveFile }: ArchiveLease,
  nowMs: number,
): Promise<void> {
  const found = await db.selectFrom('places').where('place', '=', leaseId).selectAll().executeTakeFirst();
  if (found === undefined || found.archive === archiveFile || Number(found.served_at) < nowMs - leaseMs) return;
  throw createArchiveCopyError();
}

export const createArchiveCopyError = (): UsageError =>
  new UsageError(
    `This archive is a copy of another one that is being served with the same database, and they would take each other's jobs. ` +
      'Remove .oddslake/exports/place here, and this one has its own from then on; or, where it is to take the place of ' +
      `the other one, stop that one's service first (one that was killed counts as stopped after ${leaseMs / 1000} seconds).`,
  );
