import { describe, expect, test } from 'vitest';
import { share } from '../../harness/share.ts';
import { describeClaim, runSeed } from './oracle.ts';
import { habits } from './server.ts';

// Worlds are drawn by seed: SEED=… sets the first one, SEEDS=… their number per habit. A failure names seed and habit.
const first = Number(process.env.SEED ?? 1);
const seeds = Number(process.env.SEEDS ?? Math.ceil(share));

describe('a server with a habit within the assumptions of PROOF.md', () => {
  test.for(habits.filter(({ isPromised }) => isPromised).map((habit) => [habit.name, habit] as const))(
    '%s: no tick is missing where the archive claims to be complete',
    async ([, habit]) => {
      const wrong: string[] = [];
      for (let seed = first; seed < first + seeds && wrong.length === 0; seed++)
        wrong.push(...(await runSeed(seed, [habit], {})).claims.slice(0, 3).map(describeClaim));
      expect(wrong).toEqual([]);
    },
  );
});

// A rule that proves nothing makes no false claim either.
test.for(['honest', 'first 60 rows ± 50 %', 'rounds to seconds', 'replica 6 h behind'])(
  '%s: nearly all days are proven after six nights, of brief markets too',
  async (name) => {
    const habit = habits.find((one) => one.name === name)!;
    for (const seed of [1, 2]) {
      const { proven, provisional, nights } = await runSeed(seed, [habit], { symbols: 100 });
      expect(proven.at(-1)).toBeGreaterThan(0.95);
      expect(provisional).toBeLessThan(0.02);
      const [requests, least] = [nights.at(-1)!.requests, nights.at(-1)!.requestsMin];
      expect(requests).toBeLessThan((habit.name.includes('rows') ? 4 : 3) * least);
    }
  },
);
