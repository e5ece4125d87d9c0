import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { listManifestFiles, type Manifest } from '../archive/format/manifest.ts';
import { exitCodes } from '../base/errors.ts';
import { formatBytes, formatCount, formatNumber } from '../base/format-quantity.ts';
import { formatDay } from '../base/time.ts';
import { dayMs } from '../base/window.ts';
import { createFindings, type Finding } from './finding.ts';

export interface DiskFacts {
  /** The archive's root. */
  readonly root: string;
  /** What was looked at: the root, or where there is none the nearest folder above it. */
  readonly folder: string;
  /** As statfs tells it; null where it could not be asked. */
  readonly fileSystem: FileSystemFacts | null;
  /** What a day adds; null where that is not known yet. */
  readonly bytesPerDay: number | null;
  /** What this user may not write, and would have to. */
  readonly unwritablePaths: readonly string[];
  /** Files with a secret in them that others may read, and what to do about it. */
  readonly exposedSecrets: readonly { readonly path: string; readonly mode: number; readonly advice: string }[];
}

export interface FileSystemFacts {
  /** The magic number of its kind. */
  readonly type: number;
  readonly bytes: number;
  /** For this user. */
  readonly freeBytes: number;
  /** 0 where it does not count them. */
  readonly files: number;
  readonly freeFiles: number;
}

/** Below this a publish, which writes its files beside those it replaces, is not to be begun. */
const freeBytesMin = 100e6;
const daysLeftMin = 30;
const freeFilesMin = 1_000;
const freeFilesWarnMin = 50_000;

export function judgeDisk(facts: DiskFacts): Finding[] {
  const { fileSystem } = facts;
  const places =
    fileSystem === null ? [] : [judgeSpace(facts, fileSystem), judgeInodes(fileSystem), judgeKind(fileSystem)];
  return [...places, judgePermissions(facts), ...judgeSecrets(facts)];
}

function judgeSpace({ bytesPerDay, folder }: DiskFacts, { bytes, freeBytes }: FileSystemFacts): Finding {
  const { ok, warning, problem } = createFindings('disk', 'space');
  const room = `${formatBytes(freeBytes)} free of ${formatBytes(bytes)}`;
  const free = `Free some space on the file system of ${folder}, or move the archive to a larger one.`;
  const days = bytesPerDay === null || bytesPerDay === 0 ? null : Math.floor(freeBytes / bytesPerDay);
  const growth = days === null ? room : `${room}, at ${formatBytes(bytesPerDay!)} a day enough for ${formatDays(days)}`;
  if (freeBytes < freeBytesMin || days === 0) return problem(exitCodes.unexpected, growth, free);
  return days !== null && days < daysLeftMin ? warning(growth, free) : ok(growth);
}

const formatDays = (days: number): string =>
  days < 730 ? formatCount(days, 'day') : days < 36_500 ? `${Math.floor(days / 365)} years` : 'more than 100 years';

function judgeInodes({ files, freeFiles }: FileSystemFacts): Finding {
  const { ok, warning, problem } = createFindings('disk', 'files');
  if (files === 0) return ok('as many as there is room for');
  const found = `${formatNumber(freeFiles)} more of ${formatNumber(files)}`;
  const advice = 'Remove small files there, or move the archive: no file can be made once the inodes are used up.';
  if (freeFiles < freeFilesMin) return problem(exitCodes.unexpected, found, advice);
  return freeFiles < freeFilesWarnMin ? warning(found, advice) : ok(found);
}

type FileSystemKind = 'local' | 'network' | 'memory' | 'layer' | 'other';

/** By magic number: Linux's statfs(2), and the kernel's linux/magic.h. */
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
  // macOS counts its kinds: 26 is APFS, 17 HFS+.
  [26, ['APFS', 'local']],
  [17, ['HFS+', 'local']],
]);

