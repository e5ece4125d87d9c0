import { hash, timingSafeEqual } from 'node:crypto';
import type { Transaction } from 'kysely';
import { type DatasetName, datasetNames } from '../../archive/format/datasets.ts';
import { UsageError } from '../../base/errors.ts';
import { suggestName } from '../../base/nearest-name.ts';
import { formatIsoUtc } from '../../base/time.ts';
import { dayMs } from '../../base/window.ts';
import { type KeyScope, keyScopes } from '../../contract/key-scopes.ts';
import type { Tables } from './tables.ts';
import type { WorkspaceDatabase } from './workspace-database.ts';

export interface NewApiKey {
  /** 1 to 200 characters without control characters. */
  readonly name: string;
  /** Epoch milliseconds; null: no expiry. */
  readonly expiresAt: number | null;
  /** Null: the default from the settings. */
  readonly requestsPerMinute: number | null;
  /** Default: all. */
  readonly scopes?: readonly string[];
  /** Default: null, all datasets. */
  readonly datasets?: readonly string[] | null;
}

/** A key in a list, without its secret. Times are epoch milliseconds. */
export interface ListedApiKey {
  readonly id: string;
  readonly name: string;
  readonly state: 'active' | 'expired' | 'revoked';
  readonly scopes: readonly KeyScope[];
  /** Null: all datasets. */
  readonly datasets: readonly string[] | null;
  readonly created_at: number;
  readonly expires_at: number | null;
  readonly revoked_at: number | null;
  readonly last_used_at: number | null;
  readonly requests_per_minute: number | null;
  /** The secrets that are valid unless the key is expired or revoked, newest first. Only the newest has no expiry time. */
  readonly secrets: readonly { readonly created_at: number; readonly expires_at: number | null }[];
}

/** Cryptographically random bytes. */
export type RandomBytes = (count: number) => Uint8Array;

const idBytes = 6;
const secretBytes = 32;
const apiKeyPattern = /^olk_([A-Za-z0-9_-]{12})_([A-Za-z0-9_-]{43})$/;
/** Maximum number of earlier secrets of a key that are valid at the same time. */
const secretsMax = 5;

/**
 * Creates a key and returns its text, which is not stored.
 * @throws UsageError for an invalid name, an unknown scope or dataset, no scope, or a past expiry time
 */
export async function createApiKey(
  db: WorkspaceDatabase,
  { name, expiresAt, requestsPerMinute, scopes = keyScopes, datasets = null }: NewApiKey,
  nowMs: number,
  randomBytes: RandomBytes,
): Promise<{ id: string; key: string }> {
  requireName(name, 'The name of a key');
  requireFuture(expiresAt, nowMs);
  const row = { scopes: joinNames(scopes, keyScopes, 'scope'), datasets: null as string | null };
  if (datasets !== null) row.datasets = joinNames(datasets, datasetNames, 'dataset');
  // Hex: an ID is an argument of `keys revoke`, where a leading hyphen would make it a flag.
  const id = Buffer.from(randomBytes(idBytes)).toString('hex');
  return await db.transaction().execute(async (inside) => {
    await inside
      .insertInto('keys')
      .values({
        ...row,
        id,
        name,
        created_at: nowMs,
        expires_at: expiresAt,
        revoked_at: null,
        last_used_at: null,
        requests_per_minute: requestsPerMinute,
      })
      .execute();
    return { id, key: await addSecret(inside, id, nowMs, randomBytes) };
  });
}

function requireFuture(expiresAt: number | null, nowMs: number): void {
  if (expiresAt !== null && expiresAt <= nowMs) throw new UsageError('The expiry time of a key must be in the future.');
}

/** The names without duplicates, in the order of `known`, separated by spaces. */
function joinNames(names: readonly string[], known: readonly string[], what: 'scope' | 'dataset'): string {
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new UsageError(
      `--${what} ${unknown}: the ${what} is unknown. Expected one of ${known.join(', ')}.${suggestName(unknown, known)}`,
    );
  if (names.length === 0) throw new UsageError(`A key must have at least one ${what}.`);
  return known.filter((name) => names.includes(name)).join(' ');
}

/** Adds a secret without an expiry time, and returns the key's text. */
async function addSecret(db: Transaction<Tables>, id: string, nowMs: number, randomBytes: RandomBytes) {
  const secret = Buffer.from(randomBytes(secretBytes)).toString('base64url');
  const row = { digest: hashSecret(secret).toString('hex'), key_id: id, created_at: nowMs, expires_at: null };
  await db.insertInto('key_secrets').values(row).execute();
  return `olk_${id}_${secret}`;
}

