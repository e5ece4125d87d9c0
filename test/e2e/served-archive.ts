import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { startLongRunning } from './lake.ts';
import { run } from './run-program.ts';

// The service in a separate process, over an archive at `root`.

export interface ServeProcess {
  readonly url: string;
  ask(path: string, init?: RequestInit): Promise<Response>;
  /** Sends the signal and resolves with the exit code. */
  end(signal: NodeJS.Signals): Promise<number | null>;
}

/** An API key of the archive's own database. */
export async function keyOf(root: string): Promise<string> {
  const made = await run(['keys', 'create', '--output', root, '--name', 'test', '--requests-per-minute', '1000000']);
  return made.stdout.trim();
}

export async function serve(root: string, key: string, ...flags: string[]): Promise<ServeProcess> {
  const args = ['serve', '--output', root, '--json', '--set', 'service.port=0', ...flags];
  const { child, ended, first } = await startLongRunning(args);
  const { url } = JSON.parse(first) as { url: string };
  return {
    url,
    ask: (path, init = {}) =>
      fetch(`${url}${path}`, { ...init, headers: { ...init.headers, authorization: `Bearer ${key}` } }),
    async end(signal) {
      child.kill(signal);
      return (await ended).code;
    },
  };
}

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
export const sha256Of = (path: string): string => sha256(readFileSync(path));