function judgeKind({ type }: FileSystemFacts): Finding {
  const { ok, warning, problem } = createFindings('disk', 'file system');
  // Some give it as a signed number.
  const known = fileSystemKinds.get(type >>> 0);
  if (known === undefined)
    return warning(
      `of a kind that is not known here (0x${(type >>> 0).toString(16)})`,
      'See that it is local, and keeps the locks of processes.',
    );
  const [name, kind] = known;
  switch (kind) {
    case 'network':
      return problem(
        exitCodes.usage,
        `${name}, which is a network's`,
        "Keep the working copy on a local disk: an archive's locks are the operating system's. oddslake snapshot makes copies for elsewhere.",
      );
    case 'memory':
      return warning(
        `${name}, which is memory`,
        'The archive is gone with the next start of the machine: keep it on a disk.',
      );
    case 'layer':
      return warning(
        `${name}, a container's own layer`,
        'The archive is gone with the container: mount a volume for it.',
      );
    case 'other':
      return warning(
        `${name}, which may not keep the locks of processes`,
        'Keep the working copy on a local disk, ext4 or XFS for example.',
      );
    default:
      return ok(`${name}, local`);
  }
}

function judgePermissions({ unwritablePaths, root, folder }: DiskFacts): Finding {
  const { ok, problem } = createFindings('disk', 'permissions');
  if (unwritablePaths.length === 0)
    return ok(folder === root ? 'this user may write the archive' : `this user may make ${root}`);
  return problem(
    exitCodes.unexpected,
    `this user may not write ${unwritablePaths.slice(0, 3).join(', ')}${unwritablePaths.length > 3 ? ` and ${unwritablePaths.length - 3} more` : ''}`,
    'Run as the user that the archive belongs to, or give it to this one with chown -R.',
  );
}

const judgeSecrets = ({ exposedSecrets }: DiskFacts): Finding[] =>
  exposedSecrets.map(({ path, mode, advice }) =>
    createFindings('disk', 'secrets').warning(
      `${path} can be read by others (mode ${(mode & 0o777).toString(8)})`,
      advice,
    ),
  );

/** A user, and the groups that files of its own have and that it is let in by. */
export interface ProcessUser {
  readonly uid: number;
  readonly gid: number;
  readonly groups: readonly number[];
}

/** What keeps a file with a secret from others, this user still being able to read it; null where it is kept from them. */
export function suggestPermissionFix(
  path: string,
  { mode, uid, gid }: { readonly mode: number; readonly uid: number; readonly gid: number },
  user: ProcessUser,
): string | null {
  const isOwn = uid === user.uid;
  if (isOwn && gid === user.gid) return (mode & 0o044) === 0 ? null : `chmod 600 ${path}`;
  // Another owner's or another group: whoever is to read it is let in by its group.
  if ((mode & 0o004) === 0) return null;
  return isOwn || user.groups.includes(gid) ? `chmod o= ${path}` : `chown ${user.uid} ${path} && chmod 600 ${path}`;
}

/** Days that a rate of growth is taken of, at most. */
const growthDaysMax = 7;

/** What a day adds, by the last seven days before today that have files; null where there are fewer than two. */
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
 * Looks at the place of the archive at `root`.
 * @param secrets files that hold a secret, if they are there
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

/** The folder itself, or where there is none the next one above it. */
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

/** What a run writes: folders, and the files of the state. Files that are published it replaces by renaming. */
function listWrittenPaths(root: string, folder: string): string[] {
  if (folder !== root) return [folder];
  const hidden = join(root, '.oddslake');
  const datasets = ['ticks', 'markets', 'symbols', 'coverage', 'conflicts', 'orderbooks', 'candles_1h', 'candles_1d'];
  const own = ['state.sqlite', 'lock.sqlite', 'rate.sqlite', 'staging', 'raw', 'quarantine'];
  return [root, hidden, ...datasets.map((name) => join(root, name)), ...own.map((name) => join(hidden, name))];
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
  const found = statSync(path, { throwIfNoEntry: false });
  // Pipes and devices, as a shell's <(…), are nobody else's to read.
  if (found?.isFile() !== true) return [];
  const { getuid, getgid, getgroups } = process;
  const user = { uid: getuid?.() ?? found.uid, gid: getgid?.() ?? found.gid, groups: getgroups?.() ?? [] };
  const advice = suggestPermissionFix(path, found, user);
  return advice === null ? [] : [{ path, mode: found.mode, advice }];
}
