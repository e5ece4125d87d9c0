import fc from 'fast-check';
import { expect, test } from 'vitest';
import { toManifestPath } from '../../src/bucket/bucket-manifest.ts';
import { keepForTables, listCandidates, splitManifests } from '../../src/bucket/plan-retention.ts';
import { checkProperty } from '../harness/properties.ts';

const dayMs = 86_400_000;
const nowMs = 1000 * dayMs;
const createObject = (path: string, ageDays: number) => ({
  path,
  bytes: 1,
  etag: '"e"',
  modifiedAt: nowMs - ageDays * dayMs,
});
/** Manifests of these ages in days, from sequence 1 on. */
const listManifests = (ages: readonly number[]) =>
  ages.map((age, i) => createObject(toManifestPath(i + 1, `${i}`), age));
const sequencesOf = (paths: readonly string[]): number[] => paths.map((path) => Number(path.slice(10, 16)));

test('holds the last manifests, however old', () => {
  const { held, expired } = splitManifests(listManifests([90, 80, 70, 60]), 4, nowMs, {
    keepGenerations: 2,
    keepMs: dayMs,
  });
  expect([sequencesOf(held), sequencesOf(expired)]).toEqual([
    [4, 3],
    [2, 1],
  ]);
});

test('holds a manifest until its successor is old enough, because it was the current one until then', () => {
  const rules = { keepGenerations: 1, keepMs: 7 * dayMs };
  // Replaced 6 days ago, and 8 days ago.
  expect(sequencesOf(splitManifests(listManifests([90, 6, 1]), 3, nowMs, rules).held)).toEqual([3, 2, 1]);
  expect(sequencesOf(splitManifests(listManifests([90, 8, 1]), 3, nowMs, rules).held)).toEqual([3, 2]);
});

test('holds manifests that are not in force yet, and ignores foreign objects', () => {
  const rules = { keepGenerations: 1, keepMs: dayMs };
  const objects = [...listManifests([90, 80, 70]), createObject('manifests/notes.json', 90)];
  const { held, expired } = splitManifests(objects, 2, nowMs, rules);
  expect([sequencesOf(held), sequencesOf(expired)]).toEqual([[3, 2], [1]]);
});

test('expires manifests of lost races with those that won', () => {
  const rules = { keepGenerations: 1, keepMs: dayMs };
  const objects = [...listManifests([90, 80, 70]), createObject(toManifestPath(1, 'lost'), 90)];
  expect(splitManifests(objects, 3, nowMs, rules).expired).toHaveLength(3);
});

test('never expires what was in force within keep_days, or is among the last, in any history', () => {
  checkProperty(
    [
      fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 30 }),
      fc.integer({ min: 1, max: 10 }),
      fc.integer({ min: 1, max: 20 }),
    ],
    100,
    (gaps, keepGenerations, keepDays) => {
      // Ages fall with the sequence.
      const ages = gaps.map((_, i) => gaps.slice(i).reduce((sum, gap) => sum + gap, 0));
      const rules = { keepGenerations, keepMs: keepDays * dayMs };
      const expired = new Set(sequencesOf(splitManifests(listManifests(ages), ages.length, nowMs, rules).expired));
      for (const [i] of ages.entries()) {
        const isAmongLast = i >= ages.length - keepGenerations;
        const replacedAge = ages[i + 1] ?? 0;
        expect(expired.has(i + 1)).toBe(!isAmongLast && replacedAge >= keepDays);
      }
    },
  );
});

test('only old objects of our form that the current manifest does not name are candidates', () => {
  const key = (n: number) => `data/ticks/date=2026-06-01/part-00-${String(n).padStart(16, '0')}.parquet`;
  const objects = [
    createObject(key(1), 10),
    createObject(key(2), 10),
    createObject(key(3), 0.5),
    createObject('data/ticks/date=2026-06-01/part-00.parquet', 10),
    createObject('data/_delta_log/0.json', 10),
    createObject('data/ticks/_delta_log/00000000000000000000.json', 10),
    createObject('data/ticks/_delta_log/00000000000000000010.checkpoint.parquet', 10),
  ];
  const rules = { keepGenerations: 1, keepMs: dayMs };
  expect(listCandidates(objects, new Set([key(1)]), nowMs, rules)).toEqual([key(2)]);
  // A clock of the server that was set back removes nothing.
  expect(listCandidates(objects, new Set(), nowMs - 100 * dayMs, rules)).toEqual([]);
});

test('keeps the manifests that tables name, and reads those that are not held for their dataset', () => {
  const [one, two, three] = ['manifests/000001-0123456789ab.json', 'manifests/000002-0123456789ab.json', 'manifests/x'];
  const kept = { held: [two!, three!], expired: [one!, 'manifests/000000-0123456789ab.json'] };
  const toMarker = (dataset: string, manifest: string) => manifest.replace('manifests/', `tables/${dataset}/`);
  const tables = [toMarker('ticks', one!), toMarker('candles_1h', one!), toMarker('ticks', two!)];
  const foreign = [
    'tables/notes.json',
    'tables/ticks/',
    'tables/ticks/notes.json',
    `tables/a/b/000001-0123456789ab.json`,
  ];
  expect(keepForTables(kept, [...foreign, ...tables])).toEqual({
    expired: ['manifests/000000-0123456789ab.json'],
    markers: [
      { dataset: 'ticks', manifest: one },
      { dataset: 'candles_1h', manifest: one },
    ],
  });
  // A manifest that is gone cannot be read, and then nothing is removed.
  const lost = toMarker('ticks', 'manifests/000009-0123456789ab.json');
  expect(keepForTables(kept, [lost]).markers).toHaveLength(1);
  expect(keepForTables(kept, [])).toEqual({ expired: kept.expired, markers: [] });
});
