import { join } from 'node:path';
import type { Archive } from '../../archive/archive.ts';
import { sha256, tryLink } from '../../archive/disk/file-system.ts';
import { UsageError } from '../../base/errors.ts';
import type { Random } from '../../base/ports.ts';
import { minuteMs } from '../../base/window.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import { WorkspaceUnavailableError } from '../workspace/database-url.ts';
import { generateRandomId } from '../workspace/tables.ts';
import type { WorkspaceDatabase } from '../workspace/workspace-database.ts';

/*
 * Several archives may share one database. Each stores its jobs under its lease ID, which is stored in a file of the
 * archive. A copy of an archive has the same ID, so the service acquires a lease in the database, and only one archive
 * can hold it.
 */

/** The file with the lease ID, in the private folder of the archive. */
const leaseFileName = 'lease-id';

/** Length of a lease ID that is made from an address: that of a random one. */
const leaseIdChars = 20;

/** An archive in the service's database. */
interface ArchiveLease {
  /** The ID under which its jobs are stored; a copy of the archive has the same. */
  readonly leaseId: string;
  /** Identity of the file that stores the ID; differs in every copy. */
  readonly archiveFile: string;
}

/** The lease ID that distinguishes this archive's jobs from those of other archives in the same database. */
export function readLeaseId({ disk, layout }: Archive, random: Random): string {
  const folder = layout.privateFolder;
  const file = toLeaseFilePath(layout);
  if (disk.size(file) === null) {
    disk.makeFolder(folder);
    const draft = join(folder, `next-${leaseFileName}-${process.pid}-${generateRandomId(random)}`);
    disk.write(draft, Buffer.from(generateRandomId(random) + generateRandomId(random)));
    try {
      if (!tryLink(disk, draft, file)) disk.rename(draft, file);
    } catch (error) {
      // Another process wrote its ID first.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    } finally {
      disk.remove(draft);
    }
  }
  // The process that wrote the file may have been killed before the file name was durable. A lost ID would orphan its
  // jobs.
  disk.syncFolder(folder);
  return Buffer.from(disk.read(file)).toString('utf8');
}

/**
 * Sets the lease ID of an archive that has a new folder each time it is opened, from what stays the same: its address. So the
 * jobs and backtests in the database are found again.
 */
export function setLeaseId({ disk, layout }: Archive, address: string): void {
  disk.makeFolder(layout.privateFolder);
  disk.write(toLeaseFilePath(layout), Buffer.from(sha256(Buffer.from(address)).slice(0, leaseIdChars)));
}

/** The lease ID, and the identity of the file that stores it, which differs in every copy of the archive. */
export const readArchiveLease = (archive: Archive, random: Random): ArchiveLease => ({
  leaseId: readLeaseId(archive, random),
  archiveFile: archive.disk.stamp(toLeaseFilePath(archive.layout))!,
});

const toLeaseFilePath = ({ privateFolder }: Archive['layout']): string => join(privateFolder, leaseFileName);

/** A lease expires if it is not renewed for this time, ms. */
export const leaseMs = minuteMs;

/**
 * Acquires or renews the lease of an archive; several services of one archive may hold it. Returns false if another
 * archive with the same ID holds it: one of the two is a copy, and they would run each other's jobs. If that lease has
 * expired, this archive was moved or restored, and it takes over the lease.
 */
export async function acquireArchiveLease(
  db: WorkspaceDatabase,
  { leaseId, archiveFile }: ArchiveLease,
  nowMs: number,
): Promise<boolean> {
  const claimed = await db
    .insertInto('archive_leases')
    .values({ lease_id: leaseId, archive: archiveFile, served_at: nowMs })
    .onConflict((on) =>
      on
        .column('lease_id')
        .doUpdateSet({ archive: archiveFile, served_at: nowMs })
        .where(({ or, eb }) =>
          or([eb('archive_leases.archive', '=', archiveFile), eb('archive_leases.served_at', '<', nowMs - leaseMs)]),
        ),
    )
    .returning('lease_id')
    .executeTakeFirst();
  return claimed !== undefined;
}

/** Releases the lease. Another service of the same archive renews it soon. */
export async function releaseArchiveLease(
  db: WorkspaceDatabase,
  { leaseId, archiveFile }: ArchiveLease,
): Promise<void> {
  await db
    .updateTable('archive_leases')
    .set({ served_at: 0 })
    .where('lease_id', '=', leaseId)
    .where('archive', '=', archiveFile)
    .execute();
}

/** @throws UsageError if another archive with the same lease ID is served */
export async function requireArchiveLease(
  db: WorkspaceDatabase,
  { leaseId, archiveFile }: ArchiveLease,
  nowMs: number,
): Promise<void> {
  const lease = await db.selectFrom('archive_leases').where('lease_id', '=', leaseId).selectAll().executeTakeFirst();
  if (lease === undefined || lease.archive === archiveFile || lease.served_at < nowMs - leaseMs) return;
  throw createArchiveCopyError();
}

const createArchiveCopyError = (): UsageError =>
  new UsageError(
    `This archive is a copy of another archive whose service uses the same database, and they would run each other's jobs. ` +
      'To give this archive its own jobs, remove its .oddslake/lease-id. To replace ' +
      `the other archive with this one, stop the service of the other one first (a killed one counts as stopped after ${leaseMs / 1000} seconds).`,
  );

/** The lease ID under which this archive's jobs are stored. Exclusive while the service runs. */
export interface HeldArchiveLease {
  readonly leaseId: string;
  /** Aborted if another archive acquired the lease: this process must no longer run the jobs. */
  readonly lostSignal: AbortSignal;
}

/** Interval between lease renewals, ms: two out of three may fail. */
const renewEveryMs = leaseMs / 3;

/** @throws UsageError if a service for a copy of the archive uses the same database */
export async function holdArchiveLease(app: App, context: ServiceContext): Promise<HeldArchiveLease> {
  const { archive, clock, log, random, settings, workspace } = context;
  const claim = readArchiveLease(archive, random);
  const lost = new AbortController();
  // A database inside the archive is copied with it, so that a copy never shares jobs with the original.
  if (settings.service.databaseUrl === null) return { leaseId: claim.leaseId, lostSignal: lost.signal };
  /** Renews the lease. If the database is unavailable, this counts as success, because the next renewal tries again. */
  const isOurs = (): Promise<boolean> =>
    acquireArchiveLease(workspace.db, claim, clock.nowMs()).catch((error: unknown) => {
      if (error instanceof WorkspaceUnavailableError) return true;
      throw error;
    });
  if (!(await isOurs())) throw createArchiveCopyError();

  async function renewLease(): Promise<void> {
    if (lost.signal.aborted || (await isOurs())) return;
    log.error({}, createArchiveCopyError().message);
    lost.abort();
  }
  let timer: NodeJS.Timeout | undefined;
  app.addHook('onReady', async () => {
    const failed = (error: unknown): void => log.error({ err: error }, 'cannot renew the lease of the archive');
    timer = setInterval(() => void renewLease().catch(failed), renewEveryMs).unref();
  });
  app.addHook('onClose', async () => {
    clearInterval(timer);
    // Ignore errors: the lease expires by itself.
    await releaseArchiveLease(workspace.db, claim).catch(() => {});
  });
  return { leaseId: claim.leaseId, lostSignal: lost.signal };
}
