import { systemDisk } from '../../src/archive/disk/file-system.ts';
import type { Log } from '../../src/base/ports.ts';
import { startProgress } from '../../src/cli/progress.ts';
import type { Context } from '../../src/context/context.ts';

export const silent: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** The context of a job in this process, which prints nothing, waits for nothing and has one thread unless `given` differs. */
export function createContext(given: Pick<Context, 'settings' | 'clock' | 'random'> & Partial<Context>): Context {
  const { clock, log = silent } = given;
  return {
    log,
    signal: new AbortController().signal,
    version: 'test',
    waitMs: 0,
    strict: false,
    threads: 1,
    canCreateArchive: false,
    disk: systemDisk,
    startDisplay: (label, total, unit) =>
      startProgress({ label, total, unit, clock, log, stream: process.stderr, isShown: false }),
    ...given,
  };
}
