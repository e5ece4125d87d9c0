import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { parseRemoteManifest, readRemoteManifest, toManifestPath } from '../../src/bucket/bucket-manifest.ts';
import type { PushOptions } from '../../src/bucket/push.ts';
import { opened } from '../archive/scratch.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { hashesOf, publishMore, pushNow, readGeneration } from './pushed.ts';
import { copyOf, pulled, useServer } from './use-server.ts';

// Random histories of pushes, against a model that knows every generation that was the current one.

/** Steps of the history; PUSH_STEPS=400 for a long run. */
const steps = Number(process.env.PUSH_STEPS ?? 20);
const seed = Number(process.env.SEED || Math.floor(Math.random() * 1e6));

/** Random whole numbers below a bound. */
function createDice(from: number): (sides: number) => number {
  let state = from;
  return (sides) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * sides);
  };
}

/** A generation that was the current one. */
interface Generation {
  readonly sequence: number;
  /** Of its manifest in manifests/. */
  readonly path: string;
  readonly files: readonly { readonly key: string; readonly path: string; readonly sha256: string }[];
  /** By this machine's clock; null: not yet. */
  replacedAt: number | null;
}

const keepMs = 2000;
/** The server's times are whole seconds. */
const slackMs = 1100;

/** What was swapped in at a server's folder, and what has to be there. */
function createModel(folder: string, keepGenerations: number) {
  const history: Generation[] = [];
  /** Objects that nothing needs, with the pushes that were finished since. */
  const surplus = new Map<string, number>();
  const isHeld = ({ sequence, replacedAt }: Generation, extraMs: number): boolean =>
    sequence > history.length - keepGenerations || replacedAt === null || Date.now() - replacedAt < keepMs + extraMs;
  return {
    history,
    listHeld: () => history.filter((one) => isHeld(one, -slackMs)),
    /** Notes the current generation. Called after each response that may have swapped one in. */
    note(): void {
      const at = join(folder, 'manifest.json');
      const text = existsSync(at) ? readFileSync(at, 'utf8') : '';
      const last = history.at(-1);
      if (text === '' || last?.path === toManifestPath(last?.sequence ?? 0, text)) return;
      if (last !== undefined) last.replacedAt = Date.now();
      const { bucket, files } = parseRemoteManifest(text, at);
      expect(bucket.sequence).toBe(history.length + 1);
      history.push({ sequence: bucket.sequence, path: toManifestPath(bucket.sequence, text), files, replacedAt: null });
    },
    requireHeldWhole(): void {
      for (const { path, files, sequence } of this.listHeld()) {
        expect(existsSync(join(folder, path)), path).toBe(true);
        for (const { key, sha256: hash } of files)
          expect(sha256(readFileSync(join(folder, key))), `${key} of ${sequence}`).toBe(hash);
      }
    },
    /** How many finished pushes an object outlasts that nothing needs, at most. */
    countSurplus(present: readonly string[], isFinished: boolean): number {
      const needed = new Set(
        history
          .filter((one) => isHeld(one, slackMs))
          .flatMap(({ path, files }) => [path, ...files.map(({ key }) => key)]),
      );
      const isOld = (path: string): boolean => Date.now() - statSync(join(folder, path)).mtimeMs > keepMs + slackMs;
      // Those of the next sequence will be used, or are removed once it is there.
      const next = history.length + 1;
      const isNext = (path: string): boolean =>
        path.includes(`-r${next}.`) || path.includes(`/${String(next).padStart(6, '0')}-`);
      for (const path of surplus.keys()) if (!present.includes(path)) surplus.delete(path);
      for (const path of present)
        if (needed.has(path) || isNext(path) || !isOld(path)) surplus.delete(path);
        else surplus.set(path, (surplus.get(path) ?? -1) + (isFinished ? 1 : 0));
      return Math.max(0, ...surplus.values());
    },
  };
}

