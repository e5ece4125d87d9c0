import { LRUCache } from 'lru-cache';
import { entriesMax } from '../../base/entries-max.ts';
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
import { CachedRead } from './cached-read.ts';
import type { KeyHolder } from './owner.ts';
import type { WorkspaceDatabase } from './workspace-database.ts';

const keyAges = { freshMs: 1_000, staleMs: 5 * minuteMs, retryMs: 1_000 };
const keysMax = 10_000;
/** Resolution of the time of last use, in ms. */
const lastUseResolutionMs = minuteMs;

/** No secret has this digest. */
const noSecret = { digest: '00'.repeat(32), expires_at: null };

/** A cache of the keys in use, so that not every request queries the database. */
export class ApiKeyCache {
  private readonly db: WorkspaceDatabase;
  private readonly clock: Clock;
  private readonly keys = new LRUCache<string, CachedRead<StoredApiKey | undefined>>(entriesMax(keysMax));
  /** When keys were last used, epoch ms; this may not be stored yet. */
  private readonly usedAt = new LRUCache<string, number>(entriesMax(keysMax));
  private readonly pendingWrites = new Set<Promise<unknown>>();

  constructor(db: WorkspaceDatabase, clock: Clock) {
    this.db = db;
    this.clock = clock;
  }

  /**
   * The holder of a key that is valid at `nowMs`; null for any other text. While the database is unavailable, a key that was
   * read within the last five minutes keeps its last known state, so a revocation may take effect that much later.
   * Rejects with WorkspaceUnavailableError for every other key.
   */
  async findHolder(text: string, nowMs: number): Promise<KeyHolder | null> {
    const found = await this.findSecret(text);
    if (found === null || explainInvalidKey(found.stored, found.secret, nowMs) !== null) return null;
    const { row } = found.stored;
    this.noteUse(row, nowMs);
    const { id, name, requests_per_minute: requestsPerMinute } = row;
    return { kind: 'key', id, name, requestsPerMinute, ...parsePermissions(row) };
  }

  /** Why a text that findHolder rejected is not valid, in a sentence; null if it is no secret of a key. Rejects likewise. */
  async explainRejection(text: string, nowMs: number): Promise<string | null> {
    const found = await this.findSecret(text);
    return found === null ? null : explainInvalidKey(found.stored, found.secret, nowMs);
  }

  /** Waits for pending writes. */
  async flush(): Promise<void> {
    await Promise.all(this.pendingWrites);
  }

  /** The key and the secret of a text, valid or not. */
  private async findSecret(text: string) {
    const key = parseApiKey(text);
    if (key === null) return null;
    const cached = this.keys.get(key.id);
    const read = cached ?? new CachedRead(() => readStoredApiKey(this.db, key.id), this.clock, keyAges);
    this.keys.set(key.id, read);
    let stored: StoredApiKey | undefined;
    try {
      stored = await read.get();
      // Compare for unknown IDs, too, so that the time is the same.
      let secret = findMatchingSecret(stored?.secrets ?? [noSecret], key.secret);
      if (stored !== undefined && secret === undefined && cached !== undefined) {
        // The key may just have been rotated. If it cannot be read, the cached secrets decide.
        stored = await read.read().catch(() => stored);
        secret = findMatchingSecret(stored?.secrets ?? [noSecret], key.secret);
      }
      return stored === undefined || secret === undefined ? null : { stored, secret };
    } finally {
      // Unknown keys take no place.
      if (stored === undefined && this.keys.peek(key.id) === read && cached === undefined) this.keys.delete(key.id);
    }
  }

  private noteUse({ id, last_used_at }: StoredApiKey['row'], nowMs: number): void {
    if (nowMs - Math.max(last_used_at ?? 0, this.usedAt.get(id) ?? 0) < lastUseResolutionMs) return;
    this.usedAt.set(id, nowMs);
    // Ignore errors: a read-only database must not reject requests.
    const writing: Promise<unknown> = this.db
      .updateTable('keys')
      .set({ last_used_at: nowMs })
      .where('id', '=', id)
      .execute()
      .catch(() => {})
      .finally(() => this.pendingWrites.delete(writing));
    this.pendingWrites.add(writing);
  }
}
