import { expect, test } from 'vitest';
import { share } from '../../../harness/share.ts';
import { type Misbehavior, simulateNights } from './rechecks.ts';

// SEED=… sets the first seed, SERVERS=… the number of servers per kind of the longer test; figures use 40.
// measure-rechecks.ts counts the nights for more servers. A failure names its seed.
const firstSeed = Number(process.env.SEED ?? 1);
const seeds = Array.from({ length: Math.ceil(3 * share) }, (_, i) => firstSeed + i);

/** Number of nights within which claimed but missing ticks have to be found. */
const fewNights = 12;

test.for<Misbehavior>(['sampling', 'coarse', 'joining'])(
  'ticks omitted by a server are found within twelve nights: %s',
  async (kind) => {
    const wrong: string[] = [];
    for (const seed of seeds) {
      const { name, firstMissing, firstFound } = await simulateNights(seed, kind, fewNights, { isUntilFound: true });
      const isDue = firstMissing !== null && firstMissing < fewNights / 2;
      if (isDue && firstFound === null) wrong.push(`${name}: missing since night ${firstMissing}`);
    }
    expect(wrong).toEqual([]);
  },
);

test.for<Misbehavior>(['lagging replica', 'late ticks'])(
  'the polls themselves get what appears late, because they begin where the proof ends: %s',
  async (kind) => {
    for (const seed of seeds) {
      const { name, firstMissing } = await simulateNights(seed, kind, fewNights);
      expect(firstMissing, name).toBeNull();
    }
  },
);

test('four requests a night find nothing wrong with an honest server', async () => {
  for (const seed of seeds) {
    const { name, firstMissing, nights } = await simulateNights(seed, 'honest', 4);
    if (firstMissing !== null) continue;
    // The first night proves nothing yet that could be requested again.
    for (const night of nights.slice(1))
      expect(night, name).toMatchObject({ contradicted: 0, requests: 4, withdrawn: 0 });
  }
});

test('the same seed gives the same result', async () => {
  const once = await simulateNights(firstSeed + 1, 'joining', 5);
  expect(await simulateNights(firstSeed + 1, 'joining', 5)).toEqual(once);
});

const servers = Number(process.env.SERVERS ?? 6);

/** Number of nights within which missing ticks have to be found, at four requests a night, and number of simulated nights. */
const foundWithin = 28;
const nightsMax = 40;

test.for<Misbehavior>(['sampling', 'coarse', 'joining'])(
  'ticks omitted by a server are found within four weeks: %s',
  { timeout: 1_800_000 },
  async (kind) => {
    const never: string[] = [];
    for (let seed = firstSeed, due = 0; due < servers; seed++) {
      const { name, firstMissing, firstFound } = await simulateNights(seed, kind, nightsMax, {
        isUntilFound: true,
      });
      if (firstMissing === null) continue;
      due++;
      if (firstFound === null || firstFound - firstMissing > foundWithin) never.push(name);
    }
    expect(never).toEqual([]);
  },
);
