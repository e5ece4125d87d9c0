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

/** The service's own database: who may ask, and what they have made. */
export interface Workspace {
  readonly db: WorkspaceDatabase;
  createKey(key: NewApiKey, nowMs: number): Promise<{ id: string; key: string }>;
  listKeys(nowMs: number): Promise<ListedApiKey[]>;
  /** Ends all of them, or where one is unknown none. */
  revokeKeys(idsOrKeys: readonly string[], nowMs: number): Promise<RevokedApiKey[]>;
  hasGoodKey(nowMs: number): Promise<boolean>;
  /**
   * Who a bearer credential stands for; null where it is none that is good now. Rejects with WorkspaceUnavailableError where
   * that cannot be told at the moment.
   */
  authenticate(credential: string, nowMs: number): Promise<Principal | null>;
  /** Whether a credential was good lately: a cheap look, that proves nothing about now. */
  isCachedCredential(credential: string): boolean;
  close(): Promise<void>;
}

export interface WorkspaceOptions {
  readonly location: DatabaseLocation;
  /** Null where no token is going to be judged. */
  readonly tokens: UserTokenSettings | null;
  readonly randomBytes: RandomBytes;
  readonly clock: Clock;
  readonly log: Log;
}

const rejectingTokenVerifier: UserTokenVerifier = { verify: async () => null, isCached: () => false };

/** Loaded only here: commands that judge no token should not wait for its library. */
const loadUserTokenVerifier = async (
  ...given: Parameters<typeof import('./user-tokens.ts').openUserTokenVerifier>
): Promise<UserTokenVerifier> => (await import('./user-tokens.ts')).openUserTokenVerifier(...given);

/** Opens the database, and what judges credentials. Throws as openWorkspaceDatabase and openTokens do. */
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
    // No token begins so: the two cannot be taken for each other.
    authenticate: (credential, nowMs) =>
      credential.startsWith('olk_') ? keys.findHolder(credential, nowMs) : tokens.verify(credential, nowMs),
    isCachedCredential: (credential) => keys.isCached(credential) || tokens.isCached(credential),
    async close() {
      await keys.flush();
      await db.destroy();
    },
  };
}
