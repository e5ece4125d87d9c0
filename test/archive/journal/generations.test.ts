import { expect, test } from 'vitest';
import type { Archive } from '../../../src/archive/archive.ts';
import { getMeta, manifestHashKey } from '../../../src/archive/journal/database.ts';
import { hasHadGeneration, recordGeneration } from '../../../src/archive/journal/generations.ts';
import { answer, append, day0, opened, publishNow } from '../scratch.ts';

const [a, b, c, d] = ['a', 'b', 'c', 'd'];
const nothing = { generation: 0, hash: undefined };

async function publishTick(archive: Archive, n: number): Promise<string> {
  append(archive, answer('A', [[day0 + n, n]]));
  await publishNow(archive);
  return getMeta(archive.state.db, manifestHashKey)!;
}

test('knows every generation that was published, and that another one was not', async () => {
  const archive = opened();
  const { db } = archive.state;
  expect(hasHadGeneration(db, 1, a)).toBe(null);
  const hashes = [await publishTick(archive, 1), await publishTick(archive, 2), await publishTick(archive, 3)];
  expect(new Set(hashes).size).toBe(3);
  for (const [i, hash] of hashes.entries()) expect(hasHadGeneration(db, i + 1, hash)).toBe(true);
  expect(hasHadGeneration(db, 2, a)).toBe(false);
});

test('says nothing about generations before a rebuild of the state, or before a commit that was not recorded', () => {
  const { db } = opened().state;
  recordGeneration(db, { generation: 4, hash: a }, { generation: 5, hash: b });
  expect([3, 4, 5].map((generation) => hasHadGeneration(db, generation, c))).toEqual([null, false, false]);
  expect(hasHadGeneration(db, 4, a)).toBe(true);
  // An older oddslake has committed generation 6.
  recordGeneration(db, { generation: 6, hash: c }, { generation: 7, hash: d });
  expect(hasHadGeneration(db, 5, b)).toBe(null);
  expect(hasHadGeneration(db, 6, c)).toBe(true);
});

test('keeps both generations of one number', () => {
  const { db } = opened().state;
  recordGeneration(db, nothing, { generation: 1, hash: a });
  recordGeneration(db, { generation: 1, hash: a }, { generation: 1, hash: b });
  expect([a, b].map((hash) => hasHadGeneration(db, 1, hash))).toEqual([true, true]);
});

test('remembers the last ten thousand', () => {
  const { db } = opened().state;
  recordGeneration(db, nothing, { generation: 1, hash: a });
  recordGeneration(db, { generation: 1, hash: a }, { generation: 10_001, hash: b });
  expect(hasHadGeneration(db, 1, a)).toBe(null);
  expect(hasHadGeneration(db, 10_001, b)).toBe(true);
});
