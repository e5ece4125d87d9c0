import { exitCodes, OddslakeError } from '../../base/errors.ts';
import { commitIdKey, type Database, getMeta, setMeta } from './database.ts';
import { readRecordedManifestText, recordManifest } from './recorded-manifest.ts';

/** A staged file and its target, both relative to the archive's root. */
export interface FileMove {
  /** Null if the target is deleted without a replacement. */
  readonly from: string | null;
  readonly to: string;
}

/** A publish past its commit point: the file moves to finish, and the new manifest. */
export interface PublishIntent {
  readonly generation: number;
  readonly commitId: string;
  /** The text of manifest.json. */
  readonly manifest: string;
  /** In order of execution: ticks first, coverage last. */
  readonly moves: readonly FileMove[];
}

/** The last commit of an archive, on which the next one is built. */
export interface CommitState {
  /** 0 before the first publish. */
  readonly generation: number;
  /** Random, and different for each commit and repair; null before the first. */
  readonly commitId: string | null;
}

/** A commit was rejected or aborted because another commit intervened. */
export class SupersededError extends OddslakeError {
  constructor(options?: ErrorOptions) {
    super(
      exitCodes.busy,
      'Another run published at the same time, so this one changed nothing. The lock prevents that: was .oddslake/lock.sqlite removed? The collected data is journaled; the next publish includes it.',
      options,
    );
    this.name = 'SupersededError';
  }
}

/** Reads the last commit from the state. */
export const readCommitState = (db: Database): CommitState => ({
  generation: Number(getMeta(db, 'generation')),
  commitId: getMeta(db, commitIdKey) ?? null,
});

export function isLastCommit(db: Database, { generation, commitId }: CommitState): boolean {
  const last = readCommitState(db);
  return last.generation === generation && last.commitId === commitId;
}

export function readOpenIntent(db: Database): PublishIntent | undefined {
  const row = db.one<{ generation: number; commit_id: string; moves: string }>('select * from intents');
  if (row === undefined) return undefined;
  const { generation, commit_id: commitId, moves } = row;
  return { generation, commitId, manifest: readRecordedManifestText(db)!, moves: JSON.parse(moves) as FileMove[] };
}

/** Whether this intent is open. Another publish may have finished and closed it. */
export const isOpenIntent = (db: Database, { generation, commitId }: PublishIntent): boolean =>
  db.one('select 1 from intents where generation = ? and commit_id = ?', generation, commitId) !== undefined;

/**
 * Commits the generation with a compare-and-set, and records its manifest. Part of the publish's transaction.
 * @param manifestHash SHA-256 of the text of the manifest
 * @throws SupersededError if the intent was not built on the last commit, or the last commit is not finished
 */
export function declareIntent(db: Database, builtOn: CommitState, intent: PublishIntent, manifestHash: string): void {
  if (!isLastCommit(db, builtOn) || readOpenIntent(db) !== undefined) throw new SupersededError();
  const { generation, commitId, manifest, moves } = intent;
  db.run('insert into intents values (?, ?, ?)', generation, commitId, JSON.stringify(moves));
  recordManifest(db, manifest, manifestHash);
  setMeta(db, 'generation', String(generation));
  setMeta(db, commitIdKey, commitId);
}

export function closeIntent(db: Database, { generation, commitId }: PublishIntent): void {
  db.run('delete from intents where generation = ? and commit_id = ?', generation, commitId);
}
