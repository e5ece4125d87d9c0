import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { takeSnapshot } from '../../src/archive/read/snapshot.ts';
import { dayMs } from '../../src/base/window.ts';
import { parseRemoteManifest, readRemoteManifest } from '../../src/bucket/bucket-manifest.ts';
import { formatRemoteViews } from '../../src/bucket/finish-push.ts';
import type { ObjectStore } from '../../src/bucket/object-store.ts';
import { opened, scratchFolder } from '../archive/scratch.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { type Fault, type FaultProxy, faults, startFaultProxy } from './fault-proxy.ts';
import { hashesOf, publishedArchive, publishMore, pushNow, readGeneration } from './pushed.ts';
import { type ObjectServer, openStore, startServer } from './server.ts';

// Every request of a push meets every fault, and a reader comes before and after each. SWEEP=all takes every pair; otherwise
// each request meets some of the faults, and each fault some of the requests.

/** One of so many pairs: with as many as there are faults, every request meets one, and each fault another request. */
const every = process.env.SWEEP === 'all' ? 1 : faults.length;

/** A response that the fault holds back is given up after this time; all others have the usual one. */
const idleMsMax = 400;

describe('a push that meets a fault', needsObjectStorage(), () => {
  let server: ObjectServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.stop());

  let prefixes = 0;

  /** The archive at its first generations, of which each replaces a file of the one before. */
  async function listGenerations(count: number): Promise<readonly Archive[]> {
    const archive = await publishedArchive();
    const earlier: Archive[] = [];
    for (let n = 1; n < count; n++) {
      const folder = join(scratchFolder(), `generation-${n}`);
      await takeSnapshot(archive, folder, { id: `generation-${n}` });
      earlier.push(opened({ root: folder, create: false }));
      await publishMore(archive, 0, 0.5 + n / 10);
    }
    return [...earlier, archive];
  }

  const retention = { keepGenerations: 1, keepMs: dayMs };

  /** Makes every object of a prefix a month old. */
  function age(prefix: string): void {
    const at = new Date(Date.now() - 30 * dayMs);
    for (const path of globSync('**/*', { cwd: join(server.folder, prefix) }))
      utimesSync(join(server.folder, prefix, path), at, at);
  }

  /** Objects that a manifest names and that are missing, and objects that no manifest names. */
  async function listMissing(store: ObjectStore, prefix: string): Promise<{ missing: string[]; surplus: string[] }> {
    const named = new Set<string>();
    for await (const { path } of store.list('manifests/')) {
      const { files } = parseRemoteManifest(Buffer.from((await store.get(path))!.bytes).toString('utf8'), path);
      for (const { key } of files) named.add(key);
    }
    const present = new Set(globSync('data/**/*.parquet', { cwd: join(server.folder, prefix) }));
    return {
      missing: [...named].filter((path) => !present.has(path)),
      surplus: [...present].filter((path) => !named.has(path)),
    };
  }

  interface Case {
    /** Generations that are in the bucket, the oldest first, and long since. */
    readonly before: readonly Archive[];
    /** The prefix that has them. */
    readonly start: string;
    readonly archive: Archive;
    readonly index: number;
    readonly fault: Fault | null;
  }

  /** Runs one case; returns the number of requests of the push. */
  async function runCase({ before, start, archive, index, fault }: Case): Promise<number> {
    const prefix = `f${++prefixes}`;
    const direct = await openStore({ endpoint: server.endpoint, prefix });
    // With the attributes of the files, in which the server keeps those of the objects.
    if (before.length > 0) execFileSync('cp', ['-a', join(server.folder, start), join(server.folder, prefix)]);
    const stop = new AbortController();
    const last = before.at(-1);
    const reader = createReader(join(server.folder, prefix), [
      last === undefined ? null : hashesOf(last),
      hashesOf(archive),
    ]);
    const proxy = await startFaultProxy(server.endpoint, {
      choose: (at) => (at === index ? fault : null),
      kill: () => stop.abort(new Error('killed')),
      hold: reader.read,
      answered: reader.read,
    });
    try {
      const open = (options = {}): Promise<ObjectStore> => openStore({ endpoint: proxy.endpoint, prefix, ...options });
      const limits = fault === 'time-out' ? { idleMsMax } : {};
      await pushNow(archive, await open({ limits, signal: stop.signal }), { retention }).catch(() => {});
      const remaining = await listMissing(direct, prefix);
      expect(remaining.missing).toEqual([]);
      const requests = proxy.seen.length;
      // The next push ends it.
      await pushNow(archive, await open(), { retention });
      reader.end();
      expect(await readGeneration(direct)).toEqual(hashesOf(archive));
      expect(listUploadedTwice(proxy)).toEqual([]);
      const remote = (await readRemoteManifest(direct))!;
      expect(remote.bucket.sequence).toBe(before.length + 1);
      expect(await listMissing(direct, prefix)).toEqual({ missing: [], surplus: [] });
      const views = Buffer.from((await direct.get('views.sql'))!.bytes).toString('utf8');
      expect(views).toBe(formatRemoteViews(direct.url, remote));
      expect(await pushNow(archive, await open(), { retention })).toMatchObject({ requests: { reads: 1, writes: 0 } });
      return requests;
    } finally {
      await proxy.stop();
    }
  }

  test.each([
    ['the first push', 0],
    ['a later push', 1],
    ['a push that removes objects', 2],
  ])('every request of %s: readers see one whole generation, and the next push ends it', async (_, earlier) => {
    const generations = await listGenerations(earlier + 1);
    const start = `start${earlier}`;
    const setting = { before: generations.slice(0, -1), start, archive: generations.at(-1)! };
    const store = await openStore({ endpoint: server.endpoint, prefix: start });
    for (const one of setting.before) {
      await pushNow(one, store);
      age(start);
    }
    const requests = await runCase({ ...setting, index: -1, fault: null });
    expect(requests).toBeGreaterThan(8);
    let cases = 0;
    for (let index = 0; index < requests; index++) {
      for (const [f, fault] of faults.entries()) {
        // Where a removal ends matters, because nothing brings an object back.
        const isKill = earlier === 2 && fault.startsWith('killed');
        if (!isKill && (index * 3 + f) % every !== 0) continue;
        await expect(runCase({ ...setting, index, fault }), `${fault} at request ${index}`).resolves.toBeGreaterThan(0);
        cases++;
      }
    }
    expect(cases).toBeGreaterThanOrEqual((requests * faults.length) / every - requests);
  });
});

