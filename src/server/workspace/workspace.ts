import type { Clock, Log } from '../../base/ports.ts';
import { ApiKeyCache } from './api-key-cache.ts';
import {
  type ApiKeyRotation,
  createApiKey,
  hasValidApiKey,
  listApiKeys,
  type NewApiKey,
  type RandomBytes,
  revokeApiKeys,
  rotateApiKey,
} from './api-keys.ts';
import type { DatabaseLocation } from './database-url.ts';
import { createKeyUsageRecorder, readKeyUsage } from './key-usage.ts';
import type { Principal } from './owner.ts';
import {
  createTokenRevocationList,
  listTokenRevocations,
  revokeTokens,
  type TokenIdentity,
  type TokenRevocation,
} from './revoked-tokens.ts';
import type { UserTokenSettings, UserTokenVerifier } from './user-tokens.ts';
import { openWorkspaceDatabase } from './workspace-database.ts';

/** The service's own database: credentials, and the objects of users. */
export type Workspace = Awaited<ReturnType<typeof openWorkspace>>;

interface WorkspaceOptions {
  readonly location: DatabaseLocation;
  /** Null if no token has to be verified. */
  readonly tokens: UserTokenSettings | null;
  readonly randomBytes: RandomBytes;
  readonly clock: Clock;
  readonly log: Log;
}

const rejectingTokenVerifier: UserTokenVerifier = { verify: async () => null, isRevoked: async () => false };

/** Imported on demand: commands that verify no tokens should not load the library. */
const loadUserTokenVerifier = async (
  ...parameters: Parameters<typeof import('./user-tokens.ts').openUserTokenVerifier>
): Promise<UserTokenVerifier> => (await import('./user-tokens.ts')).openUserTokenVerifier(...parameters);

/** Opens the database and the verifiers of credentials. Throws like openWorkspaceDatabase and openUserTokenVerifier. */
export async function openWorkspace({ location, randomBytes, clock, log, ...rest }: WorkspaceOptions) {
  const isRevoked = (token: TokenIdentity): Promise<boolean> => revocations.isRevoked(token);
  const tokens =
    rest.tokens === null ? rejectingTokenVerifier : await loadUserTokenVerifier(rest.tokens, clock, log, isRevoked);
  const db = await openWorkspaceDatabase(location);
  const revocations = createTokenRevocationList(db, clock);
  const keys = new ApiKeyCache(db, clock);
  const usage = createKeyUsageRecorder(db, clock, log);
  return {
    db,
    createKey: (key: NewApiKey, nowMs: number) => createApiKey(db, key, nowMs, randomBytes),
    /** Gives a key a new secret. Throws UsageError; see rotateApiKey. */
    rotateKey: (rotation: ApiKeyRotation, nowMs: number) => rotateApiKey(db, rotation, nowMs, randomBytes),
    listKeys: (nowMs: number) => listApiKeys(db, nowMs),
    /** Revokes all of them, or none if one is unknown. */
    revokeKeys: (idsOrKeys: readonly string[], nowMs: number) => revokeApiKeys(db, idsOrKeys, nowMs),
    /** Revokes user tokens; at once in this process. Throws UsageError; see revokeTokens. */
    async revokeTokens(revocation: TokenRevocation, nowMs: number): Promise<void> {
      await revokeTokens(db, revocation, nowMs);
      revocations.invalidate();
    },
    /** The revocations of user tokens, newest first. */
    listTokenRevocations: (nowMs: number) => listTokenRevocations(db, nowMs),
    hasGoodKey: (nowMs: number) => hasValidApiKey(db, nowMs),
    usage,
    /** The usage of keys by day. Throws UsageError; see readKeyUsage. */
    readUsage: (idOrName: string | null, sinceMs: number) => readKeyUsage(db, idOrName, sinceMs),
    /**
     * The principal of a bearer credential; null if it is not valid. Rejects with WorkspaceUnavailableError if that cannot be
     * determined at the moment.
     */
    authenticate: (credential: string, nowMs: number): Promise<Principal | null> =>
      isApiKey(credential) ? keys.findHolder(credential, nowMs) : tokens.verify(credential, nowMs),
    /**
     * Why a credential that was not authenticated is not valid, in a sentence; null if it is no credential of this service.
     * Only the holder of a secret gets a reason. Rejects like `authenticate`.
     */
    async explainRejection(credential: string, nowMs: number): Promise<string | null> {
      if (isApiKey(credential)) return await keys.explainRejection(credential, nowMs);
      return (await tokens.isRevoked(credential, nowMs)) ? 'The token was revoked.' : null;
    },
    async close(): Promise<void> {
      await keys.flush();
      await usage.flush();
      await db.destroy();
    },
  };
}

/** No token has this prefix. */
const isApiKey = (credential: string): boolean => credential.startsWith('olk_');
