import { dirname, join } from 'node:path';
import { moveFile, sha256 } from '../disk/file-system.ts';
import { formatManifest, type Manifest, parseManifest } from '../format/manifest.ts';
import { type Database, getMeta, manifestHashKey, manifestTextKey, setMeta } from '../journal/database.ts';
import {
  type CommitState,
  closeIntent,
  declareIntent,
  type FileMove,
  isOpenIntent,
  type PublishIntent,
  readOpenIntent,
  SupersededError,
} from '../journal/intent.ts';
import type { Archive } from '../open-archive.ts';
import { formatRootFiles, recordRootFileHashes } from './root-files.ts';
import { removeStaging, type Stage } from './staging.ts';

/**
 * Commits a stage. The transaction is the commit point: from it on the generation is this one, whatever happens.
 * `record` notes in the same transaction what the publish took in.
 * @throws SupersededError where the stage is not built on the last commit; nothing was changed then
 */
export function commitStage(
  archive: Archive,
  stage: Stage,
  next: Manifest,
  moves: PublishIntent['moves'],
  record: () => void,
): void {
  const manifest = { ...next, commit_id: stage.commitId };
  const text = formatManifest(manifest);
  archive.setCommittedManifest(text, manifest);
  const { generation } = manifest;
  const { commitId, builtOn } = stage;
  commitIntent(archive, builtOn, { generation, commitId, manifest: text, moves }, record, manifest);
}

/** The same for a manifest's text, whose generation may be the one that is published already. */
export function commitIntent(
  archive: Archive,
  builtOn: CommitState,
  intent: PublishIntent,
  record: () => void,
  manifest?: Manifest,
): void {
  const { db } = archive.state;
  syncStagedFolders(archive, intent.moves);
  db.transaction(() => {
    declareIntent(db, builtOn, intent);
    requireStagedFiles(archive, intent.moves);
    recordManifest(db, intent.manifest);
    record();
  });
  executeIntent(archive, intent, manifest);
}

/** @throws SupersededError where a file is gone: only another publish removes what is staged */
function requireStagedFiles({ disk, layout }: Archive, moves: PublishIntent['moves']): void {
  for (const { from } of moves)
    if (from !== null && disk.size(join(layout.root, from)) === null) throw new SupersededError();
}

/** Makes the names of staged files durable; their bytes are already. */
function syncStagedFolders({ disk, layout }: Archive, moves: PublishIntent['moves']): void {
  const staged = moves.flatMap(({ from }) => (from === null ? [] : [dirname(join(layout.root, from))]));
  for (const folder of new Set(staged)) disk.syncFolder(folder);
}

/** Carries out what a publish committed and did not finish. Holder of the write lock only; any number of times. */
export function finishIntent(archive: Archive): void {
  const intent = readOpenIntent(archive.state.db);
  if (intent !== undefined) executeIntent(archive, intent);
}

/** Keeps what manifest.json says from now on. */
export function recordManifest(db: Database, text: string): void {
  setMeta(db, manifestHashKey, sha256(Buffer.from(text)));
  setMeta(db, manifestTextKey, text);
}

/** Keeps the text of the last publish's manifest, where an older oddslake did not. */
export function recordManifestText({ state }: Archive, text: string): void {
  const { db } = state;
  if (getMeta(db, manifestTextKey) === text) return;
  db.transaction(() => {
    if (getMeta(db, manifestHashKey) === sha256(Buffer.from(text))) recordManifest(db, text);
  });
}

/** Moves that are carried out in one transaction: collectors wait for it no longer than so many renames take. */
const movesPerTransaction = 64;

/**
 * Every change is made inside a transaction that finds this intent still open. Transactions of the state exclude each
 * other, so a process that has lost its lock, or was stopped for hours, changes nothing once another one has carried the
 * intent out and closed it. Both may carry it out at once: a staged file is moved by one of them.
 * @param given what the text of its manifest says, where that is at hand
 */
function executeIntent(archive: Archive, intent: PublishIntent, given?: Manifest): void {
  const { disk, layout } = archive;
  const { db } = archive.state;
  const doWhileOpen = (work: () => void): boolean =>
    db.transaction(() => {
      const isOpen = isOpenIntent(db, intent);
      if (isOpen) work();
      return isOpen;
    });
  const { moves } = intent;
  for (let at = 0; at < moves.length; at += movesPerTransaction) {
    const some = moves.slice(at, at + movesPerTransaction);
    const isOpen = doWhileOpen(() => {
      for (const move of some) executeMove(archive, move);
    });
    if (!isOpen) return;
  }
  // Of a file that goes even the folder may be missing.
  const folders = new Set(moves.map(({ to }) => dirname(join(layout.root, to))));
  for (const folder of folders) if (disk.isFolder(folder)) disk.syncFolder(folder);
  const manifest = given ?? parseManifest(intent.manifest, 'the state database');
  const texts = formatRootFiles(manifest);
  const isDone = doWhileOpen(() => {
    for (const [name, text] of Object.entries(texts)) replaceRootFile(archive, name, text);
    // The parts before the manifest: until it names them, nobody looks.
    replaceRootFile(archive, 'manifest.json', intent.manifest);
    disk.syncFolder(layout.root);
    recordRootFileHashes(db, texts);
    closeIntent(db, intent);
  });
  if (isDone) removeStaging(archive);
}

function executeMove({ disk, layout }: Archive, { from, to }: FileMove): void {
  const target = join(layout.root, to);
  if (from === null) {
    disk.remove(target);
    return;
  }
  const staged = join(layout.root, from);
  // A file that is staged no more was moved before, by a process that crashed or by another that is at it too.
  if (disk.size(staged) === null) return;
  disk.makeFolder(dirname(target));
  moveFile(disk, staged, target);
}

/** Replaces a file at the root at once; durable after a sync of the root. */
export function replaceRootFile(archive: Archive, name: string, text: string): void {
  const { disk, layout } = archive;
  const draft = join(layout.privateFolder, `next-${name}`);
  disk.write(draft, Buffer.from(text, 'utf8'));
  moveFile(disk, draft, join(layout.root, name));
}