/**
 * A reader that comes before and after every request, and finds the objects as the server has them in its folder: one of the
 * two generations whole, and never the first one again after the second.
 */
function createReader(folder: string, known: readonly (Record<string, string> | null)[]) {
  const faults: string[] = [];
  const seen: number[] = [];
  const manifests = new Set<string | null>();
  const readObjects = (manifest: string | null): number => {
    const read =
      manifest === null
        ? null
        : Object.fromEntries(
            parseRemoteManifest(manifest, folder).files.map(({ path, key }) => [
              path,
              existsSync(join(folder, key)) ? sha256(readFileSync(join(folder, key))) : 'missing',
            ]),
          );
    return known.findIndex((one) => isDeepStrictEqual(one, read));
  };
  return {
    read(): void {
      const path = join(folder, 'manifest.json');
      const manifest = existsSync(path) ? readFileSync(path, 'utf8') : null;
      manifests.add(manifest);
      const index = readObjects(manifest);
      if (index < 0) faults.push(`a reader saw another generation: ${manifest}`);
      if (index < (seen.at(-1) ?? 0)) faults.push('a reader saw the generation go back');
      seen.push(index);
    },
    /** One that has read the manifest at any time still finds all its objects. */
    end(): void {
      for (const manifest of manifests)
        if (readObjects(manifest) < 0) faults.push(`a reader lost its generation: ${manifest}`);
      expect(faults).toEqual([]);
      expect(new Set(seen)).toEqual(new Set([0, 1]));
    },
  };
}

/** Objects that were stored more than once. */
function listUploadedTwice({ seen }: FaultProxy): string[] {
  const stored = seen.filter(
    ({ method, path, status }) => method === 'PUT' && path.includes('/data/') && status === 200,
  );
  const paths = stored.map(({ path }) => path.replace(/\?.*/, ''));
  return paths.filter((path, i) => paths.indexOf(path) !== i);
}
