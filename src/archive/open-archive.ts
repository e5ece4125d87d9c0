import { LRUCache } from 'lru-cache';
import { DamageError, UsageError } from '../base/errors.ts';
import { systemRandomBytes } from '../base/system.ts';
import { emptyTicks, type TickColumns } from '../base/ticks.ts';
import type { Archive } from './archive.ts';
import type { Disk } from './disk/file-system.ts';
import { findSymbolFile } from './format/day-parts.ts';
import { type ArchiveLayout, createLayout, listOtherFiles } from './format/layout.ts';
import {
  type ArchiveOwner,
  createEmptyManifest,
  formatManifest,
  formatOwner,
  type PublishedFile,
  readOwner,
  type SourceIdentity,
} from './format/manifest.ts';
import { getMeta, manifestHashKey, type OpenDatabase } from './journal/database.ts';
import { readOpenIntent } from './journal/intent.ts';
import {
  changeIdentity,
  forgetUnusedSources,
  openState,
  recordSources,
  type State,
  setDamagedStateAside,
  toStateFilePath,
} from './journal/state.ts';
import type { SymbolRowIndex } from './parquet/symbol-row-index.ts';
import { indexTickFile, readSymbolTicks } from './parquet/ticks-file.ts';
import { rowGroupRows } from './parquet/writer.ts';
import { decodeManifest, keepManifest, type ParsedManifest, parseManifestBytes } from './parsed-manifest.ts';
import { decodePublished, readPublishedFile } from './read-published-file.ts';
import { rebuildState } from './rebuild-state.ts';

interface OpenArchiveOptions {
  readonly root: string;
  /** Whether to create an archive if there is none. */
  readonly create: boolean;
  /** The only service that the caller polls; null if it polls none, or has several sources. */
  readonly upstream: string | null;
  /** The sources of the caller, if it has several, whether it polls all of them or not. Default: none. */
  readonly sources?: readonly SourceIdentity[];
  /** The number of parts of a day, at least 1; default 4. */
  readonly parts?: number;
  readonly writer: string;
  /** How long to wait for another process, in ms; see `openState`. */
  readonly waitMs?: number;
  /** Maximum rows per row group; default `rowGroupRows`. Tests set it lower, to get many row groups in small files. */
  readonly groupRows?: number;
  /** Source of random bytes for commit IDs; default the system's. */
  readonly randomBytes?: (count: number) => Uint8Array;
  /** Also open an archive whose manifest.json or state database is damaged, if the other one is there to repair it from. */
  readonly mends?: boolean;
  /** Check the upstream and the sources of the caller, and do not record them. */
  readonly keepsIdentity?: boolean;
  /** See `Archive.name`; default the root. */
  readonly name?: string;
  /** See `Archive.fetchFiles`. */
  readonly fetchFiles?: (files: readonly PublishedFile[]) => Promise<void>;
}

/** Whether there is an archive at `root`, even one without a published generation. */
export function archiveExists(root: string, disk: Disk): boolean {
  const layout = createLayout(root);
  return disk.size(layout.manifestPath) !== null || disk.size(toStateFilePath(layout.privateFolder)) !== null;
}

