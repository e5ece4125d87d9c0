import { UsageError } from '../../base/errors.ts';
import { minuteMs } from '../../base/window.ts';
import type { WorkspaceDatabase } from './database.ts';

/** An archive in the service's database. */
export interface ArchiveLease {
  /** The ID under which its jobs are stored; a copy of the archive has the same. */
  readonly leaseId: string;
  /** Identity of the file that stores the ID; a copy has another. */
  readonly archiveFile: string;
}

/** A lease that was not renewed for this time has expired, ms. */
export const leaseMs = minuteMs;

/**
 * Acquires or renews the lease of an archive; several services of one archive may hold it. Returns false if another
 * archive with the same ID holds it: one of the two is a copy, and they would run each other's jobs. If that lease has
 * expired, this archive takes it over, as it was moved or restored.
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

/** Releases the lease. Another service of the same archive renews it soon. */
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

/** @throws UsageError if another archive with the same lease ID is served */
export async function requireArchiveLease(
  db: WorkspaceDatabase,
  { leaseId, archiveFile }: ArchiveLease,
  nowMs: number,
): Promise<void> {
  const lease = await db.selectFrom('places').where('place', '=', leaseId).selectAll().executeTakeFirst();
  if (lease === undefined || lease.archive === archiveFile || Number(lease.served_at) < nowMs - leaseMs) return;
  throw createArchiveCopyError();
}

export const createArchiveCopyError = (): UsageError =>
  new UsageError(
    `This archive is a copy of another one that is served with the same database, and they would run each other's jobs. ` +
      'To give this archive its own jobs, remove its .oddslake/exports/place. To replace ' +
      `the other archive by this one, stop the service of the other one first (a killed one counts as stopped after ${leaseMs / 1000} seconds).`,
  );
