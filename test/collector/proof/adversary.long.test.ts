import { describe, expect, test } from 'vitest';
import { share } from '../../harness/share.ts';
import { listErrors, runSeed } from './oracle.ts';
import { habits } from './server.ts';

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
