import type { Measured } from './measure.ts';
import type { Spread } from './statistics.ts';

/** What bench/RESULTS.md says. Pure. */

export interface Goal {
  readonly text: string;
  met(value: number): boolean;
}

export const atLeast = (times: number): Goal => ({ text: `${times} ×`, met: (value) => value >= times });
export const atMost = (share: number): Goal => ({ text: `${share} of it`, met: (value) => value <= share });

/** One of our figures, beside a peer's or alone. */
export interface Comparison {
  readonly what: string;
  readonly input: string;
  /** As it is shown, with its unit. */
  readonly ours: string;
  /** Null where there is no peer to it. */
  readonly peer: { readonly name: string; readonly figure: string } | null;
  /** As the goal counts it, over the rounds; null for a figure of its own. */
  readonly ratio: Spread | null;
  readonly goal: Goal;
  /** What the goal is about; null where it was not measured, for the reason in `missing`. */
  readonly value: number | null;
  readonly missing: string | null;
}

/** A process as it was measured. */
export interface Timing {
  readonly what: string;
  readonly input: string;
  readonly name: string;
  readonly medians: Measured;
  readonly runs: number;
}

export interface Report {
  readonly comparisons: readonly Comparison[];
  readonly timings: readonly Timing[];
  /** Programs that were there and gave no figure. */
  readonly failed: readonly string[];
}

export interface Circumstances {
  /** ISO date. */
  readonly date: string;
  readonly machine: string;
  readonly versions: readonly string[];
  readonly accounting: string;
  readonly seed: number;
  readonly pages: readonly number[];
  readonly runs: number;
  /** Why its figures say little; empty for a full run. */
  readonly short: readonly string[];
  /** Benchmarks that were not run. */
  readonly left: readonly string[];
}

export function resultsText(circumstances: Circumstances, reports: readonly Report[]): string {
  const { date, machine, versions, accounting, seed, pages, runs, short, left } = circumstances;
  const comparisons = reports.flatMap((report) => report.comparisons);
  const timings = reports.flatMap((report) => report.timings);
  return `# Results of the benchmarks

Written by \`make bench\`. Ours and the peers' figures are of the same minutes on the same input: whole processes in turn, one
round uncounted, then ${runs} of which the median counts; a ratio is taken round by round, its least and most in brackets.

${short.length === 0 ? '' : `**A short run: ${short.join('; ')}. Its figures say little.**\n\n`}- date: ${date}
- machine: ${machine}
- versions: ${versions.join('; ')}
- CPU time and memory: ${accounting}
- generated pages: ${pages.map((count) => count.toLocaleString('en-US')).join(' and ')} of 5,000 ticks, seed ${seed}
${left.length === 0 ? '' : `- not run: ${left.join(', ')}\n`}
${table(['what', 'input', 'ours', 'peer', 'ratio', 'goal', ''], comparisons.map(comparisonCells))}

## Processes

${table(['what', 'input', 'process', 'wall', 'CPU', 'peak memory', 'runs'], timings.map(timingCells))}
`;
}

/** One comparison on a line, for the terminal. */
export function comparisonLine(comparison: Comparison): string {
  const [what, input, ours, peer, ratio, goal, met] = comparisonCells(comparison);
  return `${what}, ${input}: ${ours}, ${peer}, ratio ${ratio}, goal ${goal}: ${met}`;
}

function comparisonCells({ what, input, ours, peer, ratio, goal, value, missing }: Comparison): string[] {
  const verdict = value === null ? `not measured: ${missing ?? 'unknown'}` : goal.met(value) ? 'met' : '**missed**';
  const beside = peer === null ? '–' : `${peer.name}${peer.figure === '' ? '' : `: ${peer.figure}`}`;
  return [what, input, ours, beside, ratio === null ? '–' : ratioText(ratio), goal.text, verdict];
}

function timingCells({ what, input, name, medians, runs }: Timing): string[] {
  const { wallMs, cpuMs, peakMiB } = medians;
  return [
    ...[what, input, name, timeText(wallMs), cpuMs === null ? '–' : timeText(cpuMs)],
    ...[peakMiB === null ? '–' : `${peakMiB.toFixed(0)} MiB`, String(runs)],
  ];
}

/** Two digits after the point, or none where they would say nothing. */
function ratioText({ median, min, max }: Spread): string {
  return min === max ? median.toFixed(2) : `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`;
}

export const timeText = (ms: number): string => (ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(2)} s`);

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return 'Nothing was measured.';
  const line = (cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** Other programs' words may be in there. */
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ');
