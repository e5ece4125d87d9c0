import { createHash } from 'node:crypto';
import { UsageError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { minuteMs } from '../../base/window.ts';
import { CachedRead } from './cached-read.ts';
import type { WorkspaceDatabase } from './workspace-database.ts';

/** What identifies a token for a revocation. */
export interface TokenIdentity {
  readonly user: string;
  /** The claim `jti`; null if the token has none. */
  readonly jti: string | null;
  /** Epoch milliseconds, a whole second; 0 if the token does not state it. */
  readonly issuedAtMs: number;
}

export interface TokenRevocation {
  /** Tokens to revoke by `jti`; `expiresAt` (epoch ms) is the expiry time of the token, or null if it is not known. */
  readonly tokens: readonly { readonly jti: string; readonly expiresAt: number | null }[];
  /** Revokes all tokens of a user that were issued before a time, epoch ms; null revokes none. */
  readonly user: { readonly user: string; readonly issuedBefore: number } | null;
}

/** A revocation in a list. Times are epoch milliseconds. */
export interface ListedTokenRevocation {
  /** Null for a revocation by user. */
  readonly jti: string | null;
  readonly user: string | null;
  /** Null for a revocation by `jti`. */
  readonly issued_before: number | null;
  readonly revoked_at: number;
  /** When the token expires, and with it this entry; null if it is not known. */
  readonly expires_at: number | null;
}

/** Maximum length of a `jti` or a user, as in a token; maximum number of revocations, which every service has in memory. */
const subjectCharsMax = 1_000;
const revocationsMax = 100_000;

/**
 * Revokes tokens. A token that is revoked already is not changed; of two revocations of a user the later time counts. Also
 * removes the revocations of expired tokens.
 * @throws UsageError if there is nothing to revoke, for an invalid `jti` or user, a time in the future, or too many
 *   revocations; then none is stored
 */
export async function revokeTokens(
  db: WorkspaceDatabase,
  { tokens, user }: TokenRevocation,
  nowMs: number,
): Promise<void> {
  if (tokens.length === 0 && user === null) throw new UsageError('Give the ID of a token, a token, or --user.');
  for (const { jti } of tokens) requireSubject(jti, 'The ID of a token');
  if (user !== null) requireSubject(user.user, '--user');
  if (user !== null && user.issuedBefore > nowMs)
    throw new UsageError('--issued-before must not be in the future: tokens that do not exist yet cannot be revoked.');
  await db.transaction().execute(async (inside) => {
    await inside.deleteFrom('revoked_tokens').where('expires_at', '<=', nowMs).execute();
    for (const { jti, expiresAt } of tokens)
      await inside
        .insertInto('revoked_tokens')
        .values({
          id: toRowId('jti', jti),
          jti,
          user_id: null,
          issued_before: null,
          revoked_at: nowMs,
          expires_at: expiresAt,
        })
        .onConflict((on) => on.column('id').doNothing())
        .execute();
    if (user !== null) {
      const id = toRowId('user', user.user);
      const change = { issued_before: user.issuedBefore, revoked_at: nowMs };
      await inside
        .insertInto('revoked_tokens')
        .values({ id, jti: null, user_id: user.user, ...change, expires_at: null })
        .onConflict((on) =>
          on.column('id').doUpdateSet(change).where('revoked_tokens.issued_before', '<', user.issuedBefore),
        )
        .execute();
    }
    const { count } = await inside
      .selectFrom('revoked_tokens')
      .select((e) => e.fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    if (count > revocationsMax)
      throw new UsageError(`There are ${revocationsMax} revocations. Revoke by user, or change the signing key.`);
  });
}

/** A `jti` or a user may be too long for an index. */
const toRowId = (kind: 'jti' | 'user', subject: string): string =>
  createHash('sha256').update(`${kind} ${subject}`, 'utf8').digest('hex');

function requireSubject(text: string, what: string): void {
  if (text !== '' && text.length <= subjectCharsMax && text.isWellFormed() && !/\p{Cc}/u.test(text)) return;
  throw new UsageError(`${what} must have 1 to ${subjectCharsMax} characters on one line.`);
}

/** The revocations in force, newest first. */
export async function listTokenRevocations(db: WorkspaceDatabase, nowMs: number): Promise<ListedTokenRevocation[]> {
  const rows = await selectRevocations(db, nowMs).orderBy('revoked_at', 'desc').orderBy('id').execute();
  return rows.map(({ jti, user_id, issued_before, revoked_at, expires_at }) => ({
    jti,
    user: user_id,
    issued_before,
    revoked_at,
    expires_at,
  }));
}

const selectRevocations = (db: WorkspaceDatabase, nowMs: number) =>
  db
    .selectFrom('revoked_tokens')
    .selectAll()
    .where((e) => e.or([e('expires_at', 'is', null), e('expires_at', '>', nowMs)]));

const listAges = { freshMs: minuteMs, staleMs: 5 * minuteMs, retryMs: 1_000 };

interface Revocations {
  readonly jtis: ReadonlySet<string>;
  /** Epoch ms by user. */
  readonly issuedBefore: ReadonlyMap<string, number>;
}

/** The revocations in memory. */
export function createTokenRevocationList(db: WorkspaceDatabase, clock: Clock) {
  const revocations = new CachedRead(() => readRevocations(db, clock.nowMs()), clock, listAges);
  return {
    /**
     * Whether a token is revoked. A revocation by another process takes effect within a minute, or within five minutes while the
     * database is unavailable. After that, rejects with WorkspaceUnavailableError.
     */
    async isRevoked({ user, jti, issuedAtMs }: TokenIdentity): Promise<boolean> {
      const { jtis, issuedBefore } = await revocations.get();
      return (jti !== null && jtis.has(jti)) || issuedAtMs < (issuedBefore.get(user) ?? 0);
    },
    /** Reads the revocations again for the next token. */
    invalidate: (): void => revocations.invalidate(),
  };
}

async function readRevocations(db: WorkspaceDatabase, nowMs: number): Promise<Revocations> {
  const rows = await selectRevocations(db, nowMs).execute();
  return {
    jtis: new Set(rows.flatMap(({ jti }) => (jti === null ? [] : [jti]))),
    issuedBefore: new Map(
      rows.flatMap(({ user_id, issued_before }) =>
        user_id === null || issued_before === null ? [] : [[user_id, issued_before] as const],
      ),
    ),
  };
}
