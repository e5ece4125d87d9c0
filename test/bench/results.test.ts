import { describe, expect, test } from 'vitest';
import { atLeast, atMost, type Comparison, comparisonLine, type Report, resultsText } from '../../bench/results.ts';

const circumstances = {
  date: '2026-11-22',
  machine: '2 × a processor',
  versions: ['oddslake 0.1.0', 'duckdb 2.0.0'],
  accounting: 'GNU time',
  ...{ seed: 1, pages: [1000, 10_000], runs: 5, short: [], left: [] },
};
const comparison: Comparison = {
  what: 'import, speed',
  input: '1,000 generated pages',
  ours: '9.00 M ticks/s',
  peer: { name: 'duckdb', figure: '3.00 M ticks/s' },
  ratio: { median: 3, min: 2.5, max: 3.25 },
  ...{ goal: atLeast(3), value: 3, missing: null },
};
const report = (...comparisons: Comparison[]): Report => ({ comparisons, timings: [], failed: [] });

describe('a goal', () => {
  test('to be so many times as fast is met from there on', () => {
    expect([2.99, 3, 4].map(atLeast(3).met)).toEqual([false, true, true]);
  });

  test('to take a share at most is met up to there', () => {
    expect([0.91, 0.9, 0.5].map(atMost(0.9).met)).toEqual([false, true, true]);
  });
});

describe('the results', () => {
  test('show ours, the peer, the ratio with its reach, the goal and whether it is met', () => {
    expect(resultsText(circumstances, [report(comparison)])).toContain(
      '| import, speed | 1,000 generated pages | 9.00 M ticks/s | duckdb: 3.00 M ticks/s | 3.00 (2.50–3.25) | 3 × | met |',
    );
    expect(comparisonLine({ ...comparison, value: 2 })).toMatch(/goal 3 ×: \*\*missed\*\*$/);
  });

  test('name what was not measured, and why', () => {
    const missing = {
      peer: { name: 'polars', figure: '–' },
      ratio: null,
      value: null,
      missing: 'no module\nnamed | polars',
    };
    expect(resultsText(circumstances, [report({ ...comparison, ...missing })])).toContain(
      '| polars: – | – | 3 × | not measured: no module named \\| polars |',
    );
    expect(resultsText({ ...circumstances, left: ['help'] }, [])).toContain('- not run: help\n');
  });

  test('say of a short run that it was one, and of no other', () => {
    expect(resultsText(circumstances, [])).not.toContain('short');
    expect(resultsText({ ...circumstances, short: ['2 runs in place of 5'] }, [])).toContain(
      '**A short run: 2 runs in place of 5.',
    );
  });

  test('list every process with its time and memory, and a dash for what the machine does not tell', () => {
    const timing = { what: 'import', input: 'recording', name: 'oddslake', runs: 5 };
    const timings = [
      { ...timing, medians: { wallMs: 1234, cpuMs: 999, peakMiB: 200.4 } },
      { ...timing, medians: { wallMs: 80, cpuMs: null, peakMiB: null } },
    ];
    const text = resultsText(circumstances, [{ comparisons: [], timings, failed: [] }]);
    expect(text).toContain('| import | recording | oddslake | 1.23 s | 999 ms | 200 MiB | 5 |');
    expect(text).toContain('| import | recording | oddslake | 80 ms | – | – | 5 |');
  });
});
