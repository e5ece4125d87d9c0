import { basename } from 'node:path';
import type { FileSystemCalls } from '../../src/archive/disk/syscalls.ts';
import type { Call, Faults } from './fault-points.ts';
import type { PowerCalls } from './power-loss.ts';

const codes = { EIO: -5, ENOSPC: -28 } as const;
const words = { EIO: 'i/o error', ENOSPC: 'no space left on device' } as const;

/** As Node throws it. */
export const systemError = (code: keyof typeof codes, syscall: string): Error =>
  Object.assign(new Error(`${code}: ${words[code]}, ${syscall}`), { code, errno: codes[code], syscall });

/**
 * File calls that a fault strikes. Only what changes something is a point; what is open is closed even by the dead.
 * With the calls of a power model below, a failed sync is told to it: what it was of stays undurable.
 */
export function faultCalls(faults: Faults, over: FileSystemCalls | PowerCalls): FileSystemCalls {
  const names = new Map<number, string>();
  const point = <T>(syscall: string, path: string, work: () => T, rest: Partial<Call<T>> = {}): T =>
    faults.point({
      name: `${syscall} ${basename(path)}`,
      work,
      takesSpace: true,
      failure: (code) => systemError(code, syscall),
      ...rest,
    });
  const opened = (file: number, path: string): number => {
    names.set(file, path);
    return file;
  };
  return {
    create: (path) =>
      opened(
        point('open', path, () => over.create(path)),
        path,
      ),
    write: (file, bytes) =>
      point('write', names.get(file)!, () => over.write(file, bytes), {
        half: bytes.length < 2 ? undefined : () => over.write(file, bytes.subarray(0, bytes.length >> 1)),
      }),
    openFolder: (path) => opened(over.openFolder(path), path),
    sync: (file) =>
      point('fsync', names.get(file)!, () => over.sync(file), {
        failure(code) {
          if ('failSync' in over) over.failSync(file);
          return systemError(code, 'fsync');
        },
      }),
    close: (file) => over.close(file),
    rename: (from, to) => point('rename', to, () => over.rename(from, to)),
    link: (from, to) => point('link', to, () => over.link(from, to)),
    unlink: (path) => point('unlink', path, () => over.unlink(path), { takesSpace: false }),
    makeFolder: (path) => point('mkdir', path, () => over.makeFolder(path)),
    removeFolder: (path) => point('rmdir', path, () => over.removeFolder(path), { takesSpace: false }),
  };
}
