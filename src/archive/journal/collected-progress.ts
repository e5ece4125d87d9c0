import type { Manifest } from '../format/manifest.ts';
import { type Database, getMeta, setMeta } from './database.ts';

/** How far the live symbols are covered; see `watermark` and `reached` of the manifest. Epoch milliseconds. */
type Progress = Pick<Manifest, 'watermark' | 'reached'>;

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

/** Reads the progress of the last commit, or that of later jobs that brought nothing new. */
export function readCollectedProgress(db: Database, manifest: Pick<Manifest, 'commit_id'> & Progress): Progress {
  const text = getMeta(db, progressKey);
  const since = text === undefined ? null : (JSON.parse(text) as Progress & { readonly commit_id: string | null });
  // A later commit has figures of its own.
  const { watermark, reached } = since?.commit_id === (manifest.commit_id ?? null) ? since : manifest;
  return { watermark, reached };
}
