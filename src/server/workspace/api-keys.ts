import { createHash, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { UsageError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { minuteMs } from '../../base/window.ts';
import type { WorkspaceDatabase } from './database.ts';
import type { KeyHolder } from './owner.ts';
import type { Tables } from './tables.ts';

export interface NewApiKey {
  /** 1 to 200 characters without control characters. */
  readonly name: string;
  /** Epoch milliseconds; null: no expiry. */
  readonly expiresAt: number | null;
  /** Null: the default of the settings. */
  readonly requestsPerMinute: number | null;
}

/** A key in a list, without its secret. Times are epoch milliseconds. */
export interface ListedApiKey {
  readonly id: string;
  readonly name: string;
  readonly state: 'active' | 'expired' | 'revoked';
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly revoked_at: number | null;
  readonly last_used_at: number | null;
  readonly requests_per_minute: number | null;
}

/** Cryptographically random bytes. */
export type RandomBytes = (count: number) => Uint8Array;

const idBytes = 6;
const secretBytes = 32;
const apiKeyPattern = /^olk_([A-Za-z0-9_-]{12})_([A-Za-z0-9_-]{43})$/;

/** Creates a key and returns its text, which is not stored. @throws UsageError for an invalid name or a past expiry time */
export async function createApiKey(
  db: WorkspaceDatabase,
  { name, expiresAt, requestsPerMinute }: NewApiKey,
  nowMs: number,
  randomBytes: RandomBytes,
): Promise<{ id: string; key: string }> {
  requireName(name, 'The name of a key');
  if (expiresAt !== null && expiresAt <= nowMs) throw new UsageError('The expiry time of a key must be in the future.');
  // Hex: an ID is an argument of `keys revoke`, where a leading hyphen would make it a flag.
  const id = Buffer.from(randomBytes(idBytes)).toString('hex');
  const secret = Buffer.from(randomBytes(secretBytes)).toString('base64url');
  const row = { id, name, digest: hashSecret(secret).toString('hex'), created_at: nowMs };
  await db
    .insertInto('keys')
    .values({
      ...row,
      expires_at: expiresAt,
      revoked_at: null,
      last_used_at: null,
      requests_per_minute: requestsPerMinute,
    })
    .execute();
  return { id, key: `olk_${id}_${secret}` };
}

/** All keys, newest first. */
export async function listApiKeys(db: WorkspaceDatabase, nowMs: number): Promise<ListedApiKey[]> {
  const rows = await db.selectFrom('keys').selectAll().orderBy('created_at', 'desc').orderBy('id').execute();
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    state: getApiKeyState(row, nowMs),
    created_at: row.created_at,
    expires_at: row.expires_at,
    revoked_at: row.revoked_at,
    last_used_at: row.last_used_at,
    requests_per_minute: row.requests_per_minute,
  }));
}

export interface RevokedApiKey {
  readonly id: string;
  readonly name: string;
  /** Epoch milliseconds. */
  readonly revoked_at: number;
}

/**
 * Revokes keys by their IDs or complete texts. Keys that are already revoked are not changed.
 * @throws UsageError if one is unknown; then no key is revoked
 */
export function revokeApiKeys(
  db: WorkspaceDatabase,
  idsOrKeys: readonly string[],
  nowMs: number,
): Promise<RevokedApiKey[]> {
  const ids = [...new Set(idsOrKeys.map((text) => parseApiKey(text)?.id ?? text))];
  return db.transaction().execute(async (inside) => {
    const revoked: RevokedApiKey[] = [];
    for (const id of ids) {
      await inside
        .updateTable('keys')
        .set({ revoked_at: nowMs })
        .where('id', '=', id)
        .where('revoked_at', 'is', null)
        .execute();
      const row = await inside
        .selectFrom('keys')
        .select(['name', 'revoked_at'])
        .where('id', '=', id)
        .executeTakeFirst();
      // The message does not repeat the argument, which may be a secret.
      if (row === undefined)
        throw new UsageError('There is no key with this ID. Run oddslake keys list to see the keys.');
      revoked.push({ id, name: row.name, revoked_at: row.revoked_at! });
    }
    return revoked;
  });
}

