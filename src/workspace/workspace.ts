import { openWorkspaceDatabase, type WorkspaceDatabase } from './database.ts';
import { createKey, keyHolder, type NewKey, type RandomBytes } from './keys.ts';
import type { Location } from './location.ts';
import type { Principal } from './principal.ts';

/** The service's own database: who may ask, and what they have made. */
export interface Workspace {
  readonly db: WorkspaceDatabase;
  createKey(key: NewKey, nowMs: number): Promise<{ id: string; key: string }>;
  /** Who a bearer credential stands for; null where it is none that is good now. */
  authenticate(credential: string, nowMs: number): Promise<Principal | null>;
  close(): Promise<void>;
}

export async function openWorkspace(location: Location, randomBytes: RandomBytes): Promise<Workspace> {
  const db = await openWorkspaceDatabase(location);
  return {
    db,
    createKey: (key, nowMs) => createKey(db, key, nowMs, randomBytes),
    authenticate: (credential, nowMs) => keyHolder(db, credential, nowMs),
    close: () => db.destroy(),
  };
}
