import { join } from 'node:path';
import { DamageError, UsageError } from '../base/errors.ts';
import { systemRandomBytes } from '../base/system.ts';
import { type Disk, sha256 } from './disk/file-system.ts';
import { type ArchiveLayout, createLayout } from './format/layout.ts';
import {
  createEmptyManifest,
  formatManifest,
  formatVersion,
  type Manifest,
  type PublishedFile,
  parseManifest,
} from './format/manifest.ts';
import { getMeta, manifestHashKey, type OpenDatabase } from './journal/database.ts';
import { readOpenIntent } from './journal/intent.ts';
import { changeIdentity, openState, type State, toStateFilePath } from './journal/state.ts';
import { rowGroupRows } from './parquet/rows.ts';
import { rebuildState } from './rebuild-state.ts';

export interface Archive {
  readonly layout: ArchiveLayout;
  readonly state: State;
  readonly disk: Disk;
  /** Name and version of this program, as the manifest has it. */
  readonly writer: string;
  /** Rows that a row group of a file holds at most. */
  readonly groupRows: number;
  /** Paths of files that could not be read as published since it was opened. */
  readonly refusedPaths: Set<string>;
  /** A new ID for a commit: 128 random bits in hexadecimal. */
  createCommitId(): string;
  /** The current generation: an open intent is the new one already. */
  readManifest(): Manifest;
  /** The same as the text of its manifest.json, to the byte. */
  readManifestText(): string;
  /** Told of the generation that was just committed, so that nobody parses what was a manifest a moment ago. */
  setCommittedManifest(text: string, manifest: Manifest): void;
  close(): void;
}

export interface OpenArchiveOptions {
  readonly root: string;
  /** Whether to start an archive where there is none. */
  readonly create: boolean;
  /** The upstream that the caller means to poll; null where it polls none. */
  readonly upstream: string | null;
  /** Files of a day, for a new archive. */
  readonly parts: number;
  readonly writer: string;
  /** How long after a window's end an answer must come to be final, in ms. */
  readonly settleMs: number;
  /** How long it may wait for another process, in ms; see `openState`. */
  readonly waitMs?: number;
  /** Rows that a row group holds at most: other than `rowGroupRows` only to make small files of many. */
  readonly groupRows?: number;
  /** Where the IDs of commits come from; the system's where it is not given. */
  readonly randomBytes?: (count: number) => Uint8Array;
  /** Open one whose manifest.json is damaged too, where there is a state to mend it from. */
  readonly mends?: boolean;
}

interface ParsedManifest {
  readonly text: string;
  readonly manifest: Manifest;
}

/** Whether there is an archive at `root`, if only one that nothing was published in yet. */
export function archiveExists(root: string, disk: Disk): boolean {
  const layout = createLayout(root);
  return disk.size(layout.manifestPath) !== null || disk.size(toStateFilePath(layout.privateFolder)) !== null;
}

/** Opens the archive at `root`. Refuses a missing one (unless `create`), another upstream's and a newer format. */
export function openArchive(options: OpenArchiveOptions, disk: Disk, openDatabase?: OpenDatabase | undefined): Archive {
  const { root, upstream } = options;
  const layout = createLayout(root);
  // In this order: another process may be making the folder at this moment.
  if (disk.size(root) !== null && !disk.isFolder(root))
    throw new UsageError(`${root} is a file, not a folder for an archive.`);
  const found = readPublishedManifest(layout, disk, options.mends === true);
  const published = found?.manifest;
  if (!archiveExists(root, disk)) {
    if (!options.create) {
      throw new UsageError(
        `There is no archive at ${root}. Name its folder with --output or ODDSLAKE_OUTPUT, or start one there with oddslake init.`,
      );
    }
    if (upstream === null) {
      throw new UsageError(
        `There is no archive at ${root}, and nothing says which upstream a new one is for. Set ODDSLAKE_BASE_URL, or source.name.`,
      );
    }
    const others = disk.list(root).filter((name) => name !== '.gitkeep' && name !== '.oddslake');
    // Unless another process has started one here since.
    if (others.length > 0 && !archiveExists(root, disk)) {
      throw new UsageError(
        `${root} holds other files (${others.slice(0, 3).join(', ')}) and is no archive. Name an empty or new folder.`,
      );
    }
  }
  const owner = published?.upstream;
  if (owner !== undefined) requireSameUpstream(root, owner, upstream);
  disk.makeFolder(layout.privateFolder);
  const identity = { upstream: owner ?? upstream ?? '', parts: published?.parts ?? options.parts };
  const state = openState(layout.privateFolder, identity, openDatabase, options.waitMs);
  try {
    // Nothing was ever collected: the first address may have been a wrong one.
    if (upstream !== null && published === undefined) changeIdentity(state, { upstream, parts: options.parts });
    requireSameUpstream(root, state.identity.upstream, upstream);
    if (published !== undefined && state.generation() === 0)
      rebuildState(state, published, layout, disk, options.settleMs);
  } catch (error) {
    state.close();
    throw error;
  }
  /** The manifest's text, and where it is from. */
  const current = (): [text: string, from: string] => {
    // The generation before the intent: the first publish may begin in between, and its manifest.json comes last.
    if (state.generation() === 0)
      return [
        formatManifest(createEmptyManifest(options.writer, state.identity.upstream, state.identity.parts)),
        'nothing',
      ];
    const intent = readOpenIntent(state.db);
    if (intent !== undefined) return [intent.manifest, 'the state database'];
    return [readManifestText(layout, disk), layout.manifestPath];
  };
  let parsed = found;
  const randomBytes = options.randomBytes ?? systemRandomBytes;
  return {
    layout,
    state,
    disk,
    writer: options.writer,
    groupRows: options.groupRows ?? rowGroupRows,
    refusedPaths: new Set(),
    createCommitId: () => Buffer.from(randomBytes(16)).toString('hex'),
    readManifest() {
      const [text, from] = current();
      // Of an archive of many days parsing takes longer than all else that is done with it, and a run asks many times.
      if (parsed?.text !== text) parsed = { text, manifest: parseManifest(text, from) };
      return parsed.manifest;
    },
    readManifestText: () => current()[0],
    setCommittedManifest(text, manifest) {
      parsed = { text, manifest };
    },
    close: () => state.close(),
  };
}

