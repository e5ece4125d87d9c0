import { exitCodes, OddslakeError } from '../../base/errors.ts';
import { commitIdKey, type Database, getMeta, setMeta } from './database.ts';

/** One staged file and where it belongs, both relative to the archive's root. */
export interface FileMove {
  /** Null where nothing takes the place of the file that is there: it goes. */
  readonly from: string | null;
  readonly to: string;
}

/** A publish past its commit point: these files become these, and this is the manifest. */
export interface PublishIntent {
  readonly generation: number;
  /** The ID of this commit; null in an intent that an older version left open. */
  readonly commitId: string | null;
  /** The text of manifest.json. */
  readonly manifest: string;
  /** In the order to be done: ticks first, coverage last. */
  readonly moves: readonly FileMove[];
}

/** The last commit of an archive: what the next one is built on. */
export interface CommitState {
  /** 0 before the first publish. */
  readonly generation: number;
  /** Random, another one after every commit, a repair's included; null before the first. */
  readonly commitId: string | null;
}

/** A commit was refused, or broken off, since the archive has another last commit than the one it was built on. */
export class SupersededError extends OddslakeError {
  constructor(options?: ErrorOptions) {
    super(
      exitCodes.busy,
      'Another run published while this one did, so this one changed nothing. That cannot happen while both hold the lock: was .oddslake/lock.sqlite removed? What was collected is journaled; the next publish takes it in.',
      options,
    );
    this.name = 'SupersededError';
  }
}

/** The last commit, as the state has it now. */
export const readCommitState = (db: Database): CommitState => ({
  generation: Number(getMeta(db, 'generation')),
  commitId: getMeta(db, commitIdKey) ?? null,
});

export function isLastCommit(db: Database, { generation, commitId }: CommitState): boolean {
  const last = readCommitState(db);
  return last.generation === generation && last.commitId === commitId;
}

export function readOpenIntent(db: Database): PublishIntent | undefined {
  // A state that is only looked at may be of an older version, without the column of the ID.
  const row = db.one<{ generation: number; commit_id?: string | null; manifest: string; moves: string }>(
    'select * from intents',
  );
  if (row === undefined) return undefined;
  const { generation, commit_id: commitId = null, manifest, moves } = row;
  return { generation, commitId, manifest, moves: JSON.parse(moves) as FileMove[] };
}

/** Whether this very intent is open: another publish may have carried it out and closed it. */
export const isOpenIntent = (db: Database, { generation, commitId }: PublishIntent): boolean =>
  db.one('select 1 from intents where generation = ? and commit_id is ?', generation, commitId) !== undefined;

/**
 * Decides the generation: a compare-and-set. Part of the publish's transaction.
 * @throws SupersededError where the last commit is not the one that this was built on, or is not carried out yet
 */
export function declareIntent(db: Database, builtOn: CommitState, intent: PublishIntent): void {
  if (!isLastCommit(db, builtOn) || readOpenIntent(db) !== undefined) throw new SupersededError();
  const { generation, commitId, manifest, moves } = intent;
  db.run(
    'insert into intents (generation, commit_id, manifest, moves) values (?, ?, ?, ?)',
    generation,
    commitId,
    manifest,
    JSON.stringify(moves),
  );
  setMeta(db, 'generation', String(generation));
  setMeta(db, commitIdKey, commitId ?? '');
}

export function closeIntent(db: Database, { generation, commitId }: PublishIntent): void {
  db.run('delete from intents where generation = ? and commit_id is ?', generation, commitId);
}
