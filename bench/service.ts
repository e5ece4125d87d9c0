import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

/** An HTTP server in a separate process. */
export interface BenchedService {
  readonly url: string;
  readonly pid: number;
  /** CPU time of the process so far, user and system, milliseconds; NaN without /proc. */
  cpuMs(): number;
  stop(): Promise<void>;
  /** Ends the process with SIGKILL. */
  kill(): Promise<void>;
}

/**
 * `oddslake serve` over the archive at `root`, in a separate process as the launcher starts it.
 * @param flags further flags for Node, such as --cpu-prof
 * @param settings further settings, as for --set
 */
export async function startService(
  root: string,
  flags: readonly string[] = [],
  env: NodeJS.ProcessEnv = process.env,
  settings: readonly string[] = [],
): Promise<BenchedService> {
  const launcher = new URL('../bin/oddslake', import.meta.url).pathname;
  const set = ['service.port=0', ...settings].flatMap((one) => ['--set', one]);
  const args = ['serve', '--output', root, '--json', '--quiet', ...set];
  return await startServer([launcher, ...args], { ...env, NODE_OPTIONS: flags.join(' ') });
}

/**
 * Starts a server that prints {"url": …} as its first line.
 * @throws if it exits before
 */
export async function startServer(
  [program, ...args]: readonly [string, ...string[]],
  env: NodeJS.ProcessEnv = process.env,
): Promise<BenchedService> {
  // A session of its own, as services have: Linux may divide the processor by session (autogroup in sched(7)).
  const child = spawn(program, args, { env, detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
  const exit = once(child, 'close');
  const kill = (): void => void child.kill('SIGTERM');
  process.once('exit', kill);
  const [line] = (await Promise.race([once(createInterface({ input: child.stdout }), 'line'), exit])) as [unknown];
  if (typeof line !== 'string') throw new Error(`${[program, ...args].join(' ')} exited before it was ready`);
  const { url } = JSON.parse(line) as { url: string };
  const pid = child.pid!;
  return {
    url,
    pid,
    cpuMs: () => readStat(pid).cpuMs,
    async stop() {
      await stopChild(child, exit);
      process.off('exit', kill);
    },
    async kill() {
      child.kill('SIGKILL');
      await exit;
    },
  };
}

async function stopChild(child: ChildProcess, exit: Promise<unknown>): Promise<void> {
  child.kill('SIGTERM');
  await exit;
}

/** CPU time so far of a process and of its children that run, milliseconds; NaN without /proc. */
export function readTreeCpuMs(pid: number): number {
  const children = globSync('/proc/[0-9]*')
    .map((path) => readStat(Number(path.slice('/proc/'.length))))
    .filter(({ parent }) => parent === pid);
  return children.reduce((sum, { cpuMs }) => sum + cpuMs, readStat(pid).cpuMs);
}

/** https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: times are in hundredths of a second. */
function readStat(pid: number): { readonly parent: number; readonly cpuMs: number } {
  // The name in brackets may contain spaces.
  const fields = readProcess(pid, 'stat')
    .replace(/^.*\) /s, '')
    .split(' ');
  return { parent: Number(fields[1]), cpuMs: 10 * (Number(fields[11]) + Number(fields[12])) };
}

function readProcess(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return '';
  }
}
