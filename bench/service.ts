import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

export interface BenchedService {
  readonly url: string;
  /** Resident memory of the process, MiB; NaN without /proc. */
  residentMiB(): number;
  stop(): Promise<void>;
}

/** `oddslake serve` over the archive at `root`, in a separate process with the launcher's flags. */
export async function startService(root: string): Promise<BenchedService> {
  const main = new URL('../bin/main.ts', import.meta.url).pathname;
  const args = ['serve', '--output', root, '--json', '--quiet', '--set', 'service.port=0'];
  const child = spawn(process.execPath, ['--max-semi-space-size=4', main, ...args], {
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
    async stop() {
      child.kill('SIGTERM');
      await once(child, 'close');
    },
  };
}
