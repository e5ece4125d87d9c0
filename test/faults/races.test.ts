import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createRaceBase, placeIn } from './race-base.ts';
import { drawRace } from './races.ts';
import { drawFrom, search, searchMsMax } from './seeds.ts';

describe('processes started at once on one archive', () => {
  test('write it one at a time, and readers see exactly one generation', {
    timeout: searchMsMax,
  }, async () => {
    const base = await createRaceBase();
    const counts = new Map<string, number>();
    const done = await search({ name: 'races', least: 120, share: 0.13 }, async (seed) => {
      const draw = drawFrom(seed);
      const race = drawRace(draw);
      const folder = join(base.folder, `race ${seed}`);
      mkdirSync(folder);
      try {
        await race.run(base, placeIn(folder, base.input), draw);
      } catch (error) {
        throw new Error(`${race.name}: ${(error as Error).message}`, { cause: error });
      }
      rmSync(folder, { recursive: true });
      counts.set(race.name, (counts.get(race.name) ?? 0) + 1);
    });
    console.log(`races: ${[...counts].map(([name, n]) => `${n} ${name}`).join(', ')}`);
    expect([...counts.values()].reduce((sum, n) => sum + n, 0)).toBe(done);
  });
});
