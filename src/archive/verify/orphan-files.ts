import { join } from 'node:path';
import { readOpenIntent } from '../../state/intent.ts';
import { toDraftPath } from '../disk/cross-device.ts';
import type { PublishedFile } from '../manifest.ts';
import type { Archive } from '../open-archive.ts';
import { datasetNames } from '../parquet/schema.ts';

/** Paths of whatever lies in the folders of the datasets and is none of these files. */
export function findOrphanFiles(archive: Archive, files: readonly PublishedFile[]): string[] {
  // What a repair is about to remove is none, nor what a publish copies beside its place.
  const moves = readOpenIntent(archive.state.db)?.moves ?? [];
  const coming = moves.map(({ from, to }) => (from === null ? to : toDraftPath(to)));
  const known = new Set([...files.map(({ path }) => path), ...coming]);
  const folders = new Set([...known].flatMap(listParentFolders));
  return datasetNames.flatMap((dataset) => findOrphansBelow(archive, dataset, known, folders));
}

/** The folders that a published path is in, below the root. */
const listParentFolders = (path: string): string[] =>
  [...path.matchAll(/\//g)].map(({ index }) => path.slice(0, index));

/**
 * Below a dataset's folder are days, whose files are named one by one; any other folder counts as one thing. A folder of
 * ours may be a link to where there is room; any other link is a stranger itself.
 */
function findOrphansBelow(
  archive: Archive,
  folder: string,
  known: ReadonlySet<string>,
  folders: ReadonlySet<string>,
): string[] {
  const { disk, layout } = archive;
  return disk.list(join(layout.root, folder)).flatMap((name): string[] => {
    const path = `${folder}/${name}`;
    if (known.has(path)) return [];
    const at = join(layout.root, path);
    const isDay = !folder.includes('/') && !name.endsWith('.parquet') && !disk.isLink(at);
    return (isDay || folders.has(path)) && disk.isFolder(at) ? findOrphansBelow(archive, path, known, folders) : [path];
  });
}
