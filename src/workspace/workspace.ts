import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { knownKeys } from './api-key-cache.ts';
import {
  createKey,
  hasGoodKey,
  type ListedKey,
  listKeys,
  type NewKey,
  type RandomBytes,
  type RevokedKey,
  revokeKeys,
} from './api-keys.ts';
import { openWorkspaceDatabase, type WorkspaceDatabase } from './database.ts';
import type { Location } from './database-url.ts';
import type { Principal } from './principal.ts';
import type { TokenSettings, Tokens } from './user-tokens.ts';

/** The service's own database: who may ask, and what they have made. */
export interface Workspace {
  readonly db: WorkspaceDatabase;
  createKey(key: NewKey, nowMs: number): Promise<{ id: string; key: string }>;
  listKeys(nowMs: number): Promise<ListedKey[]>;
  /** Ends all of them, or where one is unknown none. */
  revokeKeys(idsOrKeys: readonly string[], nowMs: number): Promise<RevokedKey[]>;
  hasGoodKey(nowMs: number): Promise<boolean>;
  /**
   * Who a bearer credential stands for; null where it is none that is good now. Rejects with WorkspaceUnavailable where
   * that cannot be told at the moment.
   */
  authenticate(credential: string, nowMs: number): Promise<Principal | null>;
  /** Whether a credential was good lately: a cheap look, that proves nothing about now. */
  isFamiliar(credential: string): boolean;
  close(): Promise<void>;
}

export interface WorkspaceOptions {
  readonly location: Location;
  /** Null where no token is going to be judged. */
  readonly tokens: TokenSettings | null;
  readonly randomBytes: RandomBytes;
  readonly clock: Clock;
  readonly log: Log;
}

const noTokens: Tokens = { user: async () => null, isFamiliar: () => false };

/** Loaded only here: commands that judge no token should not wait for its library. */
const openTokens = async (...given: Parameters<typeof import('./user-tokens.ts').openTokens>): Promise<Tokens> =>
  (await import('./user-tokens.ts')).openTokens(...given);

/** Opens the database, and what judges credentials. Throws as openWorkspaceDatabase and openTokens do. */
export async function openWorkspace({
  location,
  randomBytes,
  clock,
  log,
  ...rest
}: WorkspaceOptions): Promise<Workspace> {
  const tokens = rest.tokens === null ? noTokens : await openTokens(rest.tokens, clock, log);
  const db = await openWorkspaceDatabase(location);
  const keys = knownKeys(db, clock);
  return {
    db,
    createKey: (key, nowMs) => createKey(db, key, nowMs, randomBytes),
    listKeys: (nowMs) => listKeys(db, nowMs),
    revokeKeys: (idsOrKeys, nowMs) => revokeKeys(db, idsOrKeys, nowMs),
    hasGoodKey: (nowMs) => hasGoodKey(db, nowMs),
    // No token begins so: the two cannot be taken for each other.
    authenticate: (credential, nowMs) =>
      credential.startsWith('olk_') ? keys.holder(credential, nowMs) : tokens.user(credential, nowMs),
    isFamiliar: (credential) => keys.isFamiliar(credential) || tokens.isFamiliar(credential),
    async close() {
      await keys.settle();
      await db.destroy();
    },
  };
}