export interface ApiKeyRotation {
  /** The ID of a key, its complete text, or the name of exactly one active key. */
  readonly idOrName: string;
  /** How long the secrets that are valid now stay valid, ms; 0 ends them at once. */
  readonly overlapMs: number;
  /** New expiry time of the key; undefined keeps it, null removes it. Epoch milliseconds. */
  readonly expiresAt?: number | null | undefined;
}

interface RotatedApiKey {
  readonly id: string;
  readonly name: string;
  /** The new text of the key, which is not stored. */
  readonly key: string;
  /** When the key expires; null: never. Epoch milliseconds. */
  readonly expires_at: number | null;
  /** When the earlier secrets end at the latest, epoch milliseconds; equal to the time of the rotation without an overlap. */
  readonly previous_until: number;
}

/**
 * Gives a key a new secret. ID, name, scopes, rate limit and usage stay the same.
 * @throws UsageError if the key is unknown, ambiguous or not active, if it has too many valid secrets, or for a past expiry
 *   time
 */
export async function rotateApiKey(
  db: WorkspaceDatabase,
  { idOrName, overlapMs, expiresAt }: ApiKeyRotation,
  nowMs: number,
  randomBytes: RandomBytes,
): Promise<RotatedApiKey> {
  const id = await findKeyId(db, idOrName, nowMs);
  return db.transaction().execute(async (inside) => {
    // A write first: SQLite rejects a write after a read if another process has written in between. In PostgreSQL the
    // update locks the row, so that a concurrent rotation or revocation waits.
    const before = await inside
      .updateTable('keys')
      .set((e) => ({ name: e.ref('name') }))
      .where('id', '=', id)
      .returning(['name', 'expires_at', 'revoked_at'])
      .executeTakeFirstOrThrow();
    const state = getApiKeyState(before, nowMs);
    if (state !== 'active')
      throw new UsageError(`The key ${id} is ${state}. Create another key: oddslake keys create --name NAME.`);
    const keyExpiresAt = expiresAt === undefined ? before.expires_at : expiresAt;
    if (expiresAt !== undefined) {
      requireFuture(expiresAt, nowMs);
      await inside.updateTable('keys').set({ expires_at: expiresAt }).where('id', '=', id).execute();
    }
    // A later expiry time of the key does not extend its earlier secrets.
    const previousUntil = Math.min(nowMs + overlapMs, before.expires_at ?? Number.POSITIVE_INFINITY);
    await inside
      .updateTable('key_secrets')
      .set({ expires_at: previousUntil })
      .where('key_id', '=', id)
      .where((e) => e.or([e('expires_at', 'is', null), e('expires_at', '>', previousUntil)]))
      .execute();
    // Keep ended secrets for a while, so that a client that still uses one gets the reason.
    await inside
      .deleteFrom('key_secrets')
      .where('key_id', '=', id)
      .where('expires_at', '<=', nowMs - endedSecretsKeptMs)
      .execute();
    const secrets = await inside.selectFrom('key_secrets').select('expires_at').where('key_id', '=', id).execute();
    if (secrets.filter(({ expires_at }) => expires_at! > nowMs).length > secretsMax)
      throw new UsageError(
        `The key ${id} has ${secretsMax} earlier secrets that are still valid. Wait until one has ended, or end them with --overlap 0s.`,
      );
    const key = await addSecret(inside, id, nowMs, randomBytes);
    return { id, name: before.name, key, expires_at: keyExpiresAt, previous_until: previousUntil };
  });
}

/** How long ended secrets are kept, ms. */
const endedSecretsKeptMs = 30 * dayMs;

/** The ID of a key by its ID, its complete text, or the name of one active key. @throws UsageError */
async function findKeyId(db: WorkspaceDatabase, idOrName: string, nowMs: number): Promise<string> {
  const id = parseApiKey(idOrName)?.id ?? idOrName;
  const byId = await db.selectFrom('keys').select('id').where('id', '=', id).executeTakeFirst();
  if (byId !== undefined) return byId.id;
  const named = await db.selectFrom('keys').selectAll().where('name', '=', idOrName).execute();
  const active = named.filter((row) => getApiKeyState(row, nowMs) === 'active');
  if (active.length === 1) return active[0]!.id;
  if (active.length > 1)
    throw new UsageError(`Several active keys have this name: ${active.map((row) => row.id).join(', ')}. Give an ID.`);
  if (named.length === 1) return named[0]!.id;
  // The message does not repeat the argument, which may be a secret.
  throw new UsageError('There is no key with this ID or name. Run oddslake keys list to see the keys.');
}

