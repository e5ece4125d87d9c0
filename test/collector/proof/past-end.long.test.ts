import { expect, test } from 'vitest';
import { Archive } from './nights.ts';
import { findFalse } from './oracle.ts';
import { habits, openService } from './server.ts';
import { day, drawWorld, hour, midnightOf } from './world.ts';

/** Runs jobs one after the other, up to midnights so many days ago or now (0). Returns the symbols with a claim that lacks a tick. */
async function findFalseSymbols(
  name: string,
  seed: number,
  endsBefore: readonly number[],
  everyMs = 300_000,
): Promise<string[]> {
  const world = drawWorld(seed, { symbols: 100, nights: 2 });
  const hand = { now: 0 };
  const service = openService(world, [habits.find((one) => one.name === name)!], hand);
  const archive = new Archive();
  for (const [i, before] of endsBefore.entries()) {
    hand.now = midnightOf(world.nights[0]!) + 15 * hour + i * everyMs;
    await archive.runNight(world, service, hand, before === 0 ? hand.now : midnightOf(hand.now) - (before - 1) * day);
  }
  return [...archive.held.values()]
    .filter((held) => findFalse(held, service).length > 0)
    .map(({ listed }) => listed.name);
}

const names = ['honest', 'keeps 60 rows a symbol', 'keeps 400 rows a symbol', 'keeps 4 days'];

test.for(names)('%s: a nightly after one of yesterday takes the ticks of today for no growth', async (name) => {
  for (const seed of [1, 2, 3]) expect(await findFalseSymbols(name, seed, [1, 0])).toEqual([]);
});

test.for(names)(
  '%s: a first poll up to the end of a past day does not see how many rows a symbol has',
  async (name) => {
    for (const seed of [1, 2, 3, 5, 6]) expect(await findFalseSymbols(name, seed, [3])).toEqual([]);
  },
);

test.for(names)('%s: three nights up to a past midnight do not see the rows of today', async (name) => {
  for (const seed of [1, 2, 3]) expect(await findFalseSymbols(name, seed, [2, 2, 2, 2], day)).toEqual([]);
});
