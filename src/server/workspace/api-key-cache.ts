import { LRUCache } from 'lru-cache';
import type { Clock } from '../../base/ports.ts';
import { minuteMs } from '../../base/window.ts';
import {
  explainInvalidKey,
  findMatchingSecret,
  parseApiKey,
  parsePermissions,
  readStoredApiKey,
  type StoredApiKey,
} from './api-keys.ts';
import { WorkspaceUnavailableError } from './database-url.ts';
import type { KeyHolder } from './owner.ts';
import type { WorkspaceDatabase } from './workspace-database.ts';

/** A cache of the keys in use, so that not every request queries the database. */
interface ApiKeyCache {
  /**
   * The holder of a key that is valid at `nowMs`; null for any other text. While the database is unavailable, a key that was
   * read within the last five minutes keeps its last known state, so a revocation may take effect that much later.
   * Rejects with WorkspaceUnavailableError for every other key.
   */
  findHolder(text: string, nowMs: number): Promise<KeyHolder | null>;
  /** Why a text that findHolder rejected is not valid, in a sentence; null if it is no secret of a key. Rejects likewise. */
  explainRejection(text: string, nowMs: number): Promise<string | null>;
  /** Waits for pending writes. */
  flush(): Promise<void>;
}

/** Maximum age of a cached key, in ms: a revocation by another process takes effect within this time. */
const rowFreshMs = 1_000;
/** The same while the database is unavailable. */
const rowStaleMs = 5 * minuteMs;
const keysMax = 10_000;
/** Resolution of the time of last use, in ms. */
const lastUseResolutionMs = minuteMs;

interface CachedKey extends StoredApiKey {
  /** When it was read, monotonic ms. */
  readonly readAt: number;
  /** When the last attempt to read it again failed, monotonic ms; null if none has failed since `readAt`. */
  readonly failedAt: number | null;
}

/** Opens a cache of the keys of a database. */
export function createApiKeyCache(db: WorkspaceDatabase, clock: Clock): ApiKeyCache {
  const cache = new LRUCache<string, CachedKey>({ max: keysMax });
  // One query per key at a time, however many requests wait for it.
  const pendingReads = new Map<string, Promise<StoredApiKey | undefined>>();
  const pendingWrites = new Set<Promise<unknown>>();

  const read = (id: string): Promise<StoredApiKey | undefined> => {
    const pending = pendingReads.get(id);
    if (pending !== undefined) return pending;
    const readAt = clock.monotonicMs();
    const reading = readStoredApiKey(db, id)
      .then((stored) => {
        if (stored === undefined) {
          cache.delete(id);
          return undefined;
        }
        // The last use may not be stored yet.
        const used = cache.peek(id)?.row.last_used_at ?? 0;
        if (used > (stored.row.last_used_at ?? 0)) stored.row.last_used_at = used;
        cache.set(id, { ...stored, readAt, failedAt: null });
        return stored;
      })
      .catch((error: unknown) => {
        const cached = cache.peek(id);
        if (cached !== undefined && error instanceof WorkspaceUnavailableError)
          cache.set(id, { ...cached, failedAt: clock.monotonicMs() });
        throw error;
      })
      .finally(() => pendingReads.delete(id));
    pendingReads.set(id, reading);
    return reading;
  };

  const noteUse = ({ row }: StoredApiKey, nowMs: number): void => {
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

  /** A key, at most `rowFreshMs` old, or `rowStaleMs` while the database is unavailable. */
  const find = async (id: string): Promise<StoredApiKey | undefined> => {
    const cached = cache.get(id);
    if (cached === undefined) return await read(id);
    const nowMs = clock.monotonicMs();
    const age = nowMs - cached.readAt;
    if (age < rowFreshMs) return cached;
    if (age >= rowStaleMs) return await read(id);
    // Do not make requests wait for attempts that may take seconds to fail.
    if (cached.failedAt !== null) {
      if (nowMs - cached.failedAt >= rowFreshMs) read(id).catch(() => {});
      return cached;
    }
    try {
      return await read(id);
    } catch (error) {
      if (error instanceof WorkspaceUnavailableError) return cached;
      throw error;
    }
  };

  /** The key and the secret of a text, valid or not. */
  const findSecret = async (text: string) => {
    const key = parseApiKey(text);
    if (key === null) return null;
    const wasCached = cache.has(key.id);
    let stored = await find(key.id);
    // Compare for unknown IDs, too, so that the time is the same.
    let secret = findMatchingSecret(stored?.secrets ?? [noSecret], key.secret);
    if (stored !== undefined && secret === undefined && wasCached) {
      // The key may just have been rotated. If it cannot be read, the cached secrets decide.
      stored = await read(key.id).catch(() => stored);
      secret = findMatchingSecret(stored?.secrets ?? [noSecret], key.secret);
    }
    return stored === undefined || secret === undefined ? null : { stored, secret };
  };

  return {
    async findHolder(text, nowMs) {
      const found = await findSecret(text);
      if (found === null || explainInvalidKey(found.stored, found.secret, nowMs) !== null) return null;
      noteUse(found.stored, nowMs);
      const { row } = found.stored;
      const { id, name, requests_per_minute: requestsPerMinute } = row;
      return { kind: 'key', id, name, requestsPerMinute, ...parsePermissions(row) };
    },
    async explainRejection(text, nowMs) {
      const found = await findSecret(text);
      return found === null ? null : explainInvalidKey(found.stored, found.secret, nowMs);
    },
    async flush() {
      await Promise.all(pendingWrites);
    },
  };
}

/** No secret has this digest. */
const noSecret = { digest: '00'.repeat(32), expires_at: null };
