import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  unlinkSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { findOtherOwner, getUserName } from '../archive/disk/owner.ts';
import { datasetNames } from '../archive/format/datasets.ts';
import { computeDailyGrowth } from '../archive/format/growth.ts';
import { listManifestFiles, type Manifest } from '../archive/format/manifest.ts';
import { diskFullWarningDays, freeBytesMin } from '../archive/read/judge.ts';
import { exitCodes } from '../base/errors.ts';
import { formatBytes, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { quoteShellWord } from '../base/shell-quote.ts';
import { formatDay } from '../base/time.ts';
import { dayMs } from '../base/window.ts';
import { type Finding, formatSome, ok, problem, warning } from './finding.ts';

export interface DiskFacts {
  /** Root folder of the archive. */
  readonly root: string;
  /** The root folder, or its nearest existing parent. */
  readonly folder: string;
  /** Result of statfs; null if it failed. `type` is a magic number, `files` is 0 if inodes are not limited. */
  readonly fileSystem: Readonly<Record<'type' | 'bytes' | 'freeBytes' | 'files' | 'freeFiles', number>> | null;
  /** Growth per day; null if unknown. */
  readonly bytesPerDay: number | null;
  /** Paths that runs write to but this user cannot. */
  readonly unwritablePaths: readonly string[];
  /** The owner of the archive, if that is another user. */
  readonly otherOwner: string | null;
  /** Paths that runs write to and that do not belong to the owner of the root folder, and that owner. */
  readonly foreignPaths: readonly string[];
  readonly owner: string;
  /** Files with a secret that other users may read, and how to fix that. */
  readonly exposedSecrets: readonly { readonly path: string; readonly mode: number; readonly action: string }[];
}

const freeFilesMin = 1_000;
const freeFilesWarnMin = 50_000;

export const judgeDisk = (facts: DiskFacts): Finding[] => [
  ...(facts.fileSystem === null
    ? []
    : [judgeSpace(facts, facts.fileSystem), judgeInodes(facts.fileSystem), judgeFileSystem(facts.fileSystem.type)]),
  judgePermissions(facts),
  ...facts.exposedSecrets.map(({ path, mode, action }) =>
    warning('secrets', `${path} is readable by other users (mode ${(mode & 0o777).toString(8)})`, action),
  ),
];

type FileSystemFacts = NonNullable<DiskFacts['fileSystem']>;

function judgeSpace({ bytesPerDay, folder }: DiskFacts, { bytes, freeBytes }: FileSystemFacts): Finding {
  const days = bytesPerDay ? freeBytes / bytesPerDay : Number.POSITIVE_INFINITY;
  const duration = days > 3650 ? 'more than 10 years' : formatDuration(days * dayMs);
  // Of a disk that will soon be full, the judge of the archive says so.
  const growth =
    bytesPerDay && days > diskFullWarningDays ? `, enough for ${duration} at ${formatBytes(bytesPerDay)} a day` : '';
  const found = `${formatBytes(freeBytes)} free of ${formatBytes(bytes)}${growth}`;
  const action = `Free disk space on the file system of ${folder}, or move the archive to a larger one.`;
  return freeBytes < freeBytesMin ? problem('space', exitCodes.unexpected, found, action) : ok('space', found);
}

function judgeInodes({ files, freeFiles }: FileSystemFacts): Finding {
  if (files === 0) return ok('files', 'no limit on inodes');
  const found = `${formatNumber(freeFiles)} of ${formatNumber(files)} inodes free`;
  const action = 'Remove files there, or move the archive. No file can be created when all inodes are in use.';
  if (freeFiles < freeFilesMin) return problem('files', exitCodes.unexpected, found, action);
  return freeFiles < freeFilesWarnMin ? warning('files', found, action) : ok('files', found);
}

/** File systems by magic number, from statfs(2) and linux/magic.h. */
const fileSystems: ReadonlyMap<number, readonly [name: string, kind: 'local' | 'network' | 'memory' | 'layer']> =
  new Map([
    [0xef53, ['ext4', 'local']],
    [0x58465342, ['XFS', 'local']],
    [0x9123683e, ['Btrfs', 'local']],
    [0x2fc12fc1, ['ZFS', 'local']],
    [0xf2f52010, ['F2FS', 'local']],
    [0xca451a4e, ['bcachefs', 'local']],
    [0x3153464a, ['JFS', 'local']],
    [0x52654973, ['ReiserFS', 'local']],
    [0x01021994, ['tmpfs', 'memory']],
    [0x858458f6, ['ramfs', 'memory']],
    [0x794c7630, ['overlay', 'layer']],
    [0x61756673, ['aufs', 'layer']],
    [0x6969, ['NFS', 'network']],
    [0x517b, ['SMB', 'network']],
    [0xff534d42, ['CIFS', 'network']],
    [0xfe534d42, ['SMB', 'network']],
    [0x00c36400, ['Ceph', 'network']],
    [0x5346414f, ['AFS', 'network']],
    [0x6b414653, ['AFS', 'network']],
    [0x73757245, ['Coda', 'network']],
    [0x01161970, ['GFS2', 'network']],
    [0x7461636f, ['OCFS2', 'network']],
    [0x0bd00bd0, ['Lustre', 'network']],
    [0x47504653, ['GPFS', 'network']],
    // macOS numbers its file systems.
    [26, ['APFS', 'local']],
    [17, ['HFS+', 'local']],
  ]);

const fileSystemFaults = {
  network: [
    'which is a network file system',
    'Keep the archive on a local disk: it relies on the file locks of the operating system. To copy it elsewhere: oddslake snapshot',
  ],
  memory: ['which is in memory', 'A restart of the machine deletes the archive. Keep it on a disk.'],
  layer: ['the writable layer of a container', 'The archive is deleted with the container. Mount a volume for it.'],
  unknown: ['which may not support file locks', 'Keep the archive on a local file system such as ext4, XFS or APFS.'],
} as const;

function judgeFileSystem(signedType: number): Finding {
  // Some systems return a signed number.
  const type = signedType >>> 0;
  const [name, kind] = fileSystems.get(type) ?? ([`type 0x${type.toString(16)}`, 'unknown'] as const);
  if (kind === 'local') return ok('file system', `${name}, local`);
  const [fault, action] = fileSystemFaults[kind];
  const found = `${name}, ${fault}`;
  return kind === 'network'
    ? problem('file system', exitCodes.usage, found, action)
    : warning('file system', found, action);
}

function judgePermissions({ unwritablePaths, otherOwner, foreignPaths, owner, root, folder }: DiskFacts): Finding {
  if (otherOwner !== null)
    return problem(
      'permissions',
      exitCodes.usage,
      `${root} belongs to ${otherOwner}, and commands that write refuse this user`,
      `Run as the owner: sudo -u ${quoteShellWord(otherOwner)}`,
    );
  if (foreignPaths.length > 0)
    return problem(
      'permissions',
      exitCodes.unexpected,
      `${formatSome(foreignPaths)} ${foreignPaths.length === 1 ? 'does' : 'do'} not belong to ${owner}, the owner of the archive`,
      `sudo chown -R ${quoteShellWord(owner)} ${quoteShellWord(root)}`,
    );
  if (unwritablePaths.length === 0)
    return ok('permissions', folder === root ? 'this user can write to the archive' : `this user can create ${root}`);
  return problem(
    'permissions',
    exitCodes.unexpected,
    `this user cannot write to ${formatSome(unwritablePaths)}`,
    'Run as the owner of the archive, or change its owner to this user with chown -R.',
  );
}

/** Returns a command that makes a secret file readable by this user but not by others; null if not needed. */
export function suggestPermissionFix(
  path: string,
  { mode, uid, gid }: { readonly mode: number; readonly uid: number; readonly gid: number },
  user: { readonly uid: number; readonly gid: number; readonly groups: readonly number[] },
): string | null {
  const isOwn = uid === user.uid;
  if (isOwn && gid === user.gid) return (mode & 0o044) === 0 ? null : `chmod 600 ${path}`;
  // If the owner or the group is not this user's, members of the group are meant to read it.
  if ((mode & 0o004) === 0) return null;
  return isOwn || user.groups.includes(gid) ? `chmod o= ${path}` : `chown ${user.uid} ${path} && chmod 600 ${path}`;
}

/**
 * Gathers the facts about the disk of the archive at `root`.
 * @param secrets paths of secret files; they may be missing
 */
export function probeDisk(
  root: string,
  manifest: Manifest | null,
  secrets: readonly string[],
  nowMs: number,
): DiskFacts {
  const folder = findExistingFolder(root);
  const written = listWrittenPaths(root, folder, nowMs).filter((path) => existsSync(path));
  return {
    root,
    folder,
    fileSystem: readFileSystem(folder),
    bytesPerDay:
      manifest === null ? null : (computeDailyGrowth(listManifestFiles(manifest), nowMs)?.bytesPerDay ?? null),
    unwritablePaths: written.filter((path) => !isWritable(path)),
    otherOwner: findOtherOwner(root),
    ...findForeignPaths(root, folder, written),
    exposedSecrets: secrets.flatMap(checkSecretFile),
  };
}

/** The folder itself, or its nearest existing parent. */
const findExistingFolder = (path: string): string =>
  existsSync(path) || dirname(path) === path ? path : findExistingFolder(dirname(path));

function readFileSystem(folder: string): FileSystemFacts | null {
  try {
    const { type, bsize, blocks, bavail, files, ffree } = statfsSync(folder);
    return { type, bytes: blocks * bsize, freeBytes: bavail * bsize, files, freeFiles: ffree };
  } catch {
    return null;
  }
}

/** Paths that the next run writes: folders, state files, and the folders of the days that it replaces files in. */
function listWrittenPaths(root: string, folder: string, nowMs: number): string[] {
  if (folder !== root) return [folder];
  const state = join(root, '.oddslake');
  const rateFiles = existsSync(state) ? readdirSync(state).filter((name) => /^rate(-.+)?\.sqlite$/.test(name)) : [];
  const stateFiles = [
    'state.sqlite',
    'lock.sqlite',
    ...rateFiles,
    'staging',
    'raw',
    'quarantine',
    'pins',
    'service.sqlite',
  ];
  const days = [nowMs - dayMs, nowMs].map((at) => `date=${formatDay(at)}`);
  const folders = datasetNames.flatMap((name) => [name, ...days.map((day) => join(name, day))]);
  return ['', '.oddslake', ...folders, ...stateFiles.map((name) => join('.oddslake', name))].map((name) =>
    join(root, name),
  );
}

/** Tries in a folder what a run does there, and undoes it: a file is created, synced, renamed and removed. */
function isWritable(path: string): boolean {
  const [draft, renamed] = [join(path, `.doctor-${process.pid}.tmp`), join(path, `.doctor-${process.pid}.done`)];
  try {
    // A file of the state is only looked at: to close it would drop the locks that this process has on it.
    if (!statSync(path).isDirectory()) accessSync(path, constants.R_OK | constants.W_OK);
    else {
      const file = openSync(draft, 'wx');
      fsyncSync(file);
      closeSync(file);
      renameSync(draft, renamed);
      unlinkSync(renamed);
    }
    return true;
  } catch {
    rmSync(draft, { force: true });
    return false;
  }
}

/** The owner of the state, or of the folder, and the paths below the root that belong to others: each of them fails a later run. */
function findForeignPaths(root: string, folder: string, written: readonly string[]) {
  const state = join(root, '.oddslake');
  const { uid } = statSync(existsSync(state) ? state : folder);
  const listDays = (name: string): string[] =>
    existsSync(join(root, name)) ? readdirSync(join(root, name)).map((day) => join(root, name, day)) : [];
  const paths = folder === root ? [...written.filter((path) => path !== root), ...datasetNames.flatMap(listDays)] : [];
  const isForeign = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.uid !== uid;
  return { owner: getUserName(uid), foreignPaths: [...new Set(paths)].filter(isForeign) };
}

function checkSecretFile(path: string): DiskFacts['exposedSecrets'] {
  const stats = statSync(path, { throwIfNoEntry: false });
  // Ignore pipes and devices, such as a shell's <(…).
  if (stats?.isFile() !== true) return [];
  const { getuid, getgid, getgroups } = process;
  const user = { uid: getuid?.() ?? stats.uid, gid: getgid?.() ?? stats.gid, groups: getgroups?.() ?? [] };
  const action = suggestPermissionFix(path, stats, user);
  return action === null ? [] : [{ path, mode: stats.mode, action }];
}
