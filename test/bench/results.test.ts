import { describe, expect, test } from 'vitest';
import { atLeast, atMost, noGoal } from '../../bench/goals.ts';
import {
  type Comparison,
  comparisonLine,
  type Ran,
  type Report,
  resultsText,
  withoutVerdicts,
} from '../../bench/results.ts';

const circumstances = {
  date: '2026-11-22',
  machine: '2 × a processor',
  versions: ['oddslake 0.1.0', 'duckdb 2.0.0'],
  accounting: 'GNU time',
  seed: 1,
  runs: 5,
  seconds: 61,
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
const textOf = (reports: readonly Report[], of: Partial<Ran> = {}, before = '') =>
  resultsText(before, ['import', 'help'], { name: 'import', circumstances, reports, ...of });
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

  test('judge no figure without a goal', () => {
    expect(comparisonLine({ ...comparison, goal: noGoal })).toMatch(/goal –: –$/);
  });

  test('keep their figures where no goal is judged', () => {
    const [kept] = withoutVerdicts(report(comparison), 'small').comparisons;
    expect(comparisonLine(kept!)).toMatch(/ratio 3\.00 \(2\.50–3\.25\), goal 3 ×: not judged: small$/);
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
      resultsText(before, names, {
        name,
        circumstances: { ...circumstances, date },
        reports: [report({ ...comparison, ours, headline: true })],
      });
    const first = write('', 'help', '81 ms', '2026-11-01');
    const both = write(first, 'import', '5 M ticks/s', '2026-11-02');
    const replaced = write(both, 'import', '6 M ticks/s', '2026-11-03');
    expect(replaced.match(/^## .*$/gm)).toEqual(['## goals', '## import', '## help']);
    expect(replaced).toContain('81 ms');
    expect(replaced).toContain('2026-11-01');
    expect(replaced).toContain('6 M ticks/s');
    expect(replaced).not.toContain('5 M ticks/s');
    const goals = replaced.slice(0, replaced.indexOf('## import'));
    expect(goals.match(/^\| (import|help) .*$/gm)).toEqual([
      expect.stringMatching(/^\| import .* 6 M ticks\/s .* met \|$/),
      expect.stringMatching(/^\| help .* 81 ms .* met \|$/),
    ]);
    expect(write(replaced, 'import', '6 M ticks/s', '2026-11-03')).toBe(replaced);
  });

  test('drop the section of an unknown benchmark', () => {
    expect(textOf([], {}, '# Results\n\n## Processes\n\nold\n')).not.toContain('Processes');
  });

  test('mark a short run', () => {
    expect(textOf([])).not.toContain('short');
    expect(textOf([], { circumstances: { ...circumstances, short: ['2 runs instead of 5'] } })).toContain(
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
    const wallSpread = { median: 1234, min: 1000, max: 1500 };
    const spread = [{ ...timing, medians: { ...timings[0]!.medians, wallSpread } }];
    expect(textOf([{ comparisons: [], timings: spread, failed: [] }])).toContain('| 1.23 s (1.00–1.50) |');
  });
});
