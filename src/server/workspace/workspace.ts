import type { Clock, Log } from '../../base/ports.ts';
import {
  createApiKey,
  createApiKeyCache,
  hasValidApiKey,
  type ListedApiKey,
  listApiKeys,
  type NewApiKey,
  type RandomBytes,
  type RevokedApiKey,
  revokeApiKeys,
} from './api-keys.ts';
import { openWorkspaceDatabase, type WorkspaceDatabase } from './database.ts';
import type { DatabaseLocation } from './database-url.ts';
import type { Principal } from './owner.ts';
import type { UserTokenSettings, UserTokenVerifier } from './user-tokens.ts';

/** The service's own database: credentials, and the objects of users. */
export interface Workspace {
  readonly db: WorkspaceDatabase;
  createKey(key: NewApiKey, nowMs: number): Promise<{ id: string; key: string }>;
  listKeys(nowMs: number): Promise<ListedApiKey[]>;
  /** Revokes all of them, or none if one is unknown. */
  revokeKeys(idsOrKeys: readonly string[], nowMs: number): Promise<RevokedApiKey[]>;
  hasGoodKey(nowMs: number): Promise<boolean>;
  /**
   * The principal of a bearer credential; null if it is not valid. Rejects with WorkspaceUnavailableError if that cannot be
   * determined at the moment.
   */
  authenticate(credential: string, nowMs: number): Promise<Principal | null>;
  /** Whether a credential was recently valid; cheap, and no proof of validity. */
  isCachedCredential(credential: string): boolean;
  close(): Promise<void>;
}

interface WorkspaceOptions {
  readonly location: DatabaseLocation;
  /** Null if no token has to be verified. */
  readonly tokens: UserTokenSettings | null;
  readonly randomBytes: RandomBytes;
  readonly clock: Clock;
  readonly log: Log;
}

const rejectingTokenVerifier: UserTokenVerifier = { verify: async () => null, isCached: () => false };

/** Imported on demand: commands that verify no tokens should not load the library. */
const loadUserTokenVerifier = async (
  ...parameters: Parameters<typeof import('./user-tokens.ts').openUserTokenVerifier>
): Promise<UserTokenVerifier> => (await import('./user-tokens.ts')).openUserTokenVerifier(...parameters);

/** Opens the database and the verifiers of credentials. Throws like openWorkspaceDatabase and openUserTokenVerifier. */
export async function openWorkspace({
  location,
  randomBytes,
  clock,
  log,
  ...rest
}: WorkspaceOptions): Promise<Workspace> {
  const tokens = rest.tokens === null ? rejectingTokenVerifier : await loadUserTokenVerifier(rest.tokens, clock, log);
  const db = await openWorkspaceDatabase(location);
  const keys = createApiKeyCache(db, clock);
  return {
    db,
    createKey: (key, nowMs) => createApiKey(db, key, nowMs, randomBytes),
    listKeys: (nowMs) => listApiKeys(db, nowMs),
    revokeKeys: (idsOrKeys, nowMs) => revokeApiKeys(db, idsOrKeys, nowMs),
    hasGoodKey: (nowMs) => hasValidApiKey(db, nowMs),
    // No token has this prefix.
    authenticate: (credential, nowMs) =>
      credential.startsWith('olk_') ? keys.findHolder(credential, nowMs) : tokens.verify(credential, nowMs),
    isCachedCredential: (credential) => keys.isCached(credential) || tokens.isCached(credential),
    async close() {
      await keys.flush();
      await db.destroy();
    },
  };
}
