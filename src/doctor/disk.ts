import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { listManifestFiles, type Manifest } from '../archive/format/manifest.ts';
import { exitCodes } from '../base/errors.ts';
import { formatBytes, formatCount, formatNumber } from '../base/format-quantity.ts';
import { formatDay } from '../base/time.ts';
import { dayMs } from '../base/window.ts';
import { createFindings, type Finding } from './finding.ts';

export interface DiskFacts {
  /** Root folder of the archive. */
  readonly root: string;
  /** The root folder, or its nearest existing parent. */
  readonly folder: string;
  /** Result of statfs; null if it failed. */
  readonly fileSystem: FileSystemFacts | null;
  /** Growth per day; null if unknown. */
  readonly bytesPerDay: number | null;
  /** Paths that runs write and this user may not. */
  readonly unwritablePaths: readonly string[];
  /** Files with a secret that other users may read, and how to fix that. */
  readonly exposedSecrets: readonly { readonly path: string; readonly mode: number; readonly advice: string }[];
}

export interface FileSystemFacts {
  /** Magic number of the file system type. */
  readonly type: number;
  readonly bytes: number;
  /** Available to this user. */
  readonly freeBytes: number;
  /** Total inodes; 0 if the file system does not limit them. */
  readonly files: number;
  readonly freeFiles: number;
}

/** A publish needs free space, because it writes new files before it removes the old ones. */
const freeBytesMin = 100e6;
const daysLeftMin = 30;
const freeFilesMin = 1_000;
const freeFilesWarnMin = 50_000;

export function judgeDisk(facts: DiskFacts): Finding[] {
  const { fileSystem } = facts;
  const fileSystemFindings =
    fileSystem === null ? [] : [judgeSpace(facts, fileSystem), judgeInodes(fileSystem), judgeKind(fileSystem)];
  return [...fileSystemFindings, judgePermissions(facts), ...judgeSecrets(facts)];
}

function judgeSpace({ bytesPerDay, folder }: DiskFacts, { bytes, freeBytes }: FileSystemFacts): Finding {
  const { ok, warning, problem } = createFindings('disk', 'space');
  const space = `${formatBytes(freeBytes)} free of ${formatBytes(bytes)}`;
  const advice = `Free disk space on the file system of ${folder}, or move the archive to a larger one.`;
  const days = bytesPerDay === null || bytesPerDay === 0 ? null : Math.floor(freeBytes / bytesPerDay);
  const growth =
    days === null ? space : `${space}, enough for ${formatDays(days)} at ${formatBytes(bytesPerDay!)} a day`;
  if (freeBytes < freeBytesMin || days === 0) return problem(exitCodes.unexpected, growth, advice);
  return days !== null && days < daysLeftMin ? warning(growth, advice) : ok(growth);
}

const formatDays = (days: number): string =>
  days < 730 ? formatCount(days, 'day') : days < 36_500 ? `${Math.floor(days / 365)} years` : 'more than 100 years';

function judgeInodes({ files, freeFiles }: FileSystemFacts): Finding {
  const { ok, warning, problem } = createFindings('disk', 'files');
  if (files === 0) return ok('no limit on inodes');
  const found = `${formatNumber(freeFiles)} of ${formatNumber(files)} inodes free`;
  const advice = 'Remove files there, or move the archive. No file can be created when all inodes are in use.';
  if (freeFiles < freeFilesMin) return problem(exitCodes.unexpected, found, advice);
  return freeFiles < freeFilesWarnMin ? warning(found, advice) : ok(found);
}

type FileSystemKind = 'local' | 'network' | 'memory' | 'layer' | 'other';

/** File systems by magic number, from statfs(2) and linux/magic.h. */
const fileSystemKinds: ReadonlyMap<number, readonly [name: string, kind: FileSystemKind]> = new Map([
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
  [0x0bd00bd0, ['Lustre', 'network']],
  [0x47504653, ['GPFS', 'network']],
  [0x01161970, ['GFS2', 'network']],
  [0x7461636f, ['OCFS2', 'network']],
  [0x01021997, ['9P', 'other']],
  [0x65735546, ['FUSE', 'other']],
  [0x786f4256, ['VirtualBox folder', 'other']],
  [0x4d44, ['FAT', 'other']],
  [0x2011bab0, ['exFAT', 'other']],
  // macOS numbers its file systems: 26 is APFS, 17 is HFS+.
  [26, ['APFS', 'local']],
  [17, ['HFS+', 'local']],
]);

function judgeKind({ type }: FileSystemFacts): Finding {
  const { ok, warning, problem } = createFindings('disk', 'file system');
  // Some systems return a signed number.
  const known = fileSystemKinds.get(type >>> 0);
  if (known === undefined)
    return warning(
      `of an unknown type (0x${(type >>> 0).toString(16)})`,
      'Check that it is local and supports file locks.',
    );
  const [name, kind] = known;
  switch (kind) {
    case 'network':
      return problem(
        exitCodes.usage,
        `${name}, which is a network file system`,
        'Keep the archive on a local disk: it relies on the file locks of the operating system. To copy it elsewhere: oddslake snapshot',
      );
    case 'memory':
      return warning(`${name}, which is in memory`, 'A restart of the machine deletes the archive. Keep it on a disk.');
    case 'layer':
      return warning(
        `${name}, the writable layer of a container`,
        'The archive is deleted with the container. Mount a volume for it.',
      );
    case 'other':
      return warning(
        `${name}, which may not support file locks`,
        'Keep the archive on a local file system such as ext4 or XFS.',
      );
    default:
      return ok(`${name}, local`);
  }
}

