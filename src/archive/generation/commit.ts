import { dirname, join } from 'node:path';
import type { Database } from '../../state/database.ts';
import { closeIntent, declareIntent, type Intent, openIntent } from '../../state/intent.ts';
import { getMeta, manifestHashKey, manifestTextKey, setMeta } from '../../state/state.ts';
import type { Archive } from '../archive.ts';
import { moveInto } from '../disk/apart.ts';
import { sha256 } from '../disk/disk.ts';
import { type Manifest, manifestText, parseManifest } from '../manifest.ts';
import { noteRootTexts, rootTexts } from '../texts/root-texts.ts';

/**
 * Commits a stage. The transaction is the commit point: from it on the generation is this one, whatever happens.
 * `record` notes in the same transaction what the publish took in.
 */
export function commit(archive: Archive, manifest: Manifest, moves: Intent['moves'], record: () => void): void {
  const text = manifestText(manifest);
  archive.committed(text, manifest);
  commitIntent(archive, { generation: manifest.generation, manifest: text, moves }, record, manifest);
}

/** The same for a manifest's text, which may be that of the generation that is published already. */
export function commitIntent(archive: Archive, intent: Intent, record: () => void, manifest?: Manifest): void {
  const { db } = archive.state;
  syncStaged(archive, intent.moves);
  db.transaction(() => {
    declareIntent(db, intent);
    noteManifest(db, intent.manifest);
    record();
  });
  carryOut(archive, intent, manifest);
}

/** Makes the names of staged files durable; their bytes are already. */
function syncStaged({ disk, layout }: Archive, moves: Intent['moves']): void {
  const staged = moves.flatMap(({ from }) => (from === null ? [] : [dirname(join(layout.root, from))]));
  for (const folder of new Set(staged)) disk.syncFolder(folder);
}

/** Carries out what a publish committed and did not finish. Holder of the write lock only; any number of times. */
export function finishIntent(archive: Archive): void {
  const intent = openIntent(archive.state.db);
  if (intent !== undefined) carryOut(archive, intent);
}

/** Keeps what manifest.json says from now on. */
export function noteManifest(db: Database, text: string): void {
  setMeta(db, manifestHashKey, sha256(Buffer.from(text)));
  setMeta(db, manifestTextKey, text);
}

/** Keeps the text of the last publish's manifest, where an older oddslake did not. */
export function keepManifestText({ state }: Archive, text: string): void {
  const { db } = state;
  if (getMeta(db, manifestTextKey) === text) return;
  db.transaction(() => {
    if (getMeta(db, manifestHashKey) === sha256(Buffer.from(text))) noteManifest(db, text);
  });
}

/** @param given what the text of its manifest says, where that is at hand */
function carryOut(archive: Archive, intent: Intent, given?: Manifest): void {
  const { disk, layout } = archive;
  const at = (path: string): string => join(layout.root, path);
  const folders = new Set<string>();
  for (const move of intent.moves) {
    if (move.from === null) {
      disk.remove(at(move.to));
      continue;
    }
    // A file that is staged no more was moved before the crash that brought us here.
    if (disk.size(at(move.from)) === null) continue;
    disk.makeFolder(dirname(at(move.to)));
    moveInto(disk, at(move.from), at(move.to));
    folders.add(dirname(at(move.to)));
  }
  // Of a file that goes even the folder may be missing.
  for (const { to } of intent.moves) if (disk.isFolder(dirname(at(to)))) folders.add(dirname(at(to)));
  for (const folder of folders) disk.syncFolder(folder);
  const manifest = given ?? parseManifest(intent.manifest, 'the state database');
  const texts = rootTexts(manifest);
  for (const [name, text] of Object.entries(texts)) replace(archive, name, text);
  // The parts before the manifest: until it names them, nobody looks.
  replace(archive, 'manifest.json', intent.manifest);
  disk.syncFolder(layout.root);
  const { db } = archive.state;
  db.transaction(() => {
    noteRootTexts(db, texts);
    closeIntent(db, intent.generation);
  });
  disk.remove(layout.staging);
}

/** Replaces a file at the root at once; durable after a sync of the root. */
export function replace(archive: Archive, name: string, text: string): void {
  const { disk, layout } = archive;
  const draft = join(layout.private, `next-${name}`);
  disk.write(draft, Buffer.from(text, 'utf8'));
  moveInto(disk, draft, join(layout.root, name));
}
