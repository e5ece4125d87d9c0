import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { SandboxStats } from '../src/sandbox/stats.ts';

/** A simulated service in a process of its own. */
export interface BenchedSandbox {
  readonly url: string;
  readonly key: string;
  /** User and system time that it took so far, ms; null where there is no /proc. */
  cpuMs(): number | null;
  stats(): Promise<SandboxStats>;
  stop(): Promise<void>;
}

/** Hundredths of a second: Linux counts the time of processes in them, whatever its own clock does (proc(5)). */
const clockTickMs = 10;

/** `oddslake sandbox` with these flags. */
export const startSandbox = (flags: readonly string[]): Promise<BenchedSandbox> =>
  startUpstream([new URL('../bin/main.ts', import.meta.url).pathname, 'sandbox', '--json', '--quiet', ...flags]);

/** A program of Node that serves, and says `{url, key}` in its first line. Throws where it ends before. */
export async function startUpstream(argv: readonly string[]): Promise<BenchedSandbox> {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...argv], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const kill = (): void => void child.kill('SIGKILL');
  process.once('exit', kill);
  const ended = once(child, 'close');
  const [line] = (await Promise.race([once(createInterface({ input: child.stdout }), 'line'), ended])) as [unknown];
  if (typeof line !== 'string') throw new Error(`the service ended before it served: ${argv.join(' ')}`);
  const { url, key } = JSON.parse(line) as { url: string; key: string };
  return {
    url,
    key,
    cpuMs() {
      try {
        // The name in brackets may hold spaces; user and system time are the 14th and 15th field.
        const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8')
          .replace(/^.*\) /s, '')
          .split(' ');
        return (Number(fields[11]) + Number(fields[12])) * clockTickMs;
      } catch {
        return null;
      }
    },
    stats: async () => (await (await fetch(`${url}/sandbox/stats`)).json()) as SandboxStats,
    async stop() {
      child.kill('SIGTERM');
      await ended;
      process.off('exit', kill);
    },
  };
}
