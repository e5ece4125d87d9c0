import { join } from 'node:path';
import { type FileRecord, recordRowGroups } from '../../state/file-metadata.ts';
import { recordHashed } from '../../state/hash-times.ts';
import {
  type CommitState,
  type FileMove,
  isLastCommit,
  readCommitState,
  readOpenIntent,
  SupersededError,
} from '../../state/intent.ts';
import { sha256 } from '../disk/file-system.ts';
import { findManifestFile, type Manifest, type PublishedFile } from '../manifest.ts';
import { type Archive, readFileNow } from '../open-archive.ts';
import type { DatasetName } from '../parquet/schema.ts';
import type { EncodedFile } from './file-entry.ts';

/** What a publish has written under .oddslake/staging and where it shall go. Nothing of it counts before the commit. */
export interface Stage {
  readonly generation: number;
  /** Of the commit that it is for. Its files are in a folder of that name, which no other publish writes to. */
  readonly commitId: string;
  /** The commit that it is built on, */
  readonly builtOn: CommitState;
  /** and its manifest. */
  readonly base: Manifest;
  readonly moves: FileMove[];
  /** The files of the next manifest that differ from the base, by path. */
  readonly stagedFiles: Map<string, { readonly dataset: DatasetName; readonly file: PublishedFile }>;
  /** Files of the base that the next manifest names no more, by path. */
  readonly removedPaths: Set<string>;
  /** What the staged files are made of. */
  readonly fileRecords: FileRecord[];
  /** Files of the base that were made again, hashed and found the same. */
  readonly unchangedFiles: PublishedFile[];
}

/**
 * Starts a stage; what a broken publish left staged goes, since it never counted. Holder of the write lock only.
 * @param builtOn read before `base`: where a publish came in between, the commit is refused
 */
export function startStage(archive: Archive, base: Manifest, builtOn: CommitState): Stage {
  removeStaging(archive);
  const commitId = archive.createCommitId();
  return {
    generation: base.generation + 1,
    commitId,
    builtOn,
    base,
    moves: [],
    stagedFiles: new Map(),
    removedPaths: new Set(),
    fileRecords: [],
    unchangedFiles: [],
  };
}

/**
 * Removes what is staged, unless a committed publish still needs its files. In a transaction, so that none is committed
 * meanwhile: one that finds its files gone does not commit.
 */
export function removeStaging({ disk, layout, state }: Archive): void {
  if (disk.size(layout.stagingFolder) === null) return;
  state.db.transaction(() => {
    if (readOpenIntent(state.db) !== undefined) return;
    try {
      disk.remove(layout.stagingFolder);
    } catch (error) {
      // A publisher that has lost its lock still writes there: the next one removes it.
      if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error;
    }
  });
}

/** Whether a publish failed since another one came in between, which only the loss of a lock allows. */
export function isSuperseded({ layout, state }: Archive, { builtOn, commitId }: Stage, error: unknown): boolean {
  if (error instanceof SupersededError) return true;
  const { code, path } = error as NodeJS.ErrnoException;
  // Only another publish removes what is staged.
  if (code === 'ENOENT' && path?.startsWith(layout.stagingFolder) === true) return true;
  // After its own commit it fails by itself.
  return readCommitState(state.db).commitId !== commitId && !isLastCommit(state.db, builtOn);
}

/** Stages a file of a dataset; one whose bytes are published already, and still intact, is left as it is. */
export function stageFile(archive: Archive, stage: Stage, { dataset, bytes, statistics, record }: EncodedFile): void {
  const { path, sha256: hash } = record;
  const before = findManifestFile(stage.base, dataset, path);
  if (before?.sha256 === hash && isPublishedIntact(archive, path, hash)) {
    stage.unchangedFiles.push(before);
    return;
  }
  stageBytes(archive, stage, path, bytes);
  stage.fileRecords.push(record);
  const file = { path, ...statistics, bytes: bytes.length, sha256: hash, generation: stage.generation };
  stage.stagedFiles.set(path, { dataset, file: orderManifestFields(file) });
}

/** Candles and symbols are never read before they are made anew: what became of them meanwhile is seen only here. */
function isPublishedIntact(archive: Archive, path: string, hash: string): boolean {
  const bytes = readFileNow(archive, path);
  return bytes !== null && sha256(bytes) === hash;
}

/** Notes what the files of a stage are made of, and that they are as published now; in the commit's transaction. */
export function recordStagedFiles({ state }: Archive, stage: Stage, nowMs: number): void {
  recordRowGroups(state.db, stage.fileRecords);
  recordHashed(state.db, [...stage.fileRecords, ...stage.unchangedFiles], nowMs);
}

/** Takes a file out of the next manifest: the commit removes it. */
export function stageRemoval(stage: Stage, path: string): void {
  stage.moves.push({ from: null, to: path });
  stage.removedPaths.add(path);
}

/** Stages bytes for a path, those of a file that no manifest names or that it names already; gives back where they are. */
export function stageBytes(
  archive: Archive,
  stage: Stage,
  path: string,
  bytes: Uint8Array | Iterable<Uint8Array>,
): string {
  const from = `.oddslake/staging/${stage.generation}/${stage.commitId}/${path}`;
  const target = join(archive.layout.root, from);
  archive.disk.makeFolder(join(target, '..'));
  archive.disk.write(target, bytes);
  stage.moves.push({ from, to: path });
  return target;
}

const orderManifestFields = (f: PublishedFile): PublishedFile => ({
  path: f.path,
  date: f.date,
  rows: f.rows,
  bytes: f.bytes,
  sha256: f.sha256,
  t_min: f.t_min,
  t_max: f.t_max,
  symbols: f.symbols,
  generation: f.generation,
});

/** What the next manifest says of files that are no more: nothing where there are none. One that is back counts no more. */
export function listRemovedFiles({ base, generation, removedPaths, stagedFiles }: Stage): Pick<Manifest, 'removed'> {
  const before = (base.removed ?? []).filter(({ path }) => !stagedFiles.has(path) && !removedPaths.has(path));
  const removed = [...before, ...[...removedPaths].map((path) => ({ path, generation }))];
  return removed.length === 0 ? {} : { removed };
}

/** The base manifest with the staged files in it; each dataset's files sorted by path. */
export function listNextFiles(stage: Stage): Manifest['datasets'] {
  const out = {} as Record<DatasetName, { files: PublishedFile[] }>;
  for (const [dataset, { files }] of Object.entries(stage.base.datasets)) {
    const byPath = new Map(files.map((file) => [file.path, file]));
    for (const path of stage.removedPaths) byPath.delete(path);
    for (const [path, staged] of stage.stagedFiles) if (staged.dataset === dataset) byPath.set(path, staged.file);
    out[dataset as DatasetName] = { files: [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : 1)) };
  }
  return out;
}
