import type { Archive } from '../../archive/archive.ts';
import { OddslakeError, UsageError } from '../../base/errors.ts';
import { formatIsoUtc } from '../../base/time.ts';
import { minuteMs } from '../../base/window.ts';
import { remoteManifestPath } from '../../bucket/bucket-manifest.ts';
import type { Lease, TakeoverRule } from '../../bucket/lease.ts';
import { type ObjectStore, StoreError } from '../../bucket/object-store.ts';
import type { Context } from '../../context/context.ts';
import { openConfiguredArchive } from '../../context/open-configured.ts';
import { pullToFolder, withObjectStore } from '../steps/bucket-access.ts';
import { attemptLease, usesLease } from '../steps/lease-step.ts';

/** The lease is looked at this often while it lasts, and at least once a minute. */
const looksPerLease = 10;

/**
 * Waits until this machine holds the lease of the bucket in the settings, and its archive has everything that is there. Meanwhile
 * keeps the archive a copy of the one in the bucket. A bucket that cannot be reached is waited for.
 * @param takesOverNow whether a lease is taken over before it expires
 * @throws UsageError if the settings have no lease, or the archive has data that the bucket lacks
 */
export async function waitForLease(context: Context, takesOverNow: boolean): Promise<Lease> {
  const { clock, log, signal, settings } = context;
  const { leaseMinutes } = settings.bucket;
  if (!usesLease(context))
    throw new UsageError('A standby needs the settings bucket.url and bucket.lease_minutes, on both machines.');
  const lookMs = Math.min((leaseMinutes * minuteMs) / looksPerLease, minuteMs);
  const copy = createCopy(context);
  let told = '';
  for (let takesOver: TakeoverRule = takesOverNow ? 'always' : 'if expired'; ; takesOver = 'if expired') {
    try {
      const { isOurs, lease } = await withObjectStore(context, undefined, async (store) => {
        const attempt = await withArchive(context, (archive) => attemptLease(context, archive, store, takesOver));
        if (!attempt.isOurs) await copy.update(store);
        return attempt;
      });
      if (isOurs) return lease;
      if (told !== lease.holder) {
        told = lease.holder;
        log.info({ host: lease.host, until: formatIsoUtc(lease.expires_at) }, 'standing by: another machine collects');
      }
    } catch (error) {
      if (!(error instanceof StoreError && error.failure === 'unreachable')) throw error;
      log.warn({ err: error }, 'standing by: the bucket cannot be reached');
    }
    await clock.sleep(lookMs, signal);
  }
}

async function withArchive<T>(context: Context, work: (archive: Archive) => Promise<T>): Promise<T> {
  const archive = openConfiguredArchive(context, true);
  try {
    return await work(archive);
  } finally {
    archive.close();
  }
}

/** Keeps the archive of the settings a copy of the one in the bucket, so that a takeover has little to download. */
function createCopy(context: Context): { update(store: ObjectStore): Promise<void> } {
  let copied = '';
  return {
    async update(store) {
      const head = await store.head(remoteManifestPath);
      if (head === null || head.etag === copied) return;
      try {
        const { generation, downloaded } = await pullToFolder(context, store, context.settings.archive.output);
        copied = head.etag;
        if (downloaded.files > 0) context.log.info({ generation, files: downloaded.files }, 'pulled');
      } catch (error) {
        // Objects that a repair replaces at this moment, for example.
        if (!(error instanceof OddslakeError) || error instanceof UsageError) throw error;
        context.log.warn({ err: error }, 'the copy was not updated');
      }
    },
  };
}
