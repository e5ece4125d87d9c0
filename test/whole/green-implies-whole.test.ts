import { expect, test } from 'vitest';
import { share } from '../harness/share.ts';
import { playStory } from './story.ts';

// SEED=… begins at one, SEEDS=… plays so many; node test/whole/search.ts does the same without vitest. What breaks the
// judge and is seen by this: node test/mutation/judge-breaks.ts.
const first = Number(process.env.SEED ?? 1);
const seeds = Number(process.env.SEEDS ?? Math.ceil(15 * share));

test('where a tick is absent no surface calls the archive complete, and all of them agree', async () => {
  for (let seed = first; seed < first + seeds; seed++) {
    const { breaches } = await playStory(seed);
    expect(breaches, `SEED=${seed}`).toEqual([]);
  }
});
