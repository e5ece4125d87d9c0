import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

export interface BenchedService {
  readonly url: string;
  /** Resident memory of the process, MiB; NaN without /proc. */
  residentMiB(): number;
  /** CPU time of the process so far, user and system, milliseconds; NaN without /proc. */
  cpuMs(): number;
  stop(): Promise<void>;
  /** Ends the process with SIGKILL. */
  kill(): Promise<void>;
}

/**
 * `oddslake serve` over the archive at `root`, in a separate process with the launcher's flags.
 * @param flags further flags for Node, such as --cpu-prof
 * @param settings further settings as for --set
 */
export async function startService(
  root: string,
  flags: readonly string[] = [],
  settings: readonly string[] = [],
): Promise<BenchedService> {
  const main = new URL('../bin/main.ts', import.meta.url).pathname;
  const args = [
    'serve',
    '--output',
    root,
    '--json',
    '--quiet',
    ...['service.port=0', ...settings].flatMap((one) => ['--set', one]),
  ];
  const child = spawn(process.execPath, ['--max-semi-space-size=4', ...flags, main, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  process.on('exit', () => child.kill('SIGTERM'));
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const { url } = JSON.parse(line) as { url: string };
  const path = `/proc/${child.pid}/status`;
  return {
    url,
    residentMiB: () =>
      existsSync(path) ? Number(/VmRSS:\s+(\d+)/.exec(readFileSync(path, 'utf8'))?.[1]) / 1024 : Number.NaN,
    cpuMs() {
      const stat = `/proc/${child.pid}/stat`;
      if (!existsSync(stat)) return Number.NaN;
      // https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: utime and stime, in hundredths of a second.
      const fields = readFileSync(stat, 'utf8').split(') ')[1]!.split(' ');
      return 10 * (Number(fields[11]) + Number(fields[12]));
    },
    async stop() {
      child.kill('SIGTERM');
      await once(child, 'close');
    },
    async kill() {
      child.kill('SIGKILL');
      await once(child, 'close');
    },
  };
}
