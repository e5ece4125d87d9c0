/** Servers and worlds that got false claims once, or get them if one condition of the rule is taken out. */
import { habits, limit } from './server.ts';
import type { drawWorld } from './world.ts';

interface Needed {
  readonly condition: string;
  /** Names of habits, and to what they are limited. */
  readonly habits: readonly (readonly [string, Parameters<typeof limit>[1]?])[];
  readonly seed: number;
  readonly size?: Parameters<typeof drawWorld>[1];
}

const before = 'brings the tick before the request';

const all: readonly Needed[] = [
  {
    condition: 'ticks in more hours',
    habits: [['first 2 hour files with data']],
    seed: 1,
    size: { symbols: 12, nights: 3 },
  },
  { condition: 'ticks in more days', habits: [['first 2 day files with data']], seed: 23 },
  { condition: 'as long a span', habits: [['24 h from the first tick']], seed: 7 },
  { condition: 'kept rows', habits: [['keeps 400 rows a symbol']], seed: 1 },
  {
    condition: 'kept rows: what answers left out is not counted',
    habits: [['first 60 rows ± 50 %'], ['10 % empty'], ['keeps 400 rows a symbol']],
    seed: 3,
    size: { nights: 1 },
  },
  {
    condition: 'kept rows: what lies between two answers is not counted before it was shown',
    habits: [['keeps 400 rows a symbol'], ['first or last 100 rows, by turns']],
    seed: 2_013_163,
    size: { nights: 1 },
  },
  {
    condition: 'kept rows of a symbol that this night shows for the first time',
    habits: [
      ['a busy symbol empty in nights 1, 2', { source: 'A' }],
      ['keeps 400 rows a symbol', { source: 'A' }],
      ['last 40 rows, states its first and last tick'],
    ],
    seed: 6_031_065,
    size: { symbols: 25, nights: 3 },
  },
  {
    condition: 'kept rows: what lies in a stated gap is not counted',
    habits: [['first 100 rows, states gaps'], ['keeps 60 rows a symbol']],
    seed: 2,
    size: { nights: 1 },
  },
  { condition: 'ticks beside a request: files', habits: [[before], ['first 2 day files with data']], seed: 1 },
  { condition: 'ticks beside a request: span', habits: [[before], ['24 h from the first tick']], seed: 3 },
  {
    condition: 'ticks beside a request: rounded',
    habits: [['rounds to hours'], ['24 h from the first tick', { night: 1 }]],
    seed: 2409,
    size: { symbols: 25, nights: 5 },
  },
  {
    condition: 'ticks beside a request: ignored',
    habits: [['up to the first gap of 8 h'], ['first 100 rows, ignores from', { source: 'A' }]],
    seed: 20_483,
    size: { nights: 5 },
  },
  {
    condition: 'three habits, drawn once',
    habits: [
      ['last 40 rows, states its first and last tick'],
      ['first 7 h of the request'],
      ['back to the last absent hour of the request', { source: 'A' }],
    ],
    seed: 2_000_453,
    size: { nights: 5 },
  },
  {
    condition: 'an empty answer was searched from an end of its request',
    habits: [['first 100 rows, states gaps'], ['up to the first absent day of the request']],
    seed: 40_002_509,
    size: { nights: 5 },
  },
  {
    condition: 'the last millisecond of a request may be rounded',
    habits: [['last 100 rows, rounds to 3600 s'], ['15 % errors', { source: 'B' }]],
    seed: 40_003_651,
    size: { nights: 5 },
  },
  {
    condition: 'unusable elements',
    habits: [['back to the last absent day of the request'], ['last 40 rows, 5 % of them unusable']],
    seed: 4_003_731,
    size: { nights: 5 },
  },
  {
    condition: 'empty answers: in reach of their start',
    habits: [['has nothing from before 13 June, 15:00']],
    seed: 27,
    size: { symbols: 120, nights: 3, isQuiet: true },
  },
  {
    condition: 'empty answers: in reach of their end',
    habits: [['has nothing from 18 June, 9:00, on, until night 5']],
    seed: 6,
  },
  {
    condition: 'empty answers: as many days before a first tick, in reach of witnesses',
    habits: [
      ['has nothing from before 13 June, 15:00'],
      ['rounds to days outward'],
      ['up to the first absent day of the request'],
    ],
    seed: 705_391,
    size: { symbols: 40, nights: 5 },
  },
  {
    condition: 'empty answers: no known tick',
    habits: [['a busy symbol empty as long as it has a known tick']],
    seed: 1,
  },
];

export const needed = all.map(({ habits: names, ...one }) => ({
  ...one,
  set: names.map(([name, limits]) => {
    const habit = habits.find((known) => known.name === name)!;
    return limits === undefined ? habit : limit(habit, limits);
  }),
}));
