import { LRUCache } from 'lru-cache';
import type { Clock } from '../core/clock.ts';
import { type ApiKeyRow, getApiKeyState, isMatchingSecret, parseApiKey } from './api-keys.ts';
import type { WorkspaceDatabase } from './database.ts';
import type { KeyHolder } from './principal.ts';

/** The keys that are in use, so that not every request asks the database. */
export interface ApiKeyCache {
  /** The holder of a key that is good at `nowMs`; null for any other text. Rejects with WorkspaceUnavailable. */
  findHolder(text: string, nowMs: number): Promise<KeyHolder | null>;
  /** Whether a text was a key when last looked, for nothing but the time of a digest. */
  isCached(text: string): boolean;
  /** Waits for what is being written. */
  flush(): Promise<void>;
}

/** How old, in ms, what is known of a key may be: what another process revoked ends after this. */
const rowFreshMs = 1_000;
const keysMax = 10_000;
/** How exactly the last use of a key is noted, in ms. */
const lastUseResolutionMs = 60_000;

interface CachedKey {
  readonly row: ApiKeyRow;
  /** Monotonic ms. */
  readonly readAt: number;
}

/** The keys of a database, each remembered for a moment. */
export function createApiKeyCache(db: WorkspaceDatabase, clock: Clock): ApiKeyCache {
  const known = new LRUCache<string, CachedKey>({ max: keysMax });
  // One question a key at a time, however many requests wait for its answer.
  const asked = new Map<string, Promise<ApiKeyRow | undefined>>();
  const noted = new Set<Promise<unknown>>();

  const read = (id: string): Promise<ApiKeyRow | undefined> => {
    const pending = asked.get(id);
    if (pending !== undefined) return pending;
    const readAt = clock.monotonicMs();
    const reading = db
      .selectFrom('keys')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirst()
      .then((row) => {
        // A use that was noted a moment ago may still be on its way.
        const used = known.peek(id)?.row.last_used_at ?? 0;
        if (row !== undefined && used > (row.last_used_at ?? 0)) row.last_used_at = used;
        if (row === undefined) known.delete(id);
        else known.set(id, { row, readAt });
        return row;
      })
      .finally(() => asked.delete(id));
    asked.set(id, reading);
    return reading;
  };

  const noteUse = (row: ApiKeyRow, nowMs: number): void => {
    if (row.last_used_at !== null && nowMs - row.last_used_at < lastUseResolutionMs) return;
    row.last_used_at = nowMs;
    // A database that takes no writes refuses nobody.
    const noting: Promise<unknown> = db
      .updateTable('keys')
      .set({ last_used_at: nowMs })
      .where('id', '=', row.id)
      .execute()
      .catch(() => {})
      .finally(() => noted.delete(noting));
    noted.add(noting);
  };

  return {
    async findHolder(text, nowMs) {
      const key = parseApiKey(text);
      if (key === null) return null;
      const held = known.get(key.id);
      const fresh = held !== undefined && clock.monotonicMs() - held.readAt < rowFreshMs;
      const row = fresh ? held.row : await read(key.id);
      // An unknown id takes as long as a known one.
      const same = isMatchingSecret(row?.digest ?? '00'.repeat(32), key.secret);
      if (row === undefined || !same) return null;
      if (getApiKeyState(row, nowMs) !== 'good') {
        // Familiar no more: from now on it counts as any bad one.
        known.delete(key.id);
        return null;
      }
      if (!fresh) noteUse(row, nowMs);
      return { kind: 'key', id: row.id, name: row.name, requestsPerMinute: row.requests_per_minute };
    },
    isCached(text) {
      const key = parseApiKey(text);
      const row = key === null ? undefined : known.peek(key.id)?.row;
      return row !== undefined && isMatchingSecret(row.digest, key!.secret);
    },
    async flush() {
      await Promise.all(noted);
    },
  };
}
