import { createHash, timingSafeEqual } from 'node:crypto';
import type { WorkspaceDatabase } from './database.ts';
import type { KeyHolder } from './principal.ts';

export interface NewKey {
  readonly name: string;
  /** Epoch milliseconds; null: never. */
  readonly expiresAt: number | null;
  /** Null: what the settings give everybody. */
  readonly requestsPerMinute: number | null;
}

/** Cryptographically random bytes. */
export type RandomBytes = (count: number) => Uint8Array;

const idBytes = 9;
const secretBytes = 32;
const form = /^olk_([A-Za-z0-9_-]{12})_([A-Za-z0-9_-]{43})$/;

/** Makes a key; the text returned is the only time that its secret is seen. */
export async function createKey(
  db: WorkspaceDatabase,
  { name, expiresAt, requestsPerMinute }: NewKey,
  nowMs: number,
  randomBytes: RandomBytes,
): Promise<{ id: string; key: string }> {
  const text = (bytes: number): string => Buffer.from(randomBytes(bytes)).toString('base64url');
  const [id, secret] = [text(idBytes), text(secretBytes)];
  const row = { id, name, digest: digestOf(secret).toString('hex'), created_at: nowMs, revoked_at: null };
  await db
    .insertInto('keys')
    .values({ ...row, expires_at: expiresAt, requests_per_minute: requestsPerMinute })
    .execute();
  return { id, key: `olk_${id}_${secret}` };
}

/** The holder of a key that is good at `nowMs`; null for any other text. */
export async function keyHolder(db: WorkspaceDatabase, text: string, nowMs: number): Promise<KeyHolder | null> {
  const [, id, secret] = form.exec(text) ?? [];
  if (id === undefined || secret === undefined) return null;
  const row = await db.selectFrom('keys').selectAll().where('id', '=', id).executeTakeFirst();
  // An unknown id takes as long as a known one.
  const known = Buffer.from(row?.digest ?? digestOf('').toString('hex'), 'hex');
  const same = timingSafeEqual(known, digestOf(secret));
  if (row === undefined || !same) return null;
  if (row.revoked_at !== null || (row.expires_at !== null && row.expires_at <= nowMs)) return null;
  return { kind: 'key', id, name: row.name, requestsPerMinute: row.requests_per_minute };
}

const digestOf = (text: string): Buffer => createHash('sha256').update(text, 'utf8').digest();
