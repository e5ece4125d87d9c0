import { globSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { systemClock } from '../../src/base/system.ts';
import { dayMs } from '../../src/base/window.ts';
import type { ObjectStore } from '../../src/bucket/object-store.ts';
import { type PullOptions, pullArchive } from '../../src/bucket/pull.ts';
import { hourMs } from '../archive/scratch.ts';
import { type FaultProxy, type ProxyRules, startFaultProxy } from './fault-proxy.ts';
import { type Access, type ObjectServer, openStore, startServer } from './server.ts';

/** A server for the tests of a describe block, each with prefixes of its own. */
export function useServer() {
  let server: ObjectServer;
  let prefixes = 0;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.stop());
  const open = (prefix: string, more: Partial<Access> = {}): Promise<ObjectStore> =>
    openStore({ endpoint: server.endpoint, prefix, ...more });
  /** The folder of a prefix on the server's disk. */
  const folderOf = (prefix: string): string => join(server.folder, prefix);
  /** Paths of the objects below a prefix, sorted. */
  const objectsOf = (prefix: string, under = ''): string[] =>
    globSync('**/*', { cwd: join(folderOf(prefix), under) })
      .filter((path) => statSync(join(folderOf(prefix), under, path)).isFile())
      .sort();
  return {
    newPrefix: (): string => `p${++prefixes}`,
    open,
    folderOf,
    objectsOf,
    /** Makes every object of a prefix older. */
    age(prefix: string, days: number): void {
      const at = new Date(Date.now() - days * dayMs);
      for (const path of objectsOf(prefix)) utimesSync(join(folderOf(prefix), path), at, at);
    },
    /** A store behind a proxy that breaks requests. */
    async proxied(prefix: string, rules: ProxyRules): Promise<{ proxy: FaultProxy; store: ObjectStore }> {
      const proxy = await startFaultProxy(server.endpoint, rules);
      onTestFinished(() => proxy.stop());
      return { proxy, store: await open(prefix, { endpoint: proxy.endpoint }) };
    },
  };
}

const pullOptions: PullOptions = {
  disk: systemDisk,
  writer: 'oddslake test',
  settleMs: hourMs,
  clock: systemClock,
  waitMs: 10_000,
};

export const pullNow = (store: ObjectStore, folder: string, options: Partial<PullOptions> = {}) =>
  pullArchive(store, folder, { ...pullOptions, ...options });