/** Opens the archive at `root`. Rejects a missing archive (unless `create`), another owner and another format. */
export function openArchive(options: OpenArchiveOptions, disk: Disk, openDatabase?: OpenDatabase | undefined): Archive {
  const { root, upstream, sources = [] } = options;
  const caller = upstream === null && sources.length === 0 ? null : { upstream: upstream ?? '', sources };
  const layout = createLayout(root);
  // In this order: another process may be creating the folder.
  if (disk.size(root) !== null && !disk.isFolder(root))
    throw new UsageError(`${root} is a file, not a folder for an archive.`);
  const parsedAtOpen = readPublishedManifest(layout, disk, options.mends === true);
  const published = parsedAtOpen?.manifest;
  if (!archiveExists(root, disk)) {
    if (!options.create) {
      throw new UsageError(
        `There is no archive at ${root}. Name its folder with --output or ODDSLAKE_OUTPUT, or start one there: oddslake init`,
      );
    }
    if (caller === null) {
      throw new UsageError(
        `There is no archive at ${root}, and no upstream is set for a new one. Set ODDSLAKE_BASE_URL or source.name.`,
      );
    }
    const otherNames = listOtherFiles(root, disk);
    // Another process may have created the archive meanwhile.
    if (otherNames.length > 0 && !archiveExists(root, disk)) {
      throw new UsageError(
        `${root} holds other files (${otherNames.slice(0, 3).join(', ')}) and is not an archive. Name an empty or new folder.`,
      );
    }
  }
  const owner = published === undefined ? undefined : readOwner(published);
  if (owner !== undefined) requireSameOwner(root, owner, caller);
  disk.makeFolder(layout.privateFolder);
  const identity = owner ?? caller ?? noOwner;
  let addedSources: readonly string[] = [];
  // Without a manifest, the files of a published archive would be taken for none.
  const isRebuildable = published !== undefined || listOtherFiles(root, disk).length === 0;
  const damagedState = options.mends === true && isRebuildable ? setDamagedStateAside(layout, disk) : null;
  const state = openState(layout.privateFolder, identity, openDatabase, options.waitMs, (symbol, day) =>
    readPublishedTicks(symbol, day),
  );
  try {
    if (published !== undefined && state.generation() === 0) rebuildState(state, published, layout, disk);
    addedSources = claimIdentity(state, options, caller, owner);
  } catch (error) {
    state.close();
    throw error;
  }
  /** The manifest's bytes, and their origin for error messages. */
  const readCurrent = (): [bytes: Uint8Array, from: string] => {
    // Check the generation before the intent: the first publish may start in between, and writes manifest.json last.
    if (state.generation() === 0)
      return [
        Buffer.from(
          formatManifest(createEmptyManifest(options.writer, state.identity.upstream, state.identity.sources)),
        ),
        'nothing',
      ];
    const intent = readOpenIntent(state.db);
    if (intent !== undefined) return [Buffer.from(intent.manifest), 'the state database'];
    return [readManifestBytes(layout, disk), layout.manifestPath];
  };
  let parsed = parsedAtOpen;
  const randomBytes = options.randomBytes ?? systemRandomBytes;
  const archive: Archive = {
    layout,
    name: options.name ?? root,
    state,
    disk,
    writer: options.writer,
    parts: options.parts ?? 4,
    groupRows: options.groupRows ?? rowGroupRows,
    addedSources,
    damagedState,
    refusedPaths: new Set(),
    fetchFiles: options.fetchFiles,
    createCommitId: () => Buffer.from(randomBytes(16)).toString('hex'),
    readManifest() {
      // The manifest of a large archive has megabytes, and a run needs it many times.
      const expected = getMeta(state.db, manifestHashKey);
      if (expected !== undefined && parsed?.hash === expected) return parsed.manifest;
      parsed = parseManifestBytes(...readCurrent(), parsed);
      return parsed.manifest;
    },
    readManifestBytes: () => readCurrent()[0],
    readManifestText: () => decodeManifest(readCurrent()[0]),
    parseManifestBytes: (bytes, hash) => parseManifestBytes(bytes, layout.manifestPath, parsed, hash).manifest,
    setCommittedManifest(hash, manifest) {
      parsed = keepManifest(hash, manifest);
    },
    close: () => state.close(),
    [Symbol.dispose]: () => state.close(),
  };
  const readPublishedTicks = openPublishedTicks(archive);
  return archive;
}

/**
 * Checks that the archive is that of the caller, and records what the caller adds. Returns the sources that were added.
 * @param published the owner of the published archive; undefined if nothing is published
 */
function claimIdentity(
  state: State,
  { root, sources = [], keepsIdentity = false }: OpenArchiveOptions,
  caller: ArchiveOwner | null,
  published: ArchiveOwner | undefined,
): readonly string[] {
  // Nothing was collected yet: the first address may have been wrong.
  if (caller !== null && published === undefined && !keepsIdentity) changeIdentity(state, caller);
  if (published !== undefined || !keepsIdentity) requireSameOwner(root, state.identity, caller);
  if (sources.length === 0) return [];
  if (!keepsIdentity) forgetUnusedSources(state, sources);
  requireAllSources(root, keepsIdentity ? (published ?? noOwner) : state.identity, sources);
  return keepsIdentity ? [] : recordSources(state, sources);
}