function judgePermissions({ unwritablePaths, root, folder }: DiskFacts): Finding {
  const { ok, problem } = createFindings('disk', 'permissions');
  if (unwritablePaths.length === 0)
    return ok(folder === root ? 'this user may write the archive' : `this user may create ${root}`);
  return problem(
    exitCodes.unexpected,
    `this user may not write ${unwritablePaths.slice(0, 3).join(', ')}${unwritablePaths.length > 3 ? ` and ${unwritablePaths.length - 3} more` : ''}`,
    'Run as the owner of the archive, or change its owner to this user with chown -R.',
  );
}

const judgeSecrets = ({ exposedSecrets }: DiskFacts): Finding[] =>
  exposedSecrets.map(({ path, mode, advice }) =>
    createFindings('disk', 'secrets').warning(
      `${path} is readable by other users (mode ${(mode & 0o777).toString(8)})`,
      advice,
    ),
  );

/** A user, its primary group and its supplementary groups. */
interface ProcessUser {
  readonly uid: number;
  readonly gid: number;
  readonly groups: readonly number[];
}

/** Returns a command that makes a secret file unreadable for others but readable for this user; null if not needed. */
export function suggestPermissionFix(
  path: string,
  { mode, uid, gid }: { readonly mode: number; readonly uid: number; readonly gid: number },
  user: ProcessUser,
): string | null {
  const isOwn = uid === user.uid;
  if (isOwn && gid === user.gid) return (mode & 0o044) === 0 ? null : `chmod 600 ${path}`;
  // With another owner or group, members of the group are meant to read it.
  if ((mode & 0o004) === 0) return null;
  return isOwn || user.groups.includes(gid) ? `chmod o= ${path}` : `chown ${user.uid} ${path} && chmod 600 ${path}`;
}

/** Maximum number of days in the growth rate. */
const growthDaysMax = 7;

/** Growth per day over the last seven days before today that have files; null if fewer than two have. */
export function computeBytesPerDay(
  files: readonly { readonly date: string | null; readonly bytes: number }[],
  nowMs: number,
): number | null {
  const byDay = new Map<string, number>();
  for (const { date, bytes } of files) if (date !== null) byDay.set(date, (byDay.get(date) ?? 0) + bytes);
  const today = formatDay(nowMs);
  const first = formatDay(nowMs - growthDaysMax * dayMs);
  const days = [...byDay].filter(([date]) => first <= date && date < today);
  return days.length < 2 ? null : days.reduce((sum, [, bytes]) => sum + bytes, 0) / days.length;
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
  return {
    root,
    folder,
    fileSystem: readFileSystem(folder),
    bytesPerDay: manifest === null ? null : computeBytesPerDay(listManifestFiles(manifest), nowMs),
    unwritablePaths: listWrittenPaths(root, folder).filter((path) => existsSync(path) && !isWritable(path)),
    exposedSecrets: secrets.flatMap((path) => checkSecretFile(path)),
  };
}

/** The folder itself, or its nearest existing parent. */
function findExistingFolder(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : findExistingFolder(dirname(path));
}

function readFileSystem(folder: string): FileSystemFacts | null {
  try {
    const { type, bsize, blocks, bavail, files, ffree } = statfsSync(folder);
    return { type, bytes: blocks * bsize, freeBytes: bavail * bsize, files, freeFiles: ffree };
  } catch {
    return null;
  }
}

/** Paths that a run writes: folders and state files. Published files are replaced by rename, so they are not in the list. */
function listWrittenPaths(root: string, folder: string): string[] {
  if (folder !== root) return [folder];
  const privateFolder = join(root, '.oddslake');
  const datasets = ['ticks', 'markets', 'symbols', 'coverage', 'conflicts', 'orderbooks', 'candles_1h', 'candles_1d'];
  const stateFiles = ['state.sqlite', 'lock.sqlite', 'rate.sqlite', 'staging', 'raw', 'quarantine'];
  return [
    root,
    privateFolder,
    ...datasets.map((name) => join(root, name)),
    ...stateFiles.map((name) => join(privateFolder, name)),
  ];
}

function isWritable(path: string): boolean {
  try {
    const isFolder = statSync(path).isDirectory();
    accessSync(path, isFolder ? constants.W_OK | constants.X_OK : constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function checkSecretFile(path: string): DiskFacts['exposedSecrets'] {
  const stats = statSync(path, { throwIfNoEntry: false });
  // Ignore pipes and devices, such as a shell's <(…).
  if (stats?.isFile() !== true) return [];
  const { getuid, getgid, getgroups } = process;
  const user = { uid: getuid?.() ?? stats.uid, gid: getgid?.() ?? stats.gid, groups: getgroups?.() ?? [] };
  const advice = suggestPermissionFix(path, stats, user);
  return advice === null ? [] : [{ path, mode: stats.mode, advice }];
}
