import { linkSync, lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, sep } from 'node:path';
import { type FileSystemCalls, systemCalls } from '../../src/archive/disk/file-system.ts';

// The state after a power loss: a file has the content of its last sync, a folder the names of its last sync. Files are
// identified by inode and not by name, as in the system, so that a renamed file keeps its bytes, durable or not.

/**
 * - `vanished`: everything that was not synced is lost
 * - `names`: unsynced names survive, unsynced bytes do not: the usual result on a journaling file system
 * - `some`: any of the unsynced changes survive; both sides of a rename or neither, and any prefix of a file
 */
export type Loss = 'vanished' | 'names' | 'some';

interface FileNode {
  /** Bytes written since it was created or emptied. */
  pieces: Uint8Array[];
  /** At its last sync. */
  synced: Uint8Array;
  isSynced: boolean;
  /** A sync of it failed: the system considers its bytes written, and no later sync writes them. */
  hasFailed: boolean;
}

interface FolderNode {
  readonly names: Map<string, Node>;
  synced: Map<string, Node>;
  /** Changes of its names since its last sync. */
  pending: { readonly change: object; readonly name: string; readonly node: Node | null }[];
}

type Node = FileNode | FolderNode;

/** File calls that accept reports of failed syncs. */
export interface PowerCalls extends FileSystemCalls {
  /** The sync of this open file failed. */
  failSync(file: number): void;
}

/** A folder, a file, or another name of a file that comes before it. */
type CutEntry =
  | { readonly path: string; readonly kind: 'folder' }
  | { readonly path: string; readonly kind: 'file'; readonly bytes: Uint8Array }
  | { readonly path: string; readonly kind: 'link'; readonly to: string };

export interface PowerModel {
  readonly root: string;
  readonly calls: PowerCalls;
  /**
   * Creates the folder `into` with what a power loss now would leave of the root. Excludes databases, which sync
   * themselves; see `copyState`.
   * @param draw random numbers in [0, 1), for `some`
   */
  cut(into: string, loss: Loss, draw?: () => number): void;
  /** What `cut` would create, in sequence: equal lists create equal folders. */
  listCut(loss: Loss, draw?: () => number): readonly CutEntry[];
  /** The files that `cut` would write if everything that was not synced is lost, by path; null for an empty folder. */
  listDurable(): (readonly [path: string, bytes: Uint8Array | null])[];
  /** Whether a power loss now would lose anything. */
  hasUnsynced(): boolean;
}

/** Files of SQLite, which changes them with its own calls. */
const isForeign = (name: string): boolean => /\.sqlite|\.lock/.test(name);

/** Everything below `root` is durable now; from here on these calls track it. Holds all of it in memory. */
export function powerModel(root: string, realCalls: FileSystemCalls = systemCalls): PowerModel {
  const home = realpathSync(root);
  const top = scanFolder(home);
  const open = new Map<number, Node>();

  function find(path: string): Node | undefined {
    const below = relative(home, path);
    if (below === '..' || below.startsWith(`..${sep}`)) return undefined;
    let node: Node | undefined = top;
    for (const name of below.split(sep)) {
      if (name === '') continue;
      node = isFolder(node) ? node.names.get(name) : undefined;
    }
    return node;
  }

  function change(...halves: [path: string, node: Node | null][]): void {
    const one = {};
    for (const [path, node] of halves) {
      const folder = find(dirname(path));
      const name = basename(path);
      // A folder outside of the root: nothing in it survives a power loss.
      if (!isFolder(folder) || (node === null && !folder.names.has(name))) continue;
      if (node === null) folder.names.delete(name);
      else folder.names.set(name, node);
      folder.pending.push({ change: one, name, node });
    }
  }

  /** A file created by other calls is adopted as it is, with nothing durable; a folder is not. */
  function adopted(path: string): Node | null {
    const node = find(path);
    if (node !== undefined) return node;
    return lstatSync(path).isFile() ? { ...newFile(), pieces: [readFileSync(path)] } : null;
  }

  const calls: PowerCalls = {
    create(path) {
      const file = realCalls.create(path);
      const entry = find(path);
      const node = entry !== undefined && !isFolder(entry) ? entry : newFile();
      Object.assign(node, { pieces: [], isSynced: false, hasFailed: false });
      if (node !== entry) change([path, node]);
      open.set(file, node);
      return file;
    },
    write(file, bytes) {
      const written = realCalls.write(file, bytes);
      const node = open.get(file);
      if (node !== undefined && !isFolder(node)) {
        node.pieces.push(bytes.slice(0, written));
        node.isSynced = false;
      }
      return written;
    },
    openFolder(path) {
      const file = realCalls.openFolder(path);
      const node = find(path);
      if (node !== undefined) open.set(file, node);
      return file;
    },
    sync(file) {
      realCalls.sync(file);
      const node = open.get(file);
      if (node === undefined) return;
      if (isFolder(node)) Object.assign(node, { synced: new Map(node.names), pending: [] });
      else if (!node.hasFailed) Object.assign(node, { synced: bytesOf(node), isSynced: true });
    },
    failSync(file) {
      const node = open.get(file);
      if (node !== undefined && !isFolder(node)) node.hasFailed = true;
    },
    close(file) {
      open.delete(file);
      realCalls.close(file);
    },
    rename(from, to) {
      const node = adopted(from);
      realCalls.rename(from, to);
      // Two names of one file: the system does nothing.
      if (node !== null && find(to) !== node) change([to, node], [from, null]);
    },
    link(from, to) {
      const node = adopted(from);
      realCalls.link(from, to);
      change([to, node]);
    },
    unlink(path) {
      realCalls.unlink(path);
      change([path, null]);
    },
    makeFolder(path) {
      realCalls.makeFolder(path);
      change([path, { names: new Map(), synced: new Map(), pending: [] }]);
    },
    removeFolder(path) {
      realCalls.removeFolder(path);
      change([path, null]);
    },
  };
  return {
    root,
    calls,
    cut: (into, loss, draw = () => 0) => createEntries(into, listEntries(top, drawSurvivors(loss, draw))),
    listCut: (loss, draw = () => 0) => listEntries(top, drawSurvivors(loss, draw)),
    listDurable: () => listSynced(top),
    hasUnsynced: () => listUnsynced(top),
  };
}

