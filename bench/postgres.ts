import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { readTreeCpuMs } from './service.ts';

/** A throwaway PostgreSQL, whose files are deleted when it stops. */
export interface BenchedPostgres {
  readonly url: string;
  /** CPU time of all its processes that run, milliseconds; NaN without /proc. */
  cpuMs(): number;
  stop(): Promise<void>;
}

/** Its whole table fits into this memory. */
const options = '-c shared_buffers=1GB';

/**
 * Starts PostgreSQL with test/postgres.sh, which installs Debian's package if it may.
 * @throws if PostgreSQL is not installed or does not start
 */
export async function startPostgres(env: NodeJS.ProcessEnv): Promise<BenchedPostgres> {
  const script = new URL('../test/postgres.sh', import.meta.url).pathname;
  // The server runs until the standard input of the command ends, and so no longer than this process.
  const command = ['sh', '-c', 'echo "$ODDSLAKE_TEST_POSTGRES" && exec cat >/dev/null'];
  const child = spawn(script, command, {
    env: { ...env, POSTGRES_OPTIONS: options },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors = (errors + chunk.toString()).slice(-1000);
  });
  const exit = once(child, 'close');
  const [url] = (await Promise.race([once(createInterface({ input: child.stdout }), 'line'), exit])) as [unknown];
  if (typeof url !== 'string') throw new Error(errors.trim().split('\n').at(-1) || 'PostgreSQL did not start');
  const pid = findServer(new URL(url).port);
  return {
    url,
    cpuMs: () => (pid === undefined ? Number.NaN : readTreeCpuMs(pid)),
    async stop() {
      child.stdin.end();
      await exit;
    },
  };
}

/** The main process of the server at this port, whose children are its other processes. */
function findServer(port: string): number | undefined {
  const path = globSync('/proc/[0-9]*/cmdline').find((file) => {
    try {
      const args = readFileSync(file, 'utf8').split('\0');
      return args[0]!.endsWith('/postgres') && args.includes(`port=${port}`);
    } catch {
      return false;
    }
  });
  return path === undefined ? undefined : Number(path.split('/')[2]);
}
