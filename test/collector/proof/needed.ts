/** Servers and worlds that get false claims if one condition of the rule is taken out, and in which the rule makes none. */
import type { drawWorld } from './world.ts';

interface Needed {
  readonly condition: string;
  /** Names of habits. */
  readonly habits: readonly string[];
  readonly seed: number;
  readonly size?: Parameters<typeof drawWorld>[1];
}

const before = 'brings the tick before the request';

export const needed: readonly Needed[] = [
  { condition: 'ticks in more hours', habits: ['first 2 hour files with data'], seed: 1 },
  { condition: 'ticks in more days', habits: ['first 2 day files with data'], seed: 23 },
  { condition: 'as long a span', habits: ['24 h from the first tick'], seed: 7 },
  { condition: 'kept rows', habits: ['keeps 400 rows a symbol'], seed: 1 },
  { condition: 'ticks beside a request: files', habits: [before, 'first 2 day files with data'], seed: 1 },
  { condition: 'ticks beside a request: span', habits: [before, '24 h from the first tick'], seed: 3 },
  {
    condition: 'empty answers: in reach of their start',
    habits: ['has nothing from before 13 June, 15:00'],
    seed: 27,
    size: { symbols: 120, nights: 3, isQuiet: true },
  },
  {
    condition: 'empty answers: in reach of their end',
    habits: ['has nothing from 18 June, 9:00, on, until night 5'],
    seed: 6,
  },
  { condition: 'empty answers: no known tick', habits: ['a busy symbol empty from 20 to 24 June'], seed: 1 },
];
