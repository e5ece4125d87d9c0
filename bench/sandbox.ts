import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { SandboxOptions } from '../src/sandbox/sandbox-options.ts';
import type { SandboxStats } from '../src/sandbox/stats.ts';

/** A simulated service in a separate process. */
export interface BenchedSandbox {
  readonly url: string;
  readonly key: string;
  /** User and system time so far, ms; null without /proc. */
  cpuMs(): number | null;
  stats(): Promise<SandboxStats>;
  stop(): Promise<void>;
}

/** Clock ticks per second: Linux reports process times in 1/100 s, whatever its own clock rate (proc(5)). */
const clockTickMs = 10;

/** `oddslake sandbox` with these options. */
export const startSandbox = (options: Partial<SandboxOptions>): Promise<BenchedSandbox> =>
  startUpstream([
    ...[new URL('../bin/main.ts', import.meta.url).pathname, 'sandbox', '--json', '--quiet'],
    ...['--options', JSON.stringify(options)],
  ]);

/** Starts a Node program that serves and prints `{url, key}` as its first line. Throws if it exits before. */
export async function startUpstream(argv: readonly string[]): Promise<BenchedSandbox> {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', ...argv], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const kill = (): void => void child.kill('SIGKILL');
  process.once('exit', kill);
  const exit = once(child, 'close');
  const [line] = (await Promise.race([once(createInterface({ input: child.stdout }), 'line'), exit])) as [unknown];
  if (typeof line !== 'string') throw new Error(`the service exited before it was ready: ${argv.join(' ')}`);
  const { url, key } = JSON.parse(line) as { url: string; key: string };
  return {
    url,
    key,
    cpuMs() {
      try {
        // The name in brackets may contain spaces; user and system time are fields 14 and 15.
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
      await exit;
      process.off('exit', kill);
    },
  };
}
