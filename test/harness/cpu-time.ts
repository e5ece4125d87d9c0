import { readFileSync } from 'node:fs';
import { afterAll, beforeAll } from 'vitest';

// A setup file: measures the CPU time of each test file for the reporter. Wall-clock time would depend on what else the
// machine does. Imports do not count: the files share a process, and whichever is first would pay for all.

declare module 'vitest' {
  interface TaskMeta {
    /** CPU time of the tests and hooks of a file, and of the processes that it waited for, in ms. */
    cpuMs?: number;
  }
}

/** CPU time of this process, of its threads and of its finished child processes, in ms. */
function readCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000 + readChildrenCpuMs();
}

/** The fields cutime and cstime of /proc/self/stat, in units of 10 ms; 0 where there is no such file. */
function readChildrenCpuMs(): number {
  try {
    const fields = readFileSync('/proc/self/stat', 'utf8').replace(/.*\) /s, '').split(' ');
    return 10 * (Number(fields[13]) + Number(fields[14]));
  } catch {
    return 0;
  }
}

let before = 0;
beforeAll(() => {
  before = readCpuMs();
});
// biome-ignore lint/correctness/noEmptyPattern: vitest accepts nothing else as the first parameter
afterAll(({}, file) => {
  file.meta.cpuMs = readCpuMs() - before;
});
