import { expect, test } from 'vitest';
import { share } from '../harness/share.ts';
import { playStory } from './story.ts';

// SEED=… is the first seed, SEEDS=… their number; node test/whole/search.ts does the same without vitest. node
// test/mutation/judge-breaks.ts breaks the rules and expects this test to fail.
const first = Number(process.env.SEED ?? 1);
const seeds = Number(process.env.SEEDS ?? Math.ceil(15 * share));

test('no surface calls an archive with an absent tick complete, and all surfaces agree', async () => {
  for (let seed = first; seed < first + seeds; seed++) {
    const { breaches } = await playStory(seed);
    expect(breaches, `SEED=${seed}`).toEqual([]);
  }
});
