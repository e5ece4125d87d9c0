import { expect, test } from 'vitest';
import { limitMs } from '../harness/limits.ts';
import { playStory } from './story.ts';

// SEEDS=… is the number of seeds; node test/whole/search.ts does the same without vitest. node
// test/mutation/judge-breaks.ts breaks the rules and expects this test to fail.
const seeds = Number(process.env.SEEDS ?? 160);

test(
  'over many stories a green surface means a complete archive, and every state occurs',
  async () => {
    const states = new Set<string>();
    let missing = 0;
    for (let seed = 1; seed <= seeds; seed++) {
      const result = await playStory(seed);
      expect(result.breaches, `SEED=${seed}`).toEqual([]);
      for (const state of Object.keys(result.states)) states.add(state);
      missing += result.missing;
    }
    // A search without violations to detect proves nothing.
    expect([...states].sort()).toEqual(expect.arrayContaining(['complete', 'damaged', 'incomplete', 'provisional']));
    expect(missing).toBeGreaterThan(1000);
  },
  5 * limitMs,
);
