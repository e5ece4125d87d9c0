import type { Database } from './database.ts';

// Single values that the state keeps, by key.

/** The ID of the last commit: see CommitState in intent.ts. */
export const commitIdKey = 'commit_id';

/** sha256 of the manifest that the last publish wrote. */
export const manifestHashKey = 'manifest_sha256';

/** Its text, so that it can be put back. */
export const manifestTextKey = 'manifest_text';

/**
 * Epoch ms of the upgrade to format 3, or of the rebuild of a lost state. Responses of before are known by windows that
 * were joined without regard to evidence: a poll must not confirm them. Absent in an archive that began with format 3.
 */
export const evidenceSinceKey = 'evidence_since';

/** JSON: the sha256 of each text at the root that follows from it, by name. */
export const rootTextsKey = 'root_texts_sha256';

export const getMeta = (db: Database, key: string): string | undefined =>
  db.one<{ value: string }>('select value from meta where key = ?', key)?.value;

export function setMeta(db: Database, key: string, value: string): void {
  db.run('insert into meta values (?, ?) on conflict do update set value = excluded.value', key, value);
}