/** All keys, newest first. */
export async function listApiKeys(db: WorkspaceDatabase, nowMs: number): Promise<ListedApiKey[]> {
  const rows = await db.selectFrom('keys').selectAll().orderBy('created_at', 'desc').orderBy('id').execute();
  const secrets = await db
    .selectFrom('key_secrets')
    .select(['key_id', 'created_at', 'expires_at'])
    .where((e) => e.or([e('expires_at', 'is', null), e('expires_at', '>', nowMs)]))
    .orderBy('created_at', 'desc')
    .execute();
  const secretsByKey = Map.groupBy(secrets, ({ key_id }) => key_id);
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    state: getApiKeyState(row, nowMs),
    ...parsePermissions(row),
    created_at: row.created_at,
    expires_at: row.expires_at,
    revoked_at: row.revoked_at,
    last_used_at: row.last_used_at,
    requests_per_minute: row.requests_per_minute,
    // At the same time, the one without an expiry time is the newer one.
    secrets: (secretsByKey.get(row.id) ?? [])
      .map(({ created_at, expires_at }) => ({ created_at, expires_at }))
      .sort((a, b) => Number(b.expires_at === null) - Number(a.expires_at === null)),
  }));
}

interface RevokedApiKey {
  readonly id: string;
  readonly name: string;
  /** Epoch milliseconds. */
  readonly revoked_at: number;
}

/**
 * Revokes keys, with all their secrets, by their IDs or complete texts. Keys that are already revoked are not changed.
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
      const row = await inside
        .updateTable('keys')
        .set((e) => ({ revoked_at: e.fn.coalesce('revoked_at', e.lit(nowMs)) }))
        .where('id', '=', id)
        .returning(['name', 'revoked_at'])
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

/** A key with its secrets. */
export interface StoredApiKey {
  readonly row: Tables['keys'];
  readonly secrets: readonly Pick<Tables['key_secrets'], 'digest' | 'expires_at'>[];
}

/** Reads a key with its secrets in one query; undefined for an unknown ID. */
export async function readStoredApiKey(db: WorkspaceDatabase, id: string): Promise<StoredApiKey | undefined> {
  const rows = await db
    .selectFrom('keys')
    .innerJoin('key_secrets', 'key_secrets.key_id', 'keys.id')
    .selectAll('keys')
    .select(['key_secrets.digest', 'key_secrets.expires_at as secret_expires_at'])
    .where('keys.id', '=', id)
    .execute();
  if (rows[0] === undefined) return undefined;
  const { digest: _digest, secret_expires_at: _end, ...row } = rows[0];
  return { row, secrets: rows.map((each) => ({ digest: each.digest, expires_at: each.secret_expires_at })) };
}

/** The state of a key at `nowMs`; a revoked key stays revoked after its expiry time. */
const getApiKeyState = (
  row: Pick<Tables['keys'], 'revoked_at' | 'expires_at'>,
  nowMs: number,
): ListedApiKey['state'] =>
  row.revoked_at !== null ? 'revoked' : row.expires_at !== null && row.expires_at <= nowMs ? 'expired' : 'active';

/** Why a key with this secret is not valid at `nowMs`, in a sentence; null if it is valid. */
export function explainInvalidKey(
  { row }: StoredApiKey,
  secret: StoredApiKey['secrets'][number],
  nowMs: number,
): string | null {
  const state = getApiKeyState(row, nowMs);
  if (state === 'revoked') return 'The key was revoked.';
  if (state === 'expired') return `The key expired at ${formatIsoUtc(row.expires_at!)}.`;
  if (secret.expires_at !== null && secret.expires_at <= nowMs)
    return `The key was rotated, and this secret ended at ${formatIsoUtc(secret.expires_at)}. Use the new one.`;
  return null;
}

/** The scopes and datasets of a stored key. */
export const parsePermissions = (row: Pick<Tables['keys'], 'scopes' | 'datasets'>) => ({
  scopes: row.scopes.split(' ') as KeyScope[],
  datasets: row.datasets === null ? null : (row.datasets.split(' ') as DatasetName[]),
});

/** The ID and secret of a key's text; null for any other text. */
export function parseApiKey(text: string): { id: string; secret: string } | null {
  const [, id, secret] = apiKeyPattern.exec(text) ?? [];
  return id === undefined || secret === undefined ? null : { id, secret };
}

/** The stored secret that equals `secret`; undefined if there is none. Each comparison takes constant time. */
export function findMatchingSecret(
  secrets: StoredApiKey['secrets'],
  secret: string,
): StoredApiKey['secrets'][number] | undefined {
  const actual = hashSecret(secret);
  return secrets.find(({ digest }) => {
    const expected = Buffer.from(digest, 'hex');
    return expected.length === actual.length && timingSafeEqual(expected, actual);
  });
}

/** Throws UsageError for a text that is not a valid name. */
export function requireName(text: string, what: string): void {
  if (/^[^\p{Cc}\p{Cs}]{1,200}$/u.test(text) && text.trim() !== '') return;
  throw new UsageError(`${what} must have 1 to 200 characters on one line.`);
}

const hashSecret = (text: string): Buffer => hash('sha256', text, 'buffer');
