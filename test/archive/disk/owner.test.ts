import { expect, test } from 'vitest';
import { findOtherOwner, getUserName, isForeign } from '../../../src/archive/disk/owner.ts';
import { scratchFolder } from '../scratch.ts';

const ext4 = 0xef53;
const folder = { uid: 1000, gid: 1000, mode: 0o40755 };
/** root in an archive of user 1000. */
const facts = { uid: 0, groups: [0], folder, fileSystem: ext4, stateUid: 1000 };
/** A volume of Kubernetes with fsGroup 10001. */
const volume = { uid: 10_001, groups: [10_001], folder: { uid: 0, gid: 10_001, mode: 0o42775 }, fileSystem: ext4 };

test.each([
  ['root in the archive of a user', facts, true],
  ['a user in the archive of another', { ...facts, uid: 1001, groups: [1000] }, true],
  ['a user in the archive of root', { ...facts, uid: 1000, folder: { ...folder, uid: 0 }, stateUid: 0 }, true],
  ['the owner', { ...facts, uid: 1000 }, false],
  ['root in its own archive, in a user namespace too', { ...facts, folder: { ...folder, uid: 0 } }, false],
  ['an owner that the user namespace does not map', { ...facts, folder: { ...folder, uid: 65_534 } }, false],
  ['files of SMB', { ...facts, fileSystem: 0xfe534d42 }, false],
  ['files of SMB, on a system with signed numbers', { ...facts, fileSystem: 0xfe534d42 | 0 }, false],
  ['files of FUSE', { ...facts, fileSystem: 0x65735546 }, false],
  ['an unknown file system', { ...facts, fileSystem: 1 }, true],
  ['an empty volume of Kubernetes', { ...volume, stateUid: null }, false],
  ['a volume of Kubernetes with an archive of this user', { ...volume, stateUid: 10_001 }, false],
  ['a volume of Kubernetes with an archive of another user', { ...volume, stateUid: 0 }, true],
  ['a volume of Kubernetes for another group', { ...volume, groups: [5], stateUid: null }, true],
  [
    'a folder of root that the group may not write to',
    { ...volume, folder: { ...volume.folder, mode: 0o40755 }, stateUid: null },
    true,
  ],
])('%s', (_, given, expected) => {
  expect(isForeign(given)).toBe(expected);
});

test('names users as the system does, and others by their number', () => {
  expect(getUserName(0)).toBe('root');
  expect(getUserName(3_999_999_999)).toBe('#3999999999');
  expect(findOtherOwner(scratchFolder())).toBeNull();
  expect(findOtherOwner('/nonexistent/lake')).toBeNull();
});
