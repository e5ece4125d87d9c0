import { dirname, join } from 'node:path';
import type { Archive } from '../archive.ts';
import { moveFile, sha256 } from '../disk/file-system.ts';
import { manifestName } from '../format/layout.ts';
import { formatChecksums, formatManifest, type Manifest, parseManifest } from '../format/manifest.ts';
import { type Database, getMeta, manifestHashKey, rootTextsKey, setMeta } from '../journal/database.ts';
import { recordGeneration } from '../journal/generations.ts';
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
import { readRecordedManifestText, recordManifest } from '../journal/recorded-manifest.ts';
import { formatReadme } from './readme.ts';
import { removeStaging, type Stage } from './staging.ts';
import { formatViewsFile } from './views-sql.ts';

/**
 * Commits a stage. The transaction is the commit point: after it the new generation is current, whatever happens.
 * `record` runs in the same transaction and records what the publish consumed.
 * @throws SupersededError if the stage is not built on the last commit; nothing has changed then
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
  const { generation } = manifest;
  const { commitId, builtOn } = stage;
  const intent = { generation, commitId, manifest: text, moves };
  if (stage.writes === null) {
    commitIntent(archive, builtOn, intent, record, manifest);
    return;
  }
  if (!stage.isDurable) throw new Error('Staged files are not durable yet; nothing was committed. This is a bug.');
  commitDurable(archive, builtOn, intent, record, manifest);
}

/**
 * Commits an intent; its generation may be the current one. The contents of its staged files must be durable.
 * @param manifest the parsed manifest of the intent, if the caller has it
 * @throws SupersededError as `commitStage` does
 */
export function commitIntent(
  archive: Archive,
  builtOn: CommitState,
  intent: PublishIntent,
  record: () => void,
  manifest?: Manifest,
): void {
  syncStagedFolders(archive, intent.moves);
  commitDurable(archive, builtOn, intent, record, manifest);
}

/** The same, but the names of the staged files must be durable too. */
function commitDurable(
  archive: Archive,
  builtOn: CommitState,
  intent: PublishIntent,
  record: () => void,
  manifest: Manifest | undefined,
): void {
  const { db } = archive.state;
  const bytes = Buffer.from(intent.manifest);
  const hash = sha256(bytes);
  if (manifest !== undefined) archive.setCommittedManifest(hash, manifest);
  db.transaction(() => {
    const before = { generation: builtOn.generation, hash: getMeta(db, manifestHashKey) };
    declareIntent(db, builtOn, intent, hash);
    requireStagedFiles(archive, intent.moves);
    recordGeneration(db, before, { generation: intent.generation, hash });
    // After the generation: that of another archive, which a pull adopts, does not descend from those of this one.
    record();
  });
  executeIntent(archive, intent, bytes, manifest);
}

/** @throws SupersededError if a staged file is missing: only another publish removes staged files */
function requireStagedFiles({ disk, layout }: Archive, moves: PublishIntent['moves']): void {
  for (const { from } of moves)
    if (from !== null && disk.size(join(layout.root, from)) === null) throw new SupersededError();
}

/** Makes the names of staged files durable. Their contents already are. */
function syncStagedFolders({ disk, layout }: Archive, moves: PublishIntent['moves']): void {
  const staged = moves.flatMap(({ from }) => (from === null ? [] : [dirname(join(layout.root, from))]));
  for (const folder of new Set(staged)) disk.syncFolder(folder);
}

/** Finishes a committed publish that was interrupted (redo). Requires the write lock. Idempotent. */
export function finishIntent(archive: Archive): void {
  const intent = readOpenIntent(archive.state.db);
  if (intent !== undefined) executeIntent(archive, intent, Buffer.from(intent.manifest));
}

/** Records the text of the last published manifest if the state has only its hash, or another text. */
export function recordManifestText({ state }: Archive, text: string): void {
  const { db } = state;
  if (readRecordedManifestText(db) === text) return;
  const hash = sha256(Buffer.from(text));
  db.transaction(() => {
    if (getMeta(db, manifestHashKey) !== hash) return;
    // A part whose text differs from its name would be kept.
    db.run('delete from manifest_parts');
    recordManifest(db, text, hash);
  });
}

