import { basename } from 'node:path';
import type { FileSystemCalls } from '../../src/archive/disk/file-system.ts';
import type { Call, Faults } from './fault-points.ts';
import type { PowerCalls } from './power-loss.ts';

const codes = { EIO: -5, ENOSPC: -28 } as const;
const words = { EIO: 'i/o error', ENOSPC: 'no space left on device' } as const;

/** As Node throws it. */
export const systemError = (code: keyof typeof codes, syscall: string): Error =>
  Object.assign(new Error(`${code}: ${words[code]}, ${syscall}`), { code, errno: codes[code], syscall });

/**
 * File calls with fault injection. Only calls that change something are fault points; closing files works even after a
 * crash. With a power-loss model below, a failed sync is reported to it: the data stays volatile.
 */
export function faultCalls(faults: Faults, calls: FileSystemCalls | PowerCalls): FileSystemCalls {
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
        point('open', path, () => calls.create(path)),
        path,
      ),
    write: (file, bytes) =>
      point('write', names.get(file)!, () => calls.write(file, bytes), {
        half: bytes.length < 2 ? undefined : () => calls.write(file, bytes.subarray(0, bytes.length >> 1)),
      }),
    openFolder: (path) => opened(calls.openFolder(path), path),
    sync: (file) =>
      point('fsync', names.get(file)!, () => calls.sync(file), {
        failure(code) {
          if ('failSync' in calls) calls.failSync(file);
          return systemError(code, 'fsync');
        },
      }),
    close: (file) => calls.close(file),
    rename: (from, to) => point('rename', to, () => calls.rename(from, to)),
    link: (from, to) => point('link', to, () => calls.link(from, to)),
    unlink: (path) => point('unlink', path, () => calls.unlink(path), { takesSpace: false }),
    makeFolder: (path) => point('mkdir', path, () => calls.makeFolder(path)),
    removeFolder: (path) => point('rmdir', path, () => calls.removeFolder(path), { takesSpace: false }),
  };
}
