import { describe, expect, test } from 'vitest';
import { share } from '../../../harness/share.ts';
import { backfillOnce, continueOnce } from './checks.ts';

// Servers are drawn by seed: SEED=… sets the first one, SERVERS=100000 their number. A failure names its seed.
const firstSeed = Number(process.env.SEED ?? 1);
const servers = Number(process.env.SERVERS ?? Math.ceil(3000 * share));

describe('a server whose responses are contiguous runs, truncated in any way', () => {
  test(`never gets a proven window without its ticks, and loses nothing that can be fetched: ${servers} servers`, async () => {
    const wrong: string[] = [];
    for (let seed = firstSeed; seed < firstSeed + servers && wrong.length < 5; seed++) {
      wrong.push(...(await backfillOnce(seed, 'contiguous')).slice(0, 2));
    }
    expect(wrong).toEqual([]);
  });

  test('is judged by the replica that responded, if replicas lag', async () => {
    const wrong: string[] = [];
    for (let seed = firstSeed; seed < firstSeed + servers / 10 && wrong.length < 5; seed++) {
      wrong.push(...(await backfillOnce(seed, 'several replicas')).slice(0, 2));
    }
    expect(wrong).toEqual([]);
  });

  test('gets no false window from consecutive polls', async () => {
    const wrong: string[] = [];
    for (let seed = firstSeed; seed < firstSeed + servers / 3 && wrong.length < 5; seed++) {
      wrong.push(...(await continueOnce(seed, 'contiguous')).slice(0, 2));
    }
    expect(wrong).toEqual([]);
  });

  // Each of these once had a proven window with missing ticks.
  test.for([40_008_575, 40_030_349, 40_041_830, 40_056_267])('server %i, found by a longer search', async (seed) => {
    expect(await backfillOnce(seed, 'contiguous')).toEqual([]);
  });

  test.for([9_017_112, 30_074_475])('polled server %i, found by a longer search', async (seed) => {
    expect(await continueOnce(seed, 'contiguous')).toEqual([]);
  });
});
