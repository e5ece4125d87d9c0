import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type BucketSection, type ReadManifest, toDataPath, toManifestPath } from '../../src/bucket/bucket-manifest.ts';
import { addReplaced, listLeftovers, planRemoval, updateState } from '../../src/bucket/plan-retention.ts';
import { checkProperty } from '../harness/properties.ts';

const dayMs = 86_400_000;
const nowMs = 1000 * dayMs;

const toKey = (name: string, sequence: number, dataset = 'ticks'): string =>
  toDataPath({ path: `${dataset}/part-00.parquet`, sha256: name.padStart(16, '0') }, sequence);
const toPath = (sequence: number): string => toManifestPath(sequence, `${sequence}`);

/** Earlier manifests that were replaced so many days ago, from sequence 1 on. Each dropped one object, which it was the first to name. */
const listEarlier = (replacedDays: readonly number[]) =>
  replacedDays.map((days, i) => ({
    manifest: toPath(i + 1),
    replaced_at: nowMs - days * dayMs,
    dropped: [toKey('a', i + 1)],
  }));
const sequencesOf = (earlier: readonly { manifest: string }[]): number[] =>
  earlier.map(({ manifest }) => Number(manifest.slice(10, 16)));
const plan = (earlier: BucketSection['earlier'], next: number, keep: [number, number], more = {}) =>
  planRemoval({ listed: 99, tables: [], earlier, ...more }, next, nowMs, {
    keepGenerations: keep[0],
    keepMs: keep[1] * dayMs,
  });

test('holds the last manifests, however old, and removes manifests before their objects', () => {
  const { expired, earlier } = plan(listEarlier([90, 80, 70]), 5, [3, 1]);
  expect(expired).toEqual([toPath(1), toPath(2), toKey('a', 1), toKey('a', 2)]);
  expect(sequencesOf(earlier)).toEqual([3]);
});

test('holds a manifest until it was replaced long enough ago, or if that is unknown', () => {
  expect(sequencesOf(plan(listEarlier([9, 6]), 4, [1, 7]).earlier)).toEqual([2]);
  const [one] = listEarlier([9]);
  expect(plan([{ ...one!, replaced_at: null }], 4, [1, 7]).expired).toEqual([]);
});

test('removes nothing of a manifest for which a marker may have come since the last listing', () => {
  expect(sequencesOf(plan(listEarlier([90, 80, 70]), 4, [1, 1], { listed: 2 }).earlier)).toEqual([2, 3]);
  expect(plan(listEarlier([90]), 4, [1, 1], { listed: 0 }).expired).toEqual([]);
});

test('keeps what the manifests of markers name of their dataset, and these manifests', () => {
  const dropped = [toKey('a', 1), toKey('b', 3), toKey('a', 1, 'quotes')];
  const earlier = listEarlier([90, 80, 70]).map((one, i) => ({ ...one, dropped: i === 2 ? dropped : [] }));
  const tables = [toPath(2).replace('manifests/', 'tables/ticks/'), 'tables/notes.json', 'tables/ticks/'];
  const result = plan(earlier, 9, [1, 1], { tables });
  // The first object was there from 1 to 3, the second one only at 3.
  expect(result.expired).toEqual([toPath(1), toPath(3), toKey('b', 3), toKey('a', 1, 'quotes')]);
  expect(result.earlier.map(({ dropped: kept }) => kept)).toEqual([[], [toKey('a', 1)]]);
  // Without the marker, what is left goes.
  expect(plan(result.earlier, 9, [1, 1]).expired).toEqual([toPath(2), toPath(3), toKey('a', 1)]);
});

test('keeps what an older manifest needs that is held because the clock was set back', () => {
  const earlier = [
    { manifest: toPath(1), replaced_at: nowMs, dropped: [] },
    { manifest: toPath(2), replaced_at: nowMs - 90 * dayMs, dropped: [toKey('a', 1), toKey('b', 2)] },
  ];
  const result = plan(earlier, 9, [1, 1]);
  expect(result.expired).toEqual([toPath(2), toKey('b', 2)]);
  expect(plan(earlier, 9, [1, 1], {}).earlier[1]!.dropped).toEqual([toKey('a', 1)]);
});

