import { expect, test } from 'vitest';
import { limitMs } from '../harness/limits.ts';
import { playStory } from './story.ts';

const seeds = Number(process.env.SEEDS ?? 200);

test(
  'over two hundred stories a surface that is green has a whole archive behind it, and every state is met',
  async () => {
    const states = new Set<string>();
    let missing = 0;
    for (let seed = 1; seed <= seeds; seed++) {
      const told = await playStory(seed);
      expect(told.breaches, `SEED=${seed}`).toEqual([]);
      for (const state of Object.keys(told.states)) states.add(state);
      missing += told.missing;
    }
    // A search that meets nothing shows nothing.
    expect([...states].sort()).toEqual(expect.arrayContaining(['complete', 'damaged', 'incomplete', 'provisional']));
    expect(missing).toBeGreaterThan(1000);
  },
  5 * limitMs,
);
