import { readFileSync, type Stats, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Magic numbers of file systems that report one owner for all files, regardless of who wrote them: FAT, exFAT, NTFS, SMB, and
 * those of virtual machines and user-space programs (9P, VirtualBox, FUSE).
 */
const mappedFileSystems: readonly number[] = [
  ...[0x4d44, 0x2011bab0, 0x5346544e, 0x7366746e, 0x517b, 0xff534d42, 0xfe534d42],
  ...[0x01021997, 0x65735546, 0x786f4256],
];

/** What decides whether a process may write to an archive. */
interface OwnerFacts {
  /** The user and the groups of this process. */
  readonly uid: number;
  readonly groups: readonly number[];
  /** Of the root folder. */
  readonly folder: { readonly uid: number; readonly gid: number; readonly mode: number };
  /** Magic number of its file system. */
  readonly fileSystem: number;
  /** The owner of the private folder; null if there is none. */
  readonly stateUid: number | null;
}

/** The user that stands for all those that a user namespace or an NFS server does not map. */
const unmappedUids: readonly number[] = [65_534, 4_294_967_294];
/** Set by Kubernetes with fsGroup, which leaves root the owner of a volume and gives it to a group. */
const groupVolumeMode = 0o2020;

/** Whether the files of this process would belong to another user than the rest of the archive. */
export function isForeign({ uid, groups, folder, fileSystem, stateUid }: OwnerFacts): boolean {
  // Some systems return a signed number.
  const isMapped = mappedFileSystems.includes(fileSystem >>> 0) || unmappedUids.includes(folder.uid);
  if (folder.uid === uid || isMapped) return false;
  const isGroupVolume = folder.uid === 0 && (folder.mode & groupVolumeMode) === groupVolumeMode;
  return !(isGroupVolume && groups.includes(folder.gid) && (stateUid === null || stateUid === uid));
}

/** The owner of an archive's root folder as sudo takes it, if that is another user than this one; otherwise null. */
export function findOtherOwner(root: string): string | null {
  const folder = statOrNull(root);
  const { geteuid, getgid, getgroups } = process;
  if (folder === null || geteuid === undefined) return null;
  const stateUid = statOrNull(join(root, '.oddslake'))?.uid ?? null;
  const groups = [getgid!(), ...getgroups!()];
  const facts = { uid: geteuid(), groups, folder, fileSystem: statfsSync(root).type, stateUid };
  return isForeign(facts) ? getUserName(folder.uid) : null;
}

/** Null if there is nothing, or this user may not look at it. */
function statOrNull(path: string): Stats | null {
  try {
    return statSync(path);
  } catch {
    return null;
  }
}

/** The name of a user, or `#UID` if the system does not list it. */
export function getUserName(uid: number): string {
  try {
    const users = readFileSync('/etc/passwd', 'utf8').split('\n');
    return users.find((line) => line.split(':')[2] === String(uid))?.split(':')[0] ?? `#${uid}`;
  } catch {
    return `#${uid}`;
  }
}