/** A history: each generation has some of the names; a name that comes back is another object. */
test('in any history, an object stays as long as a held manifest or a marker needs it, and goes then', () => {
  checkProperty(
    [
      fc.array(fc.tuple(fc.subarray(['a', 'b', 'c', 'd', 'e']), fc.integer({ min: 0, max: 5 }), fc.boolean()), {
        minLength: 2,
        maxLength: 25,
      }),
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 1, max: 12 }),
      fc.option(fc.integer({ min: 1, max: 25 })),
    ],
    300,
    (steps, keepGenerations, keepDays, marked) => {
      const rules = { keepGenerations, keepMs: keepDays * dayMs };
      const tables = marked === null ? [] : [toPath(marked).replace('manifests/', 'tables/ticks/')];
      const present = new Set<string>();
      const named: Set<string>[] = [];
      const swappedAt: number[] = [];
      let earlier: BucketSection['earlier'] = [];
      let files = new Map<string, string>();
      let clock = 0;
      for (const [i, [names, days, isListed]] of steps.entries()) {
        const next = i + 1;
        clock += days * dayMs;
        let staying: BucketSection['earlier'] = [];
        if (i > 0) {
          // The current one is that of the step before.
          const remote = {
            bucket: { sequence: i, earlier, listed: i - 1, tables },
            text: `${i}`,
            files: [...files.values()].map((key) => ({ key })),
            modifiedAt: swappedAt[i - 1]!,
          } as unknown as ReadManifest;
          const state = updateState(remote, null);
          const removal = planRemoval({ ...state, listed: isListed ? i : i - 1 }, next, clock, rules);
          for (const path of removal.expired) present.delete(path);
          staying = removal.earlier;
          const before = files;
          files = new Map(names.map((name) => [name, before.get(name) ?? toKey(name, next)]));
          earlier = addReplaced(staying, remote, new Set(files.values()));
        } else files = new Map(names.map((name) => [name, toKey(name, next)]));
        for (const key of files.values()) present.add(key);
        named.push(new Set(files.values()));
        swappedAt.push(clock);
        const isNeeded = (key: string): boolean =>
          named.some((keys, j) => {
            const isHeld = j + 1 > next - keepGenerations || clock - (swappedAt[j + 1] ?? clock) < rules.keepMs;
            return keys.has(key) && (isHeld || j + 1 === marked);
          });
        const needed = named.flatMap((keys) => [...keys]).filter(isNeeded);
        for (const key of needed) expect(present).toContain(key);
        // What is left is what has not been listed yet, or is needed.
        const surplus = [...present].filter((key) => !needed.includes(key));
        for (const key of surplus) expect(named.slice(i - 2).some((keys) => keys.has(key))).toBe(true);
        const known = new Set([...files.values(), ...earlier.flatMap(({ dropped }) => dropped)]);
        expect(known).toEqual(present);
      }
    },
  );
});

test('leftovers are old objects of our form that no manifest knows, and not those of a push to come', () => {
  const createObject = (path: string, ageDays: number) => ({
    path,
    bytes: 1,
    etag: '"e"',
    modifiedAt: nowMs - ageDays * dayMs,
  });
  const [named, dropped, left, young, later] = [1, 2, 3, 4, 8].map((n) => toKey('a', n));
  const earlier = [{ manifest: toPath(6), replaced_at: null, dropped: [dropped!] }];
  const remote = { bucket: { sequence: 7, earlier }, text: '7', files: [{ key: named }] } as unknown as ReadManifest;
  const objects = [
    ...[named!, dropped!, left!, later!, toPath(6), toPath(7), toPath(8), toPath(5)].map((path) =>
      createObject(path, 10),
    ),
    createObject(young!, 0.5),
    createObject('data/ticks/date=2026-06-01/part-00.parquet', 10),
    createObject('data/ticks/_delta_log/00000000000000000010.checkpoint.parquet', 10),
    createObject('manifests/notes.json', 10),
    createObject('manifest.json', 10),
  ];
  const rules = { keepGenerations: 1, keepMs: dayMs };
  expect(listLeftovers(objects, remote, [], nowMs, rules)).toEqual([toPath(5), left]);
  // A clock of the server that was set back removes nothing.
  expect(listLeftovers(objects, remote, [], nowMs - 100 * dayMs, rules)).toEqual([]);
  const marker = toPath(5).replace('manifests/', 'tables/ticks/');
  expect(listLeftovers(objects, remote, [marker], nowMs, rules)).toEqual([]);
});
