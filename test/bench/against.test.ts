import { expect, test } from 'vitest';
import { formatCase, judge } from '../../bench/against.ts';

const run = (wallMs: number, cpuMs: number | null = 100) => ({ wallMs, cpuMs, peakMiB: null });

test('only a difference that all rounds show counts', () => {
  expect(judge({ median: 1.2, min: 1.05, max: 1.4 }, 5)).toBe('**slower**');
  expect(judge({ median: 0.8, min: 0.7, max: 0.95 }, 5)).toBe('faster');
  expect(judge({ median: 1.2, min: 0.9, max: 1.4 }, 5)).toBe('within the noise');
  expect(judge({ median: 1.01, min: 1.005, max: 1.02 }, 5)).toBe('within the noise');
  expect(judge({ median: 1.2, min: 1.05, max: 1.4 }, 4)).toBe('too few rounds');
});

test('a case has the medians of both sides and the ratios of its rounds', () => {
  const [there, here] = [
    [run(100), run(200), run(100), run(100), run(100)],
    [run(200), run(200), run(300), run(200), run(200)],
  ];
  expect(formatCase('pages', 'import', there, here)).toEqual([
    'pages',
    'import',
    '100 ms',
    '200 ms',
    '2.00 (1.00–3.00)',
    '1.00',
    'within the noise',
  ]);
  expect(formatCase('pages', 'import', [run(1, null)], [run(1, null)])[5]).toBe('–');
});
