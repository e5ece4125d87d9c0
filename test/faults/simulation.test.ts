import { expect, test } from 'vitest';
import { search, searchMsMax } from './seeds.ts';
import { simulate } from './simulation/story.ts';

test(
  'thirty nights of faults lose no tick, publish none twice and claim nothing that is missing',
  async () => {
    const sums = { runs: 0, ticks: 0, strikes: {} as Record<string, number> };
    const tell = process.env.TELL ? (line: string) => console.log(line) : undefined;
    const seeds = await search({ name: 'simulation', least: 60, share: 'rest' }, async (seed) => {
      const { runs, ticks, strikes } = await simulate(seed, 30, tell);
      sums.runs += runs;
      sums.ticks += ticks;
      for (const [kind, count] of Object.entries(strikes)) sums.strikes[kind] = (sums.strikes[kind] ?? 0) + count;
    });
    console.log(`${seeds} simulations: ${JSON.stringify(sums)}`);
  },
  searchMsMax,
);

test('a seed always gives the same trace', async () => {
  for (const seed of [1]) {
    const first = await simulate(seed, 12);
    expect(await simulate(seed, 12)).toEqual(first);
  }
});
