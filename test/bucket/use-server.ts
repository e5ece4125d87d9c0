import { globSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { takeSnapshot } from '../../src/archive/read/snapshot.ts';
import { systemClock } from '../../src/base/system.ts';
import { dayMs } from '../../src/base/window.ts';
import type { ObjectStore } from '../../src/bucket/object-store.ts';
import { type PullOptions, pullArchive } from '../../src/bucket/pull.ts';
import type { PushOptions } from '../../src/bucket/push.ts';
import { opened, scratchFolder } from '../archive/scratch.ts';
import { type FaultProxy, type ProxyRules, startFaultProxy } from './fault-proxy.ts';
import { publishedArchive, pushNow } from './pushed.ts';
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
  const newPrefix = (): string => `p${++prefixes}`;
  /** An archive with a generation, and a store for it. */
  async function unpushed() {
    const archive = await publishedArchive();
    const prefix = newPrefix();
    return { archive, prefix, store: await open(prefix) };
  }
  /** The same, with the generation pushed. */
  async function pushed(options: Partial<PushOptions> = {}) {
    const lake = await unpushed();
    await pushNow(lake.archive, lake.store, options);
    return lake;
  }
  return {
    newPrefix,
    unpushed,
    pushed,
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
  clock: systemClock,
  waitMs: 10_000,
};

export const pullNow = (store: ObjectStore, folder: string, options: Partial<PullOptions> = {}) =>
  pullArchive(store, folder, { ...pullOptions, ...options });

/** Pulls into a new folder. */
export async function pulled(store: ObjectStore): Promise<string> {
  const folder = join(scratchFolder(), 'pulled');
  await pullNow(store, folder);
  return folder;
}

/** A copy of an archive as it is now, as a backup has it. */
export async function copyOf(archive: Archive): Promise<Archive> {
  const root = join(scratchFolder(), 'copy');
  await takeSnapshot(archive, root, { id: 'a' });
  return opened({ root, create: false });
}

export async function verifyFolder(root: string) {
  const archive = opened({ root, create: false, upstream: null });
  const result = await verifyArchive(archive, null);
  archive.close();
  return result;
}
