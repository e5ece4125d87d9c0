import { DamageError } from '../base/errors.ts';
import { type Disk, sha256 } from './disk/file-system.ts';
import type { ArchiveLayout } from './format/layout.ts';
import type { Manifest, PublishedFile } from './format/manifest.ts';
import { getMeta, manifestHashKey } from './journal/database.ts';
import type { State } from './journal/state.ts';

/**
 * An open archive: published files, described by a manifest, and beside them the state database with the journal.
 * `openArchive` creates it, and everything that reads or changes an archive takes it. These laws hold for all of it:
 *
 * - Generations. A generation is current from the moment its transaction commits (`commitStage`), before its files are
 *   moved. Until the moves are done an open intent holds its manifest, and its files are in staging.
 * - Readers take no lock. Part files and root files are replaced by rename, so a reader sees old or new bytes, never a
 *   mixture. A read of several files pins them first (`pinGeneration`), because a publish may replace them in between.
 * - Writers. Published files change only under the write lock (`takeWriteLock`) and only through an intent. Collecting
 *   needs no lock: it appends to the journal.
 * - Trust. The bytes of a published file are used only after their SHA-256 was compared with the manifest
 *   (`readPublishedFile`, `requireFileBytes`).
 * - Errors. A published file that is missing or differs is a DamageError, which is never read around. Failed calls of the
 *   disk keep their `code`. Failed calls of the state database are an OddslakeError that says what to do.
 * - Processes. Any number of processes may have an archive open. One `Archive` belongs to one thread.
 */
export interface Archive extends Disposable {
  /** Paths of the archive's files and folders. Fixed while it is open. */
  readonly layout: ArchiveLayout;
  /** How outputs and messages name it: its root, or its address in object storage. */
  readonly name: string;
  /**
   * The state database. A transaction is atomic across processes and durable when it returns; one that waits too long for
   * another process fails with the exit code for busy. A state that is lost is rebuilt from the published files when the
   * archive is opened; what was journaled only is lost with it.
   */
  readonly state: State;
  /**
   * All access to files. Bytes are durable after a sync of the file, a name after a sync of its folder; `write` does the
   * first, and `commitIntent` the second for staged files before it commits.
   */
  readonly disk: Disk;
  /** Name and version of this program, as written to the manifest. */
  readonly writer: string;
  /** Into how many parts a publish splits a day, at least 1. */
  readonly parts: number;
  /** Maximum rows per row group. */
  readonly groupRows: number;
  /** Sources that opening this archive has added to those that it had. */
  readonly addedSources: readonly string[];
  /** Where opening this archive has moved its damaged state database, relative to the root; null if it was sound. */
  readonly damagedState: string | null;
  /**
   * Paths of published files that were missing or had the wrong hash when they were read. It only grows while the archive
   * is open. Nothing is recorded until a publish step hashes them again.
   */
  readonly refusedPaths: Set<string>;
  /**
   * Downloads published files before they are read, if the archive is in object storage. Afterwards they are under
   * `layout.root` with the bytes that the manifest lists. Undefined: every file is there.
   * @throws DamageError if an object is missing or differs
   */
  readonly fetchFiles: ((files: readonly PublishedFile[]) => Promise<void>) | undefined;
  /** Creates a commit ID: 128 random bits in hexadecimal. No two commits have the same one. */
  createCommitId(): string;
  /**
   * The manifest of the current generation, parsed. Never older than the last commit of any process. It is parsed once per
   * generation: a process does not notice that something else changes manifest.json meanwhile (`readCheckedManifest` does).
   * @throws DamageError if manifest.json is missing, OddslakeError if it is not a manifest, UsageError if its format is newer
   */
  readManifest(): Manifest;
  /**
   * The exact bytes of that manifest: of the open intent, else of manifest.json, read each time. Of an archive without a
   * generation those of an empty manifest.
   * @throws DamageError if manifest.json is missing
   */
  readManifestBytes(): Uint8Array;
  /** The same as text. */
  readManifestText(): string;
  /**
   * Parses these bytes of a manifest, unless this archive or process parsed the same ones last.
   * @param hash SHA-256 of the bytes, if the caller has it
   * @throws as `readManifest` for bytes that are no manifest
   */
  parseManifestBytes(bytes: Uint8Array, hash?: string): Manifest;
  /**
   * Caches the manifest of the generation that is being committed, so that it need not be parsed. It is used only once the
   * state records this hash: a commit that fails leaves no trace. `hash`: SHA-256 of its text.
   */
  setCommittedManifest(hash: string, manifest: Manifest): void;
  /** Closes the state database. Journaled rows are durable without it. Files that were read remain valid. */
  close(): void;
}

/**
 * Throws DamageError if manifest.json is not the one that the last publish wrote: files that it does not list would
 * count as missing and be overwritten.
 */
export function requirePublishedManifest(archive: Archive): void {
  readCheckedManifestBytes(archive);
}

/** The current manifest's bytes. @throws DamageError if it is missing, or as `requirePublishedManifest` does */
export const readCheckedManifestBytes = (archive: Archive): Uint8Array => readCheckedBytes(archive).bytes;

function readCheckedBytes({ state, layout, readManifestBytes }: Archive): { bytes: Uint8Array; hash: string } {
  const readExpectedHash = (): string | undefined => getMeta(state.db, manifestHashKey);
  for (let expected = readExpectedHash(); ; ) {
    const bytes = readManifestBytes();
    const hash = sha256(bytes);
    if (expected === undefined || hash === expected) return { bytes, hash };
    const now = readExpectedHash();
    if (now === expected) throw createForeignManifestError(layout);
    // Another process published meanwhile.
    expected = now;
  }
}

/** The current manifest as bytes and parsed. @throws DamageError as `readCheckedManifestBytes` does */
export function readManifestWithBytes(archive: Archive): {
  readonly manifestBytes: Uint8Array;
  readonly manifest: Manifest;
} {
  const { bytes, hash } = readCheckedBytes(archive);
  return { manifestBytes: bytes, manifest: archive.parseManifestBytes(bytes, hash) };
}

/** The current manifest, parsed. @throws DamageError as `readCheckedManifestBytes` does */
export const readCheckedManifest = (archive: Archive): Manifest => readManifestWithBytes(archive).manifest;

const createForeignManifestError = (layout: ArchiveLayout): DamageError =>
  new DamageError(
    `${layout.manifestPath} is not the one that the last publish wrote. Restore that one with oddslake verify --repair, if the state database has a copy. If the whole archive was restored from a backup, remove ${layout.privateFolder} to rebuild the state from the published files.`,
  );
