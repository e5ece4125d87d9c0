import { type Disk, systemDisk } from '../../src/archive/disk/file-system.ts';

export class PowerCut extends Error {}

/** The real disk until it has made `changes` changes. From then on every change fails. */
export function dyingDisk(changes: number): Disk & { readonly made: () => number } {
  let made = 0;
  const dying =
    <A extends unknown[]>(work: (...args: A) => void) =>
    (...args: A): void => {
      if (made >= changes) throw new PowerCut(`after ${made} changes`);
      made++;
      work(...args);
    };
  // A failing write leaves half of its bytes.
  const write = (path: string, given: Uint8Array | Iterable<Uint8Array>): void => {
    const bytes = given instanceof Uint8Array ? given : Buffer.concat([...given]);
    if (made >= changes) systemDisk.write(path, bytes.subarray(0, bytes.length >> 1));
    dying(systemDisk.write)(path, bytes);
  };
  const writeInBackground = async (path: string, bytes: Uint8Array | Iterable<Uint8Array>): Promise<void> =>
    write(path, bytes);
  const { makeFolder, makeFolders, makeVolatileFolder, rename, link, syncFolder, remove } = systemDisk;
  const syncNow = dying(syncFolder);
  return {
    ...systemDisk,
    write,
    writeInBackground,
    syncFolderInBackground: async (path) => syncNow(path),
    makeFolders: dying(makeFolders),
    makeFolder: dying(makeFolder),
    makeVolatileFolder: dying(makeVolatileFolder),
    rename: dying(rename),
    link: dying(link),
    syncFolder: syncNow,
    remove: dying(remove),
    made: () => made,
  };
}