const isFolder = (node: Node | undefined): node is FolderNode => node !== undefined && 'names' in node;

const newFile = (): FileNode => ({ pieces: [], synced: new Uint8Array(), isSynced: false, hasFailed: false });

const bytesOf = ({ pieces }: FileNode): Uint8Array => (pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces));

/** `known`: files by inode, since a file may have several names. */
function scanFolder(path: string, known = new Map<number, FileNode>()): FolderNode {
  const names = new Map<string, Node>();
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const at = join(path, entry.name);
    if (entry.isDirectory()) names.set(entry.name, scanFolder(at, known));
    else if (!isForeign(entry.name)) {
      const { ino } = lstatSync(at);
      const node = known.get(ino) ?? durableFile(readFileSync(at));
      known.set(ino, node);
      names.set(entry.name, node);
    }
  }
  return { names, synced: new Map(names), pending: [] };
}

const durableFile = (bytes: Uint8Array): FileNode => ({
  pieces: [bytes],
  synced: bytes,
  isSynced: true,
  hasFailed: false,
});

/** In the order of `filesBelow`. */
function listSynced({ synced }: FolderNode, below = ''): (readonly [path: string, bytes: Uint8Array | null])[] {
  if (synced.size === 0 && below !== '') return [[`${below}/`, null]];
  return [...synced.keys()].sort().flatMap((name) => {
    const node = synced.get(name)!;
    const path = below === '' ? name : `${below}/${name}`;
    return isFolder(node) ? listSynced(node, path) : [[path, node.synced] as const];
  });
}

function listUnsynced(node: Node): boolean {
  if (!isFolder(node)) return !node.isSynced;
  return node.pending.length > 0 || [...node.names.values()].some(listUnsynced);
}

interface Surviving {
  names(folder: FolderNode): ReadonlyMap<string, Node>;
  bytes(file: FileNode): Uint8Array;
}

function drawSurvivors(loss: Loss, draw: () => number): Surviving {
  if (loss === 'vanished') return { names: ({ synced }) => synced, bytes: ({ synced }) => synced };
  if (loss === 'names') {
    return { names: ({ names }) => names, bytes: (file) => (file.isSynced ? file.synced : new Uint8Array()) };
  }
  const fates = new Map<object, boolean>();
  const survives = (change: object): boolean => {
    const fate = fates.get(change) ?? draw() < 0.5;
    fates.set(change, fate);
    return fate;
  };
  return {
    names({ synced, pending }) {
      const names = new Map(synced);
      for (const { change, name, node } of pending) {
        if (!survives(change)) continue;
        if (node === null) names.delete(name);
        else names.set(name, node);
      }
      return names;
    },
    bytes(file) {
      if (file.isSynced) return file.synced;
      const bytes = bytesOf(file);
      return bytes.subarray(0, Math.floor(draw() * (bytes.length + 1)));
    },
  };
}

function listEntries(top: FolderNode, { names, bytes }: Surviving): CutEntry[] {
  const entries: CutEntry[] = [];
  const listed = new Map<FileNode, string>();
  const list = (path: string, node: Node): void => {
    if (isFolder(node)) {
      entries.push({ path, kind: 'folder' });
      for (const [name, inner] of names(node)) list(join(path, name), inner);
      return;
    }
    const twin = listed.get(node);
    if (twin !== undefined) entries.push({ path, kind: 'link', to: twin });
    else entries.push({ path, kind: 'file', bytes: bytes(node) });
    listed.set(node, path);
  };
  list('', top);
  return entries;
}

function createEntries(into: string, entries: readonly CutEntry[]): void {
  for (const entry of entries) {
    const path = join(into, entry.path);
    if (entry.kind === 'folder') mkdirSync(path);
    else if (entry.kind === 'file') writeFileSync(path, entry.bytes);
    else linkSync(join(into, entry.to), path);
  }
}
