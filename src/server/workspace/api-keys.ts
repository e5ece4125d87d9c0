import { createHash, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { UsageError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { WorkspaceDatabase } from './database.ts';
import type { KeyHolder } from './owner.ts';
import type { Tables } from './tables.ts';

export interface NewApiKey {
  /** 1 to 200 characters, none of them a control character. */
  readonly name: string;
  /** Epoch milliseconds; null: never. */
  readonly expiresAt: number | null;
  /** Null: what the settings give everybody. */
  readonly requestsPerMinute: number | null;
}

/** A key as it is told of: its secret is not known here. Times are epoch milliseconds. */
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

/** Makes a key; the text returned is the only time that its secret is seen. Throws UsageError for a bad name or a past end. */
export async function createApiKey(
  db: WorkspaceDatabase,
  { name, expiresAt, requestsPerMinute }: NewApiKey,
  nowMs: number,
  randomBytes: RandomBytes,
): Promise<{ id: string; key: string }> {
  requireName(name, 'The name of a key');
  if (expiresAt !== null && expiresAt <= nowMs)
    throw new UsageError('A key that expires in the past is good for nothing.');
  // Hex: an id is typed after `keys revoke`, where one that begins with a hyphen would be a flag.
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

/** Every key, the newest first. */
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
 * Ends keys, by their ids or their whole texts; one that is revoked already stays as it is.
 * @throws UsageError where one is unknown; then none is revoked
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
      // Not repeated: what was given may be a secret by mistake.
      if (row === undefined)
        throw new UsageError('There is no key with this id: oddslake keys list shows those there are.');
      revoked.push({ id, name: row.name, revoked_at: row.revoked_at! });
    }
    return revoked;
  });
}

/** Whether there is any key that is good at `nowMs`. */
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

export type ApiKeyRow = Tables['keys'];

/** Whether a key is good at `nowMs`; one that was revoked is that for good, expired or not. */
export const getApiKeyState = (
  row: Pick<ApiKeyRow, 'revoked_at' | 'expires_at'>,
  nowMs: number,
): ListedApiKey['state'] =>
  row.revoked_at !== null ? 'revoked' : row.expires_at !== null && row.expires_at <= nowMs ? 'expired' : 'active';

/** The two parts of a key's text; null for what is none. */
export function parseApiKey(text: string): { id: string; secret: string } | null {
  const [, id, secret] = apiKeyPattern.exec(text) ?? [];
  return id === undefined || secret === undefined ? null : { id, secret };
}

/** Whether the secret is the key's, in a time that does not tell how much of it is. */
export const isMatchingSecret = (digest: string, secret: string): boolean => {
  const known = Buffer.from(digest, 'hex');
  const given = hashSecret(secret);
  return known.length === given.length && timingSafeEqual(known, given);
};

/** Throws UsageError for a text that is no name of something for people. */
export function requireName(text: string, what: string): void {
  if (/^[^\p{Cc}\p{Cs}]{1,200}$/u.test(text) && text.trim() !== '') return;
  throw new UsageError(`${what} is a text of 1 to 200 characters on one line.`);
}

const hashSecret = (text: string): Buffer => createHash('sha256').update(text, 'utf8').digest();

/** The keys that are in use, so that not every request asks the database. */
export interface ApiKeyCache {
  /** The holder of a key that is good at `nowMs`; null for any other text. Rejects with WorkspaceUnavailableError. */
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
      if (getApiKeyState(row, nowMs) !== 'active') {
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
