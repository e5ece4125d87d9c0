import { sha256 } from '../archive/disk/file-system.ts';
import { type Database, getMeta, leaseKey, setMeta } from '../archive/journal/database.ts';
import { exitCodes, OddslakeError, UsageError } from '../base/errors.ts';
import { formatIsoUtc } from '../base/time.ts';
import { readRemoteManifest } from './bucket-manifest.ts';
import type { ObjectStore } from './object-store.ts';

// Which of several machines collects the archive of a bucket. The lease is an object beside the manifest. It only keeps machines
// from doing the same work: a machine that still believes to hold it loses nothing and overwrites nothing, because the manifest
// has the fencing token of the last takeover, and a push with an older token is refused.

export const leasePath = 'lease.json';

/** The lease in a bucket. */
export interface Lease {
  readonly format: number;
  /** The random ID of the archive that holds it; see `LeaseRecord`. */
  readonly holder: string;
  /** Name of its machine, for messages. */
  readonly host: string;
  /** Fencing token: 1 for the first holder, greater with each change of the holder. */
  readonly token: number;
  /** Epoch ms of the server's clock. It may be renewed until then, and later as long as nobody has taken over. */
  readonly expires_at: number;
}

const leaseFormat = 1;

/** When an archive may take the lease of another one. A lease that nobody holds is taken always. */
export type TakeoverRule = 'never' | 'if expired' | 'always';

export interface LeaseRequest {
  readonly holder: string;
  readonly host: string;
  readonly leaseMs: number;
  readonly takesOver: TakeoverRule;
}

export interface LeaseHooks {
  /** The local clock, for servers that do not state theirs. */
  readonly clockMs: () => number;
  /** Called before the lease is claimed or taken over. If it throws, the lease stays as it is. */
  readonly beforeChange: () => Promise<void>;
}

export type LeaseDecision =
  /** It is ours and needs no renewal yet. */
  | { readonly kind: 'keep'; readonly lease: Lease }
  | { readonly kind: 'write'; readonly lease: Lease }
  | { readonly kind: 'held'; readonly lease: Lease; readonly isExpired: boolean };

/**
 * Decides what to do with the lease of a bucket.
 * @param current null if there is none
 * @param fence the token in the manifest; 0 if there is none. Used only if there is no lease, which may have been removed
 * @param nowMs by the clock that `expires_at` counts by
 */
export function decideLease(
  current: Lease | null,
  { holder, host, leaseMs, takesOver }: LeaseRequest,
  fence: number,
  nowMs: number,
): LeaseDecision {
  const next = { format: leaseFormat, holder, host, expires_at: nowMs + leaseMs };
  if (current === null) return { kind: 'write', lease: { ...next, token: fence + 1 } };
  if (current.holder === holder) {
    const isFresh = current.expires_at - nowMs > leaseMs / 2;
    return isFresh ? { kind: 'keep', lease: current } : { kind: 'write', lease: { ...next, token: current.token } };
  }
  const isExpired = nowMs >= current.expires_at;
  const takes = takesOver === 'always' || (takesOver === 'if expired' && isExpired);
  return takes
    ? { kind: 'write', lease: { ...next, token: current.token + 1 } }
    : { kind: 'held', lease: current, isExpired };
}

/** The lease after a request for it. */
export interface LeaseAnswer {
  readonly isOurs: boolean;
  /** Whether the lease of another holder has expired. */
  readonly isExpired: boolean;
  readonly lease: Lease;
}

const lostRacesMax = 5;

/**
 * Claims, renews or takes over the lease of a bucket, as `decideLease` says.
 * @throws OddslakeError if other machines kept coming first
 */
export async function requestLease(
  store: ObjectStore,
  request: LeaseRequest,
  { clockMs, beforeChange }: LeaseHooks,
): Promise<LeaseAnswer> {
  for (let attempt = 1; attempt <= lostRacesMax; attempt++) {
    const found = await store.get(leasePath);
    const current = found === null ? null : parseLease(Buffer.from(found.bytes).toString('utf8'), store.url);
    const fence = current === null ? ((await readRemoteManifest(store))?.bucket.fence ?? 0) : 0;
    const decision = decideLease(current, request, fence, store.serverTimeMs() ?? clockMs());
    const { kind, lease } = decision;
    if (kind === 'held') return { isOurs: false, isExpired: decision.isExpired, lease };
    if (kind === 'keep') return { isOurs: true, isExpired: false, lease };
    if (current?.holder !== request.holder) await beforeChange();
    const bytes = Buffer.from(`${JSON.stringify(lease, null, 1)}\n`);
    const condition = found === null ? 'absent' : { etag: found.etag };
    if ((await store.put(leasePath, bytes, sha256(bytes), condition, 'application/json')) !== null)
      return { isOurs: true, isExpired: false, lease };
  }
  throw new OddslakeError(exitCodes.busy, `Other machines took the lease of ${store.url} first. Try again.`);
}

function parseLease(text: string, url: string): Lease {
  let lease: Partial<Lease> | null = null;
  try {
    lease = JSON.parse(text) as Partial<Lease> | null;
  } catch {}
  if (typeof lease?.format === 'number' && lease.format > leaseFormat)
    throw new UsageError(`${url}/${leasePath} was written by a newer oddslake. Upgrade oddslake.`);
  const { holder, host, token, expires_at: expiresAt } = lease ?? {};
  const isLease = typeof holder === 'string' && typeof host === 'string';
  if (isLease && Number.isSafeInteger(token) && Number.isSafeInteger(expiresAt)) return lease as Lease;
  throw new OddslakeError(
    exitCodes.damaged,
    `${url}/${leasePath} is damaged: it is not a lease. Remove it: the next machine that collects writes a new one.`,
  );
}

/** Another machine collects the archive. */
export class LeaseHeldError extends OddslakeError {
  readonly lease: Lease;
  constructor(url: string, lease: Lease, isExpired: boolean) {
    const { host, expires_at: expiresAt } = lease;
    const until = isExpired
      ? `${host} collects this archive; its lease of ${url} ended at ${formatIsoUtc(expiresAt)}. To take over: oddslake standby.`
      : `${host} collects this archive: it holds the lease of ${url} until ${formatIsoUtc(expiresAt)}. To take over when it is gone: oddslake standby.`;
    super(exitCodes.busy, until);
    this.name = 'LeaseHeldError';
    this.lease = lease;
  }
}

/** A push whose fencing token is older than that of the manifest. */
export const createFencedError = (url: string): OddslakeError =>
  new OddslakeError(
    exitCodes.busy,
    `Nothing was pushed to ${url}: another machine has taken over this archive (oddslake standby), and this one no longer holds the lease. What it collected since is only here.`,
  );

/** What an archive remembers of leases. */
export interface LeaseRecord {
  /** Random ID of this archive as a holder. */
  readonly holder: string;
  /** Where it holds a lease or held its last one; null if it never did. */
  readonly url: string | null;
  /** The token of that lease, once this archive had everything that was in the bucket. */
  readonly token: number | null;
}

export function readLeaseRecord(db: Database): LeaseRecord | null {
  const text = getMeta(db, leaseKey);
  return text === undefined ? null : (JSON.parse(text) as LeaseRecord);
}

export const writeLeaseRecord = (db: Database, record: LeaseRecord): void =>
  setMeta(db, leaseKey, JSON.stringify(record));

/** The token that an archive pushes with; 0 if it has never held the lease of this address. */
export function readHeldToken(db: Database, { url }: Pick<ObjectStore, 'url'>): number {
  const record = readLeaseRecord(db);
  return record?.url === url ? (record.token ?? 0) : 0;
}