/** Reads manifest.json; undefined if there is none. */
function readPublishedManifest(layout: ArchiveLayout, disk: Disk, isRepairing: boolean): ParsedManifest | undefined {
  if (disk.size(layout.manifestPath) === null) return undefined;
  try {
    return parseManifestBytes(readManifestBytes(layout, disk), layout.manifestPath);
  } catch (error) {
    const isDamaged = !(error instanceof UsageError);
    if (isRepairing && isDamaged && disk.size(toStateFilePath(layout.privateFolder)) !== null) return undefined;
    throw error;
  }
}

const noOwner: ArchiveOwner = { upstream: '', sources: [] };

/**
 * Throws UsageError if the caller's service is not that of the archive, or if one of them has sources and the other is one
 * service: the symbols of a service have no source.
 */
export function requireSameOwner(root: string, owner: ArchiveOwner, caller: ArchiveOwner | null): void {
  if (caller === null) return;
  if (owner.sources.length === 0 && caller.sources.length === 0) {
    if (owner.upstream === caller.upstream) return;
    throw new UsageError(
      `The archive at ${root} belongs to the upstream ${owner.upstream}, not to ${caller.upstream}. Use another output folder, or set source.name if both are the same service.`,
    );
  }
  if (owner.sources.length === 0)
    throw new UsageError(
      `The archive at ${root} belongs to the ${formatOwner(owner)} alone, and its symbols have no source. Use another output folder for the ${formatOwner(caller)}.`,
    );
  if (caller.sources.length === 0)
    throw new UsageError(
      `The archive at ${root} has the ${formatOwner(owner)}, and the settings have the ${formatOwner(caller)}. Use another output folder, or set sources in the config.`,
    );
}

/**
 * Throws UsageError if the settings lack one of the archive's sources: whether a day is complete depends on all of them. A
 * source that the archive lacks is added to it.
 */
function requireAllSources(root: string, owner: ArchiveOwner, sources: readonly SourceIdentity[]): void {
  if (owner.sources.every(({ name }) => sources.some((one) => one.name === name))) return;
  throw new UsageError(
    `The archive at ${root} has the ${formatOwner(owner)}, and the settings have only the ${formatOwner({ upstream: '', sources })}. Use another output folder, or set every source of the archive and select with --source.`,
  );
}

function readManifestBytes(layout: ArchiveLayout, disk: Disk): Uint8Array {
  if (!disk.isFile(layout.manifestPath)) {
    throw new DamageError(
      `${layout.manifestPath} is missing, although the archive was published. Restore it with: oddslake verify --repair`,
    );
  }
  return disk.read(layout.manifestPath);
}

/** Memory for the part files read last, in bytes. The symbols of one poll are in the parts of one or two days. */
const cachedBytesMax = 64 * 1024 * 1024;

interface CachedFile {
  readonly bytes: Uint8Array;
  readonly index: SymbolRowIndex;
}

/**
 * Opens a reader of the published ticks of one symbol and UTC day, for code that compares single observations with them.
 * The ticks are ascending. The reader throws DamageError if the file is missing, differs from the manifest or cannot be
 * decoded.
 */
export function openPublishedTicks(archive: Archive): (symbol: string, day: number) => TickColumns {
  const cache = new LRUCache<string, CachedFile>({
    maxSize: cachedBytesMax,
    sizeCalculation: ({ bytes }) => bytes.length + 1,
  });
  return (symbol, day) => {
    const manifest = archive.readManifest();
    const file = findSymbolFile(manifest, 'ticks', symbol, day);
    if (file === undefined) return emptyTicks;
    const { path } = file;
    let cached = cache.get(file.sha256);
    if (cached === undefined) {
      const bytes = readPublishedFile(archive, file);
      cached = { bytes, index: decodePublished(path, () => indexTickFile(bytes)) };
      cache.set(file.sha256, cached);
    }
    const { bytes, index } = cached;
    return decodePublished(path, () => readSymbolTicks(bytes, index, symbol));
  };
}
