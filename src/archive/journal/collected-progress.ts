import type { Manifest } from '../format/manifest.ts';
import { type Database, getMeta, setMeta } from './database.ts';

/** How far the live symbols are covered; see `watermark` and `reached` of the manifest. Epoch milliseconds. */
export type Progress = Pick<Manifest, 'watermark' | 'reached'>;

const progressKey = 'collected_progress';

/**
 * Records how far the journal goes beyond the last commit, after a job that brought nothing new and left its coverage in
 * the journal. Joins the caller's transaction.
 */
export const recordCollectedProgress = (
  db: Database,
  { commit_id }: Pick<Manifest, 'commit_id'>,
  { watermark, reached }: Progress,
): void => setMeta(db, progressKey, JSON.stringify({ commit_id: commit_id ?? null, watermark, reached }));

/** Reads the progress of jobs that brought nothing new since this commit; null if there were none. */
export function readProgressSince(db: Database, commitId: string | null): Progress | null {
  const text = getMeta(db, progressKey);
  if (text === undefined) return null;
  const { commit_id, watermark, reached } = JSON.parse(text) as Progress & { readonly commit_id: string | null };
  // A later commit has figures of its own.
  return commit_id === commitId ? { watermark, reached } : null;
}

/** Reads the progress of the last commit, or that of later jobs that brought nothing new. */
export const readCollectedProgress = (
  db: Database,
  { commit_id, watermark, reached }: Pick<Manifest, 'commit_id'> & Progress,
): Progress => readProgressSince(db, commit_id ?? null) ?? { watermark, reached };