/** What manifest.json says; nothing where there is none. */
function readPublishedManifest(layout: ArchiveLayout, disk: Disk, mends: boolean): ParsedManifest | undefined {
  if (disk.size(layout.manifestPath) === null) return undefined;
  try {
    const text = readManifestText(layout, disk);
    return { text, manifest: parseManifest(text, layout.manifestPath) };
  } catch (error) {
    if (mends && disk.size(toStateFilePath(layout.privateFolder)) !== null) return undefined;
    throw error;
  }
}

function requireSameUpstream(root: string, owner: string, wanted: string | null): void {
  if (wanted === null || owner === wanted) return;
  throw new UsageError(
    `The archive at ${root} belongs to the upstream ${owner}, not to ${wanted}. Use another output folder, or set source.name if both are the same service.`,
  );
}

function readManifestText(layout: ArchiveLayout, disk: Disk): string {
  if (!disk.isFile(layout.manifestPath)) {
    throw new DamageError(
      `${layout.manifestPath} is missing, though the archive was published. Put it back with: oddslake verify --repair`,
    );
  }
  return Buffer.from(disk.read(layout.manifestPath)).toString('utf8');
}

/**
 * Throws DamageError where manifest.json is not the one that the last publish wrote: what it does not list would be
 * taken for missing and written anew.
 */
export function requirePublishedManifest(archive: Archive): void {
  readCheckedManifestText(archive);
}

/** The current manifest's text. @throws DamageError as `requirePublishedManifest`, and where it is missing */
export function readCheckedManifestText(archive: Archive): string {
  const { state, layout } = archive;
  const wanted = (): string | undefined => getMeta(state.db, manifestHashKey);
  for (let hash = wanted(); ; ) {
    const text = archive.readManifestText();
    if (hash === undefined || sha256(Buffer.from(text, 'utf8')) === hash) return text;
    const now = wanted();
    if (now === hash) throw createForeignManifestError(layout);
    // A publish came in between.
    hash = now;
  }
}

/** The same, read. */
export const readCheckedManifest = (archive: Archive): Manifest =>
  parseManifest(readCheckedManifestText(archive), archive.layout.manifestPath);

const createForeignManifestError = (layout: ArchiveLayout): DamageError =>
  new DamageError(
    `${layout.manifestPath} is not the one that the last publish wrote. Put that one back with oddslake verify --repair, where the state knows it; or, where the whole tree was restored from a backup, remove ${layout.privateFolder} to start from what is there.`,
  );

/**
 * Throws UsageError where the archive is of an older format: reading it is fine, but an older oddslake may still be
 * running against it, so that only `upgrade` writes.
 */
export function requireCurrentFormat(archive: Archive): void {
  const { format_version: format } = archive.readManifest();
  if (format >= formatVersion) return;
  throw new UsageError(
    `The archive at ${archive.layout.root} has format ${format}, and this oddslake writes format ${formatVersion}. Once no older oddslake runs against it any more, bring it up with: oddslake upgrade`,
  );
}

/**
 * The absolute path of a published file as it can be read now: staged while its publish is being carried out, at its
 * place before and after.
 */
export function locateFile(archive: Archive, path: string): string {
  const staged = readOpenIntent(archive.state.db)?.moves.find((move) => move.to === path);
  if (staged !== undefined && staged.from !== null) {
    const at = join(archive.layout.root, staged.from);
    if (archive.disk.size(at) !== null) return at;
  }
  return join(archive.layout.root, path);
}

/** The bytes of a published file as it is now; null where it is missing, or no file. */
export function readFileNow(archive: Archive, path: string): Uint8Array | null {
  for (;;) {
    const at = locateFile(archive, path);
    try {
      // What else may be there, a folder or a pipe, is not to be read.
      if (archive.disk.isFile(at)) return archive.disk.read(at);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    // A publish may have moved it from the stage to its place just now: only there can it be missing.
    if (at === join(archive.layout.root, path)) return null;
  }
}

/** Reads a published file and checks it against the manifest; a bad one is refused and stays where it is. */
export function readPublishedFile(archive: Archive, file: PublishedFile): Uint8Array {
  const bytes = readFileNow(archive, file.path);
  if (bytes !== null && sha256(bytes) === file.sha256) return bytes;
  archive.refusedPaths.add(file.path);
  throw new DamageError(
    bytes === null
      ? `${file.path} is missing, though the manifest lists it.`
      : `${file.path} is damaged: its sha256 differs from the manifest's.`,
  );
}
