import { expect, test } from 'vitest';
import { type Misbehavior, simulateNights } from './rechecks.ts';

// SEED=… sets the first seed, SERVERS=… the number of servers per kind; figures use 40. A failure names its seed.
const firstSeed = Number(process.env.SEED ?? 1);
const servers = Number(process.env.SERVERS ?? 15);

/** Number of nights within which missing ticks have to be found, at four requests a night, and number of simulated nights. */
const foundWithin = 28;
const nightsMax = 40;

test.for<Misbehavior>(['sampling', 'coarse', 'joining', 'lagging replica', 'late ticks'])(
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
