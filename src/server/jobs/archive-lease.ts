import type { App, ServiceContext } from '../http/context.ts';
import {
  acquireArchiveLease,
  createArchiveCopyError,
  leaseMs,
  releaseArchiveLease,
} from '../workspace/archive-lease.ts';
import { WorkspaceUnavailableError } from '../workspace/database-url.ts';
import { readArchiveLease } from './export-folder.ts';

/** The lease ID under which this archive's jobs are stored. Exclusive while the service runs. */
export interface HeldArchiveLease {
  readonly leaseId: string;
  /** Aborted if another archive acquired the lease: this process must no longer run the jobs. */
  readonly lostSignal: AbortSignal;
}

/** Interval of renewing the lease, ms: two of three renewals may fail. */
const renewEveryMs = leaseMs / 3;

/** @throws UsageError if a copy of the archive is served with the same database */
export async function holdArchiveLease(app: App, context: ServiceContext): Promise<HeldArchiveLease> {
  const { archive, clock, log, random, settings, workspace } = context;
  const claim = readArchiveLease(archive, random);
  const lost = new AbortController();
  // A database inside the archive is copied with it, so that a copy never shares jobs with the original.
  if (settings.service.databaseUrl === null) return { leaseId: claim.leaseId, lostSignal: lost.signal };
  /** Renews the lease; an unavailable database counts as success, as the next renewal tries again. */
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
