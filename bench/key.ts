import { join } from 'node:path';
import { systemClock, systemRandomBytes } from '../src/base/system.ts';
import { openWorkspace } from '../src/server/workspace/workspace.ts';

/** Creates an API key without a rate limit for the service of the archive at `root`. */
export async function createBenchKey(root: string): Promise<string> {
  const workspace = await openWorkspace({
    location: { kind: 'sqlite', path: join(root, '.oddslake/service.sqlite') },
    tokens: null,
    randomBytes: systemRandomBytes,
    clock: systemClock,
    log: { debug() {}, info() {}, warn() {}, error() {} },
  });
  const named = { name: 'bench', expiresAt: null, requestsPerMinute: 10_000_000 };
  const { key } = await workspace.createKey(named, systemClock.nowMs());
  await workspace.close();
  return key;
}
