import { spawnSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

// A run of the tests writes only below two folders of its own: one in memory, one on disk. At its end it removes them
// and ends the processes that still use them. If a run was killed, the next one cleans up after it.

/** Environment variable with which threads and child processes find the folders of their run. */
export const runVariable = 'TEST_RUN';

const memory = '/dev/shm';
/** Maximum space that the tests of two processes need, in bytes, with a margin. A container may have 64 MB there. */
const bytesMin = 2 ** 31;

function hasRoom(): boolean {
  if (!existsSync(memory)) return false;
  const { bavail, bsize } = statfsSync(memory);
  return bavail * bsize >= bytesMin;
}

const prefix = 'oddslake-tests-';
const disk = process.env.TEST_DISK ?? tmpdir();
const bases = [...new Set([hasRoom() ? memory : disk, disk])];

/** The folders of a run, by the process ID of its main process: in memory if there is space, and on disk. */
export const runFolders = (pid: number | string): { readonly memory: string; readonly disk: string } => ({
  memory: join(bases[0]!, `${prefix}${pid}`),
  disk: join(disk, `${prefix}${pid}`),
});

/** Compile cache of Node, shared between runs: threads and processes of tests start in two thirds of the time. */
export const compileCache: string = new URL('../../node_modules/.cache/oddslake-tests', import.meta.url).pathname;

/** Environment of a run's tests: temporary files go into its folder, and child processes inherit its name. */
export const runEnvironment = (pid: number): Record<string, string> => ({
  [runVariable]: `${pid}`,
  TEST_DISK: disk,
  TMPDIR: runFolders(pid).disk,
  NODE_COMPILE_CACHE: compileCache,
});

/** Vitest's global setup. */
export default function setup(): () => void {
  for (const pid of otherRuns()) if (!isTestRun(pid)) removeRun(pid);
  for (const path of Object.values(runFolders(process.pid))) mkdirSync(path, { recursive: true });
  return () => removeRun(process.pid);
}

/** Process IDs of the runs that have folders. */
function otherRuns(): number[] {
  const names = bases.flatMap((base) => globSync(`${prefix}*`, { cwd: base })).map((path) => basename(path));
  return [...new Set(names.map((name) => Number(name.slice(prefix.length))))].filter((pid) => pid > 0);
}

/** Whether a process with this ID runs tests now. If that cannot be determined, any process with this ID counts. */
function isTestRun(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  return existsSync('/proc/self') ? (readProc(pid, 'cmdline') ?? '').includes('vitest') : true;
}

/**
 * Ends the processes that a run left behind (on Linux, where environment and arguments identify them) and removes its
 * folders. Vitest ends its own workers, which are direct children of this process.
 */
function removeRun(pid: number): void {
  const folders = Object.values(runFolders(pid));
  const marks = [`${runVariable}=${pid}\0`, ...folders.map((path) => `${path}/`)];
  for (const path of globSync('/proc/[0-9]*')) {
    const other = Number(basename(path));
    if (other === process.pid || other === process.ppid || parentOf(other) === process.pid) continue;
    const text = `${readProc(other, 'environ') ?? ''}\0${readProc(other, 'cmdline') ?? ''}\0`;
    if (marks.some((mark) => text.includes(mark))) kill(other);
  }
  // A folder with a disk that a killed test has mounted cannot be removed.
  for (const path of listMounts())
    if (folders.some((folder) => path.startsWith(`${folder}/`))) spawnSync('umount', [path]);
  for (const path of folders) rmSync(path, { recursive: true, force: true, maxRetries: 3 });
}

/** Where something is mounted, innermost first; empty where this is unknown. */
const listMounts = (): string[] =>
  (readProc(process.pid, 'mounts') ?? '')
    .split('\n')
    .flatMap((line) => line.split(' ')[1] ?? [])
    .toReversed();

/** The parent's process ID: the second field after the name, which is in brackets and may contain any characters. */
const parentOf = (pid: number): number => Number(/.*\) \S (\d+)/s.exec(readProc(pid, 'stat') ?? '')?.[1]);

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // Already exited.
  }
}

/** Null if the process has exited or belongs to another user. */
function readProc(pid: number, name: string): string | null {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return null;
  }
}
