import { dirname, join } from 'node:path';
import { closeIntent, declareIntent, type Intent, openIntent } from '../state/intent.ts';
import { manifestHashKey, setMeta } from '../state/state.ts';
import type { Archive } from './archive.ts';
import { sha256 } from './disk.ts';
import { type Manifest, manifestText, parseManifest } from './manifest.ts';
import { rootTexts } from './root-texts.ts';

/**
 * Commits a stage. The transaction is the commit point: from it on the generation is this one, whatever happens.
 * `record` notes in the same transaction what the publish took in.
 */
export function commit(archive: Archive, manifest: Manifest, moves: Intent['moves'], record: () => void): void {
  const intent = { generation: manifest.generation, manifest: manifestText(manifest), moves };
  archive.state.db.transaction(() => {
    declareIntent(archive.state.db, intent);
    setMeta(archive.state.db, manifestHashKey, sha256(Buffer.from(intent.manifest)));
    record();
  });
  carryOut(archive, intent);
}

/** Carries out what a publish committed and did not finish. Holder of the write lock only; any number of times. */
export function finishIntent(archive: Archive): void {
  const intent = openIntent(archive.state.db);
  if (intent !== undefined) carryOut(archive, intent);
}

function carryOut(archive: Archive, intent: Intent): void {
  const { disk, layout } = archive;
  const at = (path: string): string => join(layout.root, path);
  const folders = new Set<string>();
  for (const move of intent.moves) {
    // A file that is staged no more was moved before the crash that brought us here.
    if (disk.size(at(move.from)) === null) continue;
    disk.makeFolder(dirname(at(move.to)));
    disk.rename(at(move.from), at(move.to));
    folders.add(dirname(at(move.to)));
  }
  for (const move of intent.moves) folders.add(dirname(at(move.to)));
  // And the folders that these stand in: whoever made one may have died before it was synced into them.
  for (const folder of [...folders]) folders.add(dirname(folder));
  for (const folder of folders) disk.syncFolder(folder);
  const manifest = parseManifest(intent.manifest, 'the state database');
  for (const [name, text] of Object.entries(rootTexts(manifest))) replace(archive, name, text);
  // The parts before the manifest: until it names them, nobody looks.
  replace(archive, 'manifest.json', intent.manifest);
  disk.syncFolder(layout.root);
  closeIntent(archive.state.db, intent.generation);
  disk.remove(layout.staging);
}

/** Replaces a file at the root at once. */
function replace(archive: Archive, name: string, text: string): void {
  const { disk, layout } = archive;
  const draft = join(layout.private, `next-${name}`);
  disk.write(draft, Buffer.from(text, 'utf8'));
  disk.rename(draft, join(layout.root, name));
}
