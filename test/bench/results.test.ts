import { describe, expect, test } from 'vitest';
import { atLeast, atMost, type Comparison, comparisonLine, type Report, resultsText } from '../../bench/results.ts';

const circumstances = {
  date: '2026-11-22',
  machine: '2 × a processor',
  versions: ['oddslake 0.1.0', 'duckdb 2.0.0'],
  accounting: 'GNU time',
  seed: 1,
  runs: 5,
  short: [],
};
const comparison: Comparison = {
  what: 'import, speed',
  input: '1,000 generated pages',
  ours: '9.00 M ticks/s',
  peer: { name: 'duckdb', figure: '3.00 M ticks/s' },
  ratio: { median: 3, min: 2.5, max: 3.25 },
  goal: atLeast(3),
  value: 3,
  missing: null,
};
/** The text of one benchmark only. */
const textOf = (reports: readonly Report[], of: Parameters<typeof resultsText>[3] = circumstances, before = '') =>
  resultsText(before, ['import', 'help'], 'import', of, reports);
const report = (...comparisons: Comparison[]): Report => ({ comparisons, timings: [], failed: [] });

describe('a goal', () => {
  test('of a minimum speed is met from that speed on', () => {
    expect([2.99, 3, 4].map(atLeast(3).met)).toEqual([false, true, true]);
  });

  test('of a maximum share is met up to that share', () => {
    expect([0.91, 0.9, 0.5].map(atMost(0.9).met)).toEqual([false, true, true]);
  });
});

describe('the results', () => {
  test('show the figure, the peer, the ratio with its range, and the goal', () => {
    expect(textOf([report(comparison)])).toContain(
      '| import, speed | 1,000 generated pages | 9.00 M ticks/s | duckdb: 3.00 M ticks/s | 3.00 (2.50–3.25) | 3 × | met |',
    );
    expect(comparisonLine({ ...comparison, value: 2 })).toMatch(/goal 3 ×: \*\*missed\*\*$/);
  });

  test('show why a figure was not measured', () => {
    const missing = {
      peer: { name: 'polars', figure: '–' },
      ratio: null,
      value: null,
      missing: 'no module\nnamed | polars',
    };
    expect(textOf([report({ ...comparison, ...missing })])).toContain(
      '| polars: – | – | 3 × | not measured: no module named \\| polars |',
    );
  });

  test('replace the section of one benchmark and keep the others', () => {
    const names = ['import', 'help'];
    const write = (before: string, name: string, ours: string, date: string) =>
      resultsText(before, names, name, { ...circumstances, date }, [report({ ...comparison, ours })]);
    const first = write('', 'help', '81 ms', '2026-11-01');
    const both = write(first, 'import', '5 M ticks/s', '2026-11-02');
    const replaced = write(both, 'import', '6 M ticks/s', '2026-11-03');
    expect(replaced.match(/^## .*$/gm)).toEqual(['## import', '## help']);
    expect(replaced).toContain('81 ms');
    expect(replaced).toContain('2026-11-01');
    expect(replaced).toContain('6 M ticks/s');
    expect(replaced).not.toContain('5 M ticks/s');
    expect(write(replaced, 'import', '6 M ticks/s', '2026-11-03')).toBe(replaced);
  });

  test('drop the section of an unknown benchmark', () => {
    expect(textOf([], circumstances, '# Results\n\n## Processes\n\nold\n')).not.toContain('Processes');
  });

  test('mark a short run', () => {
    expect(textOf([])).not.toContain('short');
    expect(textOf([], { ...circumstances, short: ['2 runs instead of 5'] })).toContain(
      '**A short run: 2 runs instead of 5.',
    );
  });

  test('list every process with time and memory, and a dash for figures not measured', () => {
    const timing = { what: 'import', input: 'recording', name: 'oddslake', runs: 5 };
    const timings = [
      { ...timing, medians: { wallMs: 1234, cpuMs: 999, peakMiB: 200.4 } },
      { ...timing, medians: { wallMs: 80, cpuMs: null, peakMiB: null } },
    ];
    const text = textOf([{ comparisons: [], timings, failed: [] }]);
    expect(text).toContain('| import | recording | oddslake | 1.23 s | 999 ms | 200 MiB | 5 |');
    expect(text).toContain('| import | recording | oddslake | 80 ms | – | – | 5 |');
  });
});
