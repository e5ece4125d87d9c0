import { hostname } from 'node:os';
import type { Archive } from '../../archive/archive.ts';
import { getMeta, manifestHashKey } from '../../archive/journal/database.ts';
import { hasHadGeneration } from '../../archive/journal/generations.ts';
import { UsageError } from '../../base/errors.ts';
import { minuteMs } from '../../base/window.ts';
import type { RemoteManifest } from '../../bucket/bucket-manifest.ts';
import type { Lease, LeaseAnswer, LeaseRecord, LeaseRequest, TakeoverRule } from '../../bucket/lease.ts';
import type { ObjectStore } from '../../bucket/object-store.ts';
import type { Context } from '../../context/context.ts';
import { openConfiguredArchive } from '../../context/open-configured.ts';
import { pullToFolder, withObjectStore } from './bucket-access.ts';

/** A lease that is renewed. */
export interface HeldLease {
  /** Ends the renewals. The lease stays until it expires. */
  stop(): void;
}

/**
 * Whether the settings have a lease.
 * @throws UsageError if the server may lack the conditional writes that a lease needs
 */
export function usesLease({ settings: { bucket } }: Pick<Context, 'settings'>): boolean {
  if (bucket.url === null || bucket.leaseMinutes === 0) return false;
  if (!bucket.singleWriter) return true;
  throw new UsageError('bucket.lease_minutes does not go with bucket.single_writer: a lease needs conditional writes.');
}

/**
 * Makes sure that this machine is the one that collects the archive of the bucket in the settings, and renews its lease until
 * `stop`. Null if the settings have no lease.
 * @param canCreate whether the archive may be created
 * @throws LeaseHeldError if another machine holds the lease
 */
export async function holdLease(context: Context, canCreate: boolean): Promise<HeldLease | null> {
  if (!usesLease(context)) return null;
  const archive = openConfiguredArchive(context, canCreate);
  try {
    await withObjectStore(context, undefined, (store) => requireLease(context, archive, store));
    return renewUntilStopped(context, readHolder(context, archive, await loadLease()));
  } finally {
    archive.close();
  }
}

const loadLease = () => import('../../bucket/lease.ts');
type LeaseModule = Awaited<ReturnType<typeof loadLease>>;

async function requireLease(context: Context, archive: Archive, store: ObjectStore): Promise<void> {
  const { LeaseHeldError, readHeldToken } = await loadLease();
  try {
    const { isOurs, isExpired, lease } = await attemptLease(context, archive, store, 'never');
    if (!isOurs) throw new LeaseHeldError(store.url, lease, isExpired);
  } catch (error) {
    const { StoreError } = await import('../../bucket/object-store.ts');
    const isUnreachable = error instanceof StoreError && error.failure === 'unreachable';
    // Collecting is what cannot be done later. If another machine collects too, that costs requests and no rows.
    if (!isUnreachable || readHeldToken(archive.state.db, store) === 0) throw error;
    context.log.warn({ err: error }, 'the lease of the bucket could not be renewed; collecting nevertheless');
  }
}

function readHolder({ random }: Context, { state: { db } }: Archive, lease: LeaseModule): LeaseRecord {
  return db.transaction(() => {
    const known = lease.readLeaseRecord(db);
    if (known !== null) return known;
    const holder = [1, 2, 3].map(() => Math.floor(random() * 36 ** 8).toString(36)).join('');
    const record = { holder, url: null, token: null };
    lease.writeLeaseRecord(db, record);
    return record;
  });
}

const createRequest = ({ settings }: Context, { holder }: LeaseRecord, takesOver: TakeoverRule): LeaseRequest => ({
  holder,
  host: hostname(),
  leaseMs: settings.bucket.leaseMinutes * minuteMs,
  takesOver,
});

/**
 * Claims the lease, or takes it over. Once it is held, the archive gets everything that is in the bucket. Before that nothing is
 * written if the archive has data that the bucket lacks.
 * @throws UsageError if it has
 */