/** Whether any key is valid at `nowMs`. */
export async function hasValidApiKey(db: WorkspaceDatabase, nowMs: number): Promise<boolean> {
  const row = await db
    .selectFrom('keys')
    .select('id')
    .where('revoked_at', 'is', null)
    .where((e) => e.or([e('expires_at', 'is', null), e('expires_at', '>', nowMs)]))
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

type ApiKeyRow = Tables['keys'];

/** The state of a key at `nowMs`; a revoked key stays revoked after its expiry time. */
const getApiKeyState = (row: Pick<ApiKeyRow, 'revoked_at' | 'expires_at'>, nowMs: number): ListedApiKey['state'] =>
  row.revoked_at !== null ? 'revoked' : row.expires_at !== null && row.expires_at <= nowMs ? 'expired' : 'active';

/** The ID and secret of a key's text; null for any other text. */
function parseApiKey(text: string): { id: string; secret: string } | null {
  const [, id, secret] = apiKeyPattern.exec(text) ?? [];
  return id === undefined || secret === undefined ? null : { id, secret };
}

/** Whether the secret belongs to the key; compares in constant time. */
const isMatchingSecret = (digest: string, secret: string): boolean => {
  const expected = Buffer.from(digest, 'hex');
  const actual = hashSecret(secret);
  return expected.length === actual.length && timingSafeEqual(expected, actual);
};

/** Throws UsageError for a text that is not a valid name. */
export function requireName(text: string, what: string): void {
  if (/^[^\p{Cc}\p{Cs}]{1,200}$/u.test(text) && text.trim() !== '') return;
  throw new UsageError(`${what} must have 1 to 200 characters on one line.`);
}

const hashSecret = (text: string): Buffer => createHash('sha256').update(text, 'utf8').digest();

/** A cache of the keys in use, so that not every request queries the database. */
interface ApiKeyCache {
  /** The holder of a key that is valid at `nowMs`; null for any other text. Rejects with WorkspaceUnavailableError. */
  findHolder(text: string, nowMs: number): Promise<KeyHolder | null>;
  /** Whether a text was a valid key when last checked; costs one digest. */
  isCached(text: string): boolean;
  /** Waits for pending writes. */
  flush(): Promise<void>;
}

/** Maximum age of a cached key, in ms: another process's revocation takes effect after this time. */
const rowFreshMs = 1_000;
const keysMax = 10_000;
/** Resolution of the time of last use, in ms. */
const lastUseResolutionMs = minuteMs;

interface CachedKey {
  readonly row: ApiKeyRow;
  /** Monotonic ms. */
  readonly readAt: number;
}

/** Opens a cache of the keys of a database. */
export function createApiKeyCache(db: WorkspaceDatabase, clock: Clock): ApiKeyCache {
  const cache = new LRUCache<string, CachedKey>({ max: keysMax });
  // One query per key at a time, however many requests wait for it.
  const pendingReads = new Map<string, Promise<ApiKeyRow | undefined>>();
  const pendingWrites = new Set<Promise<unknown>>();

  const read = (id: string): Promise<ApiKeyRow | undefined> => {
    const pending = pendingReads.get(id);
    if (pending !== undefined) return pending;
    const readAt = clock.monotonicMs();
    const reading = db
      .selectFrom('keys')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirst()
      .then((row) => {
        // The last use may not be stored yet.
        const used = cache.peek(id)?.row.last_used_at ?? 0;
        if (row !== undefined && used > (row.last_used_at ?? 0)) row.last_used_at = used;
        if (row === undefined) cache.delete(id);
        else cache.set(id, { row, readAt });
        return row;
      })
      .finally(() => pendingReads.delete(id));
    pendingReads.set(id, reading);
    return reading;
  };

  const noteUse = (row: ApiKeyRow, nowMs: number): void => {
    if (row.last_used_at !== null && nowMs - row.last_used_at < lastUseResolutionMs) return;
    row.last_used_at = nowMs;
    // Ignore errors: a read-only database must not reject requests.
    const writing: Promise<unknown> = db
      .updateTable('keys')
      .set({ last_used_at: nowMs })
      .where('id', '=', row.id)
      .execute()
      .catch(() => {})
      .finally(() => pendingWrites.delete(writing));
    pendingWrites.add(writing);
  };

  return {
    async findHolder(text, nowMs) {
      const key = parseApiKey(text);
      if (key === null) return null;
      const cached = cache.get(key.id);
      const isFresh = cached !== undefined && clock.monotonicMs() - cached.readAt < rowFreshMs;
      const row = isFresh ? cached.row : await read(key.id);
      // Compare for unknown IDs, too, so that the time is the same.
      const same = isMatchingSecret(row?.digest ?? '00'.repeat(32), key.secret);
      if (row === undefined || !same) return null;
      if (getApiKeyState(row, nowMs) !== 'active') {
        // No longer cached: failures count against the address from now on.
        cache.delete(key.id);
        return null;
      }
      if (!isFresh) noteUse(row, nowMs);
      return { kind: 'key', id: row.id, name: row.name, requestsPerMinute: row.requests_per_minute };
    },
    isCached(text) {
      const key = parseApiKey(text);
      const row = key === null ? undefined : cache.peek(key.id)?.row;
      return row !== undefined && isMatchingSecret(row.digest, key!.secret);
    },
    async flush() {
      await Promise.all(pendingWrites);
    },
  };
}
