import type { App, ServiceContext } from '../http/context.ts';
import {
  acquireArchiveLease,
  createArchiveCopyError,
  leaseMs,
  releaseArchiveLease,
} from '../workspace/archive-lease.ts';
import { WorkspaceUnavailableError } from '../workspace/database-url.ts';
import { readArchiveLease } from './export-folder.ts';

/** The word that the archive's jobs are kept under, and that is this archive's alone while it is served. */
export interface HeldArchiveLease {
  readonly leaseId: string;
  /** Aborted where another archive came to be served under it after all: its jobs are no longer this one's to make. */
  readonly lostSignal: AbortSignal;
}

/** How often it is said that the archive is being served, ms: one word of three may be lost. */
const renewEveryMs = leaseMs / 3;

/** @throws UsageError where a copy of the archive is being served with the same database */
export async function holdArchiveLease(app: App, context: ServiceContext): Promise<HeldArchiveLease> {
  const { archive, clock, log, random, settings, workspace } = context;
  const claim = readArchiveLease(archive, random);
  const lost = new AbortController();
  // A database in the archive is copied with it: no copy has a job in common with the archive that it was made of.
  if (settings.service.databaseUrl === null) return { leaseId: claim.leaseId, lostSignal: lost.signal };
  /** Where it cannot be told now, it is asked again in a while. */
  const isOurs = (): Promise<boolean> =>
    acquireArchiveLease(workspace.db, claim, clock.nowMs()).catch((error: unknown) => {
      if (error instanceof WorkspaceUnavailableError) return true;
      throw error;
    });
  if (!(await isOurs())) throw createArchiveCopyError();

  async function sayAgain(): Promise<void> {
    if (lost.signal.aborted || (await isOurs())) return;
    log.error({}, createArchiveCopyError().message);
    lost.abort();
  }
  let timer: NodeJS.Timeout | undefined;
  app.addHook('onReady', async () => {
    const failed = (error: unknown): void => log.error({ err: error }, 'it cannot be said that the archive is served');
    timer = setInterval(() => void sayAgain().catch(failed), renewEveryMs).unref();
  });
  app.addHook('onClose', async () => {
    clearInterval(timer);
    // What is not said now is taken for said later.
    await releaseArchiveLease(workspace.db, claim).catch(() => {});
  });
  return { leaseId: claim.leaseId, lostSignal: lost.signal };
}
