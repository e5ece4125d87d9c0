import { expect, test } from 'vitest';
import { Archive } from './nights.ts';
import { findFalse } from './oracle.ts';
import { habits, openService } from './server.ts';
import { day, drawWorld, hour, midnightOf } from './world.ts';

/** Runs jobs at one moment and five minutes later, and returns the symbols with a claim that lacks a tick. */
async function findFalseSymbols(name: string, seed: number, endsBefore: readonly number[]): Promise<string[]> {
  const world = drawWorld(seed, { symbols: 100, nights: 2 });
  const hand = { now: 0 };
  const service = openService(world, [habits.find((one) => one.name === name)!], hand);
  const archive = new Archive();
  for (const [i, before] of endsBefore.entries()) {
    hand.now = midnightOf(world.nights[0]!) + 15 * hour + i * 300_000;
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