describe('any history of pushes', needsObjectStorage(), () => {
  const { folderOf, objectsOf, newPrefix, proxied, unpushed, open } = useServer();

  test.each([0, 1])(`keeps each held generation whole and removes the rest (SEED=${seed} + %i)`, async (more) => {
    const roll = createDice(seed + more);
    const lake = await unpushed();
    const { prefix, store } = lake;
    let { archive } = lake;
    const folder = folderOf(prefix);
    const keepGenerations = 1 + roll(5);
    const options: Partial<PushOptions> = { retention: { keepGenerations, keepMs } };
    const model = createModel(folder, keepGenerations);
    const counts = { killed: 0, raced: 0, pulled: 0, surplus: 0 };
    const publish = (): Promise<void> => publishMore(archive, roll(3), roll(8) / 10);

    /** A push that is killed before or after the server has seen one of its requests. */
    async function pushKilled(): Promise<void> {
      const stop = new AbortController();
      const at = roll(12);
      const fault = roll(2) === 0 ? 'killed before' : 'killed after';
      const { proxy } = await proxied(prefix, {
        choose: (index) => (index === at ? fault : null),
        kill: () => stop.abort(new Error('killed')),
      });
      const broken = await open(prefix, { endpoint: proxy.endpoint, signal: stop.signal });
      await pushNow(archive, broken, options).catch(() => counts.killed++);
    }

    /** Two at once, of which one has a later generation. */
    async function pushTwice(): Promise<void> {
      const { store: seen } = await proxied(prefix, { answered: model.note });
      const first = pushNow(archive, seen, options).catch(() => counts.raced++);
      await publish();
      await pushNow(archive, seen, options).catch(() => counts.raced++);
      await first;
    }

    /** A held generation in a bucket of its own, as if it were the current one. */
    async function pullHeld(): Promise<void> {
      const held = model.listHeld();
      const { path, files } = held[roll(held.length)]!;
      const aside = newPrefix();
      execFileSync('cp', ['-a', folder, folderOf(aside)]);
      const other = await open(aside);
      const { bytes } = (await other.get(path))!;
      await other.put('manifest.json', bytes, sha256(bytes), 'always', 'application/json');
      const copy = opened({ root: await pulled(other), create: false });
      expect(hashesOf(copy)).toEqual(Object.fromEntries(files.map((file) => [file.path, file.sha256])));
      copy.close();
      counts.pulled++;
    }

    for (let step = 0; step < steps; step++) {
      await publish();
      const fate = roll(10);
      if (fate < 5) await pushKilled();
      else if (fate < 7) await pushTwice();
      else await pushNow(archive, store, options);
      model.note();
      model.requireHeldWhole();
      if (fate >= 7) expect(await readGeneration(store)).toEqual(hashesOf(archive));
      const present = objectsOf(prefix).filter((path) => /^(data|manifests)\//.test(path));
      counts.surplus = Math.max(counts.surplus, model.countSurplus(present, fate >= 7));
      if (roll(5) === 0 && model.history.length > 0) await pullHeld();
      // Another machine takes over, without what this one knows.
      if (roll(5) === 0 && model.history.length > 0) archive = opened({ root: await pulled(store), create: false });
      if (roll(4) === 0) await sleep(roll(keepMs + 2 * slackMs));
    }
    expect(counts.killed).toBeGreaterThan(0);
    expect(counts.pulled).toBeGreaterThan(0);
    // One lists, and the next one removes.
    expect(counts.surplus).toBeLessThanOrEqual(1 + Math.max(1, keepGenerations >> 1));
    if (process.env.PUSH_STEPS !== undefined) console.log(keepGenerations, model.history.length, counts);
  });

  test.each([4, 300])(
    'a push of N files sends N + 5 requests at most beside %i held generations, and reads none of them',
    async (held) => {
      const { archive, prefix, store: direct } = await unpushed();
      // Two generations that replace each other are as good as as many publishes.
      const earlier = await copyOf(archive);
      await publishMore(archive, 0, 0.6);
      const options = { retention: { keepGenerations: held, keepMs: 1000 }, restores: true };
      for (let n = 0; n <= held; n++) await pushNow(n % 2 === 0 ? archive : earlier, direct, options);
      await sleep(2 * keepMs);
      const { proxy, store } = await proxied(prefix, {});
      for (let n = 0; n < 8; n++) {
        await publishMore(archive, 0, n / 10);
        const before = proxy.seen.length;
        const { uploaded, removed } = await pushNow(archive, store, options);
        const seen = proxy.seen.slice(before);
        const pages = seen.filter(({ path }) => path.includes('list-type')).length;
        if (pages === 0) expect(removed).toBeGreaterThan(0);
        expect(seen.length - uploaded.files, `push ${n}`).toBeLessThanOrEqual(5);
        expect(seen.filter(({ method, path }) => method === 'GET' && path.includes('/manifests/'))).toEqual([]);
      }
      const { bucket } = (await readRemoteManifest(direct))!;
      // Those of the last second too.
      expect(bucket.earlier.length).toBeGreaterThanOrEqual(held - 1);
      expect(bucket.earlier.length).toBeLessThanOrEqual(held + 8);
      const named = bucket.earlier.flatMap(({ manifest, dropped }) => [manifest, ...dropped]);
      expect(objectsOf(prefix)).toEqual(expect.arrayContaining(named));
    },
  );
});