export async function attemptLease(
  context: Context,
  archive: Archive,
  store: ObjectStore,
  takesOver: TakeoverRule,
): Promise<LeaseAnswer> {
  const [lease, { readRemoteManifest }] = await Promise.all([loadLease(), import('../../bucket/bucket-manifest.ts')]);
  const holder = readHolder(context, archive, lease);
  const state = await lease.requestLease(store, createRequest(context, holder, takesOver), {
    clockMs: () => context.clock.nowMs(),
    beforeChange: async () => await requireNothingLost(archive, store, await readRemoteManifest(store)),
  });
  if (state.isOurs && state.lease.token !== lease.readHeldToken(archive.state.db, store))
    await catchUp(context, archive, store, state.lease);
  return state;
}

/** @throws UsageError if the archive has to be replaced by the one in the bucket, and has data that this one lacks */
async function requireNothingLost(
  archive: Archive,
  { url }: ObjectStore,
  remote: RemoteManifest | null,
): Promise<void> {
  if (remote === null || hasRemote(archive, remote)) return;
  const { requireReplaceable } = await import('../../archive/publish/adopt-generation.ts');
  requireReplaceable(archive, url);
}

/** Whether the archive is the generation in the bucket or descends from it. */
function hasRemote({ state }: Archive, { manifest, bucket }: RemoteManifest): boolean {
  if (getMeta(state.db, manifestHashKey) === bucket.manifest_sha256) return true;
  const known = hasHadGeneration(state.db, manifest.generation, bucket.manifest_sha256);
  return state.generation() > 0 && (known ?? state.generation() > manifest.generation);
}

/**
 * Does what follows a takeover: locks out pushes of the last holder, then gets what it has pushed. The token is recorded last, so
 * that an interrupted takeover is continued.
 */
async function catchUp(context: Context, archive: Archive, store: ObjectStore, { token }: Lease): Promise<void> {
  const [lease, { fenceBucket }] = await Promise.all([loadLease(), import('../../bucket/fence.ts')]);
  const { holder } = readHolder(context, archive, lease);
  const remote = await fenceBucket(store, token);
  if (remote !== null && !hasRemote(archive, remote)) {
    const pulled = await pullToFolder(context, store, context.settings.archive.output);
    context.log.info({ generation: pulled.generation, files: pulled.downloaded.files }, 'pulled');
  }
  lease.writeLeaseRecord(archive.state.db, { holder, url: store.url, token });
}

const createLostError = (): Error => new Error('there is no lease in the bucket');

/** Renewals in the time of a lease, so that one may fail. */
const renewalsPerLease = 3;

function renewUntilStopped(context: Context, holder: LeaseRecord): HeldLease {
  const { clock, log } = context;
  const stopped = new AbortController();
  const signal = AbortSignal.any([context.signal, stopped.signal]);
  const request = createRequest(context, holder, 'never');
  async function renew(): Promise<boolean> {
    try {
      const { requestLease } = await loadLease();
      const state = await withObjectStore({ ...context, signal }, undefined, (store) =>
        // A lease that somebody has removed is claimed by the next job, which looks at the archive too.
        requestLease(store, request, {
          clockMs: () => clock.nowMs(),
          beforeChange: () => Promise.reject(createLostError()),
        }),
      );
      if (!state.isOurs)
        log.warn({ host: state.lease.host }, 'another machine has taken over; this one cannot push any more');
      return state.isOurs;
    } catch (err) {
      if (!signal.aborted) log.warn({ err }, 'the lease of the bucket could not be renewed');
      return true;
    }
  }
  async function renewAll(): Promise<void> {
    do {
      await clock.sleep(request.leaseMs / renewalsPerLease, signal);
    } while (await renew());
  }
  renewAll().catch((err: unknown) => {
    if (!signal.aborted) log.error({ err }, 'the lease of the bucket is not renewed any more');
  });
  return { stop: () => stopped.abort() };
}