/** Moves per transaction. Bounds how long collectors wait for the database. */
const movesPerTransaction = 64;

/**
 * Makes every change inside a transaction that finds the intent still open. State transactions exclude each other, so a
 * process that lost its lock or was suspended for hours changes nothing after another process has finished and closed
 * the intent. Two processes may execute the same intent concurrently. Each staged file is moved by one of them.
 * @param manifestBytes the manifest of the intent @param knownManifest the same, parsed, if the caller has it
 */
function executeIntent(
  archive: Archive,
  intent: PublishIntent,
  manifestBytes: Uint8Array,
  knownManifest?: Manifest,
): void {
  const { disk, layout } = archive;
  const { db } = archive.state;
  const runWhileOpen = (work: () => void): boolean =>
    db.transaction(() => {
      const isOpen = isOpenIntent(db, intent);
      if (isOpen) work();
      return isOpen;
    });
  const { moves } = intent;
  for (let at = 0; at < moves.length; at += movesPerTransaction) {
    const batch = moves.slice(at, at + movesPerTransaction);
    const isOpen = runWhileOpen(() => executeMoves(archive, batch));
    if (!isOpen) return;
  }
  // The folder of a removed file may be missing too.
  const folders = new Set(moves.map(({ to }) => dirname(join(layout.root, to))));
  for (const folder of folders) if (disk.isFolder(folder)) disk.syncFolder(folder);
  const manifest = knownManifest ?? parseManifest(intent.manifest, 'the state database');
  const texts = Object.entries(formatRootFiles(manifest)).map(([name, text]) => [name, Buffer.from(text)] as const);
  const isDone = runWhileOpen(() => {
    for (const [name, bytes] of texts) replaceRootFile(archive, name, bytes);
    // Part files before the manifest: readers find them through the manifest.
    replaceRootFile(archive, manifestName, manifestBytes);
    disk.syncFolder(layout.root);
    recordRootFileBytes(db, texts);
    closeIntent(db, intent);
  });
  if (isDone) removeStaging(archive);
}

function executeMoves({ disk, layout }: Archive, moves: readonly FileMove[]): void {
  // A missing staged file was already moved, by a process that crashed or by one that executes the same intent.
  const remaining = moves.filter(({ from }) => from === null || disk.size(join(layout.root, from)) !== null);
  disk.makeFolders(remaining.flatMap(({ from, to }) => (from === null ? [] : [dirname(join(layout.root, to))])));
  for (const { from, to } of remaining) {
    if (from === null) disk.remove(join(layout.root, to));
    else moveFile(disk, join(layout.root, from), join(layout.root, to));
  }
}

/** Atomically replaces a file in the root folder. Durable after a sync of that folder. */
export function replaceRootFile(archive: Archive, name: string, bytes: Uint8Array): void {
  const { disk, layout } = archive;
  const draft = join(layout.privateFolder, `next-${name}`);
  disk.write(draft, bytes);
  moveFile(disk, draft, join(layout.root, name));
}

/** The root files besides manifest.json, by name. All are derived from the manifest. */
export const formatRootFiles = (manifest: Manifest): Readonly<Record<string, string>> => ({
  SHA256SUMS: formatChecksums(manifest),
  'README.md': formatReadme(manifest),
  'views.sql': formatViewsFile(manifest),
});

/** Records the hashes of the root files as written. Another build may derive other texts from the same manifest. */
export const recordRootFileHashes = (db: Database, texts: Readonly<Record<string, string>>): void =>
  recordRootFileBytes(
    db,
    Object.entries(texts).map(([name, text]) => [name, Buffer.from(text)]),
  );

const recordRootFileBytes = (db: Database, files: readonly (readonly [name: string, bytes: Uint8Array])[]): void =>
  setMeta(db, rootTextsKey, JSON.stringify(Object.fromEntries(files.map(([name, bytes]) => [name, sha256(bytes)]))));

/** The sha256 of each root file as written, by name; undefined in a state database that is older or rebuilt. */
export function readRootFileHashes(db: Database): Readonly<Record<string, string>> | undefined {
  const recorded = getMeta(db, rootTextsKey);
  return recorded === undefined ? undefined : (JSON.parse(recorded) as Record<string, string>);
}
