import { describe, expect, test } from 'vitest';
import { share } from '../../harness/share.ts';
import { needed } from './needed.ts';
import { listErrors, runSeed } from './oracle.ts';
import { arePromised, drawServer, habits } from './server.ts';

// Worlds are drawn by seed: SEED=… sets the first one, SEEDS=… their number per habit. A failure names seed and habit.
const first = Number(process.env.SEED ?? 1);
const seeds = Number(process.env.SEEDS ?? Math.ceil(share));

const promised = habits.filter(({ isPromised }) => isPromised);

describe('a server with a habit within the assumptions of PROOF.md', () => {
  test.for(promised.map((habit, nth) => [habit.name, habit, nth] as const))(
    '%s: no tick is missing where the archive claims to be complete, and nothing is forgotten',
    async ([, habit, nth]) => {
      const wrong: string[] = [];
      // Each habit begins with another world.
      const begin = first + nth * seeds;
      for (let seed = begin; seed < begin + seeds && wrong.length === 0; seed++)
        for (const error of listErrors(await runSeed(seed, [habit], {})).slice(0, 3))
          wrong.push(`seed ${seed}: ${error}`);
      expect(wrong).toEqual([]);
    },
  );
});

describe('a server and a world that need a condition of the rule', () => {
  test.for(needed.map((one) => [one.condition, one] as const))(
    '%s: no false claim',
    async ([, { set, seed, size }]) => {
      expect(arePromised(set)).toBe(true);
      expect(listErrors(await runSeed(seed, set, size ?? {})).slice(0, 3)).toEqual([]);
    },
  );
});

test('drawn servers with one to three habits, for one source or from a night on: no false claim, and nothing is forgotten', async () => {
  const wrong: string[] = [];
  for (let seed = 1000 * first; seed < 1000 * first + 100 * share; seed++) {
    const { set, size } = drawServer(seed);
    if (!arePromised(set)) continue;
    for (const error of listErrors(await runSeed(seed, set, size)).slice(0, 3)) wrong.push(`seed ${seed}: ${error}`);
  }
  expect(wrong).toEqual([]);
});

test.for([
  ['every second tick', 8],
  ['the first and the last 20 rows', 4],
  ["live 2 h, a day's partition 36 h after it", 8],
] as const)(
  '%s: a night shows for each source that known ticks are left out, and then nothing recent is proven',
  async ([name, last]) => {
    const habit = habits.find((one) => one.name === name)!;
    // Where most markets are brief, a run may request no second time what it knows; the rechecks do.
    for (const seed of [1, 3, 5]) {
      const { nights, proven } = await runSeed(seed, [habit], { nights: last });
      const found = nights.findIndex(({ omissions }) => omissions.length === 2);
      expect(found).toBeGreaterThan(0);
      expect(proven[found - 1]).toBeGreaterThan(0.3);
      expect(proven[found]).toBeLessThan(0.05);
    }
  },
);

// A rule that proves nothing makes no false claim either.
test.for(['honest', 'first 60 rows ± 50 %', 'rounds to seconds', 'replica 6 h behind'])(
  '%s: nearly all days are proven after six nights, of brief markets too',
  async (name) => {
    const habit = habits.find((one) => one.name === name)!;
    for (const seed of [1, 2]) {
      const { proven, provisional, nights } = await runSeed(seed, [habit], { symbols: 100 });
      expect(proven.at(-1)).toBeGreaterThan(0.95);
      expect(provisional).toBeLessThan(0.03);
      const [requests, least] = [nights.at(-1)!.requests, nights.at(-1)!.requestsMin];
      expect(requests).toBeLessThan((habit.name.includes('rows') ? 4 : 3) * least);
    }
  },
);
