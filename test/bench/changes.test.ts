import { expect, test } from 'vitest';
import { findChanges } from '../../bench/changes.ts';
import { atLeast, atMost, type Goal } from '../../bench/goals.ts';
import type { Comparison } from '../../bench/results.ts';

const section = `## import

| what | input | ours | peer | ratio | goal |  |
| --- | --- | --- | --- | --- | --- | --- |
| speed | pages | 2.48 M | a\\|b: 1.50 M | 1.80 (1.60–2.00) | 3 × | **missed** |
| bytes | pages | 2.61 B | pandas, the smallest of 3: 2.97 B | 0.88 | at most 0.9 | met |
| alone | pages | 1 s | – | – | under 2 s | met |
`;
const row = (what: string, peer: string, goal: Goal, [median, min, max]: [number, number, number]): Comparison => ({
  what,
  input: 'pages',
  ours: '',
  peer: { name: peer, figure: '1' },
  ratio: { median, min, max },
  goal,
  value: median,
  missing: null,
});
const verdicts = (...rows: readonly Comparison[]) => findChanges(section, rows).map(({ verdict }) => verdict);

test('rounds that overlap are noise; the goal tells which side is better', () => {
  const speed = (...ratio: [number, number, number]) => row('speed', 'a|b', atLeast(3), ratio);
  expect(verdicts(speed(1.9, 1.7, 2.4), speed(3, 2.5, 3.5), speed(1, 0.9, 1.1))).toEqual([
    'within the noise',
    'better',
    'worse',
  ]);
  expect(verdicts(row('speed', 'a|b', atMost(3), [3, 2.5, 3.5]))).toEqual(['worse']);
});

test('a figure without rounds may differ by a hundredth, and the smallest peer may be another', () => {
  const bytes = (ratio: number) => row('bytes', 'duckdb, the smallest of 2', atMost(0.9), [ratio, ratio, ratio]);
  expect(verdicts(bytes(0.885), bytes(0.95), bytes(0.8))).toEqual(['within the noise', 'worse', 'better']);
});

test('a figure without an earlier ratio is not compared', () => {
  expect(verdicts(row('alone', '–', atMost(2), [1, 1, 1]), row('new', 'a', atMost(2), [1, 1, 1]))).toEqual([]);
});
