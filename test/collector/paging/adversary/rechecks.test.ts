import { expect, test } from 'vitest';
import { share } from '../../../harness/share.ts';
import { type Misbehavior, simulateNights } from './rechecks.ts';

// SEED=… begins at one; measure-rechecks.ts counts the nights of more servers. A failure names its seed.
const firstSeed = Number(process.env.SEED ?? 1);
const seeds = Array.from({ length: Math.ceil(6 * share) }, (_, i) => firstSeed + i);

/** Nights within which what was claimed and is missing has to be found. */
const nightsMax = 12;

test.for<Misbehavior>(['sampling', 'coarse', 'joining', 'lagging replica', 'late ticks'])(
  'what a server leaves out is found within twelve nights: %s',
  async (kind) => {
    const wrong: string[] = [];
    for (const seed of seeds) {
      const { name, firstMissing, firstFound } = await simulateNights(seed, kind, nightsMax);
      const isDue = firstMissing !== null && firstMissing < nightsMax / 2;
      if (isDue && firstFound === null) wrong.push(`${name}: missing since night ${firstMissing}`);
    }
    expect(wrong).toEqual([]);
  },
);

test('nothing is found of a server that leaves nothing out, at four requests a night', async () => {
  for (const seed of seeds) {
    const { name, firstMissing, nights } = await simulateNights(seed, 'honest', 4);
    if (firstMissing !== null) continue;
    for (const night of nights) expect(night, name).toMatchObject({ contradicted: 0, requests: 4, withdrawn: 0 });
  }
});

test('the same seed finds the same', async () => {
  const once = await simulateNights(firstSeed + 1, 'joining', 5);
  expect(await simulateNights(firstSeed + 1, 'joining', 5)).toEqual(once);
});
