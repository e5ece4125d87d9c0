import type { Measured } from './measure.ts';
import type { LoadResult } from './request-load.ts';
import type { Spread } from './statistics.ts';

/** The text of bench/RESULTS.md. Pure. */

export interface Goal {
  readonly text: string;
  met(value: number): boolean;
}

export const atLeast = (times: number): Goal => ({ text: `${times} ×`, met: (value) => value >= times });
export const atMost = (share: number): Goal => ({ text: `at most ${share}`, met: (value) => value <= share });

/** One figure of oddslake, compared with a peer or alone. */
export interface Comparison {
  readonly what: string;
  readonly input: string;
  /** As printed, with its unit. */
  readonly ours: string;
  /** Null without a peer. */
  readonly peer: { readonly name: string; readonly figure: string } | null;
  /** The ratio that the goal applies to, over the rounds; null for a figure without comparison. */
  readonly ratio: Spread | null;
  readonly goal: Goal;
  /** Whether the goal is met; null if it was not measured, see `missing`. */
  readonly value: number | null;
  readonly missing: string | null;
}

/** A measured process. */
export interface Timing {
  readonly what: string;
  readonly input: string;
  readonly name: string;
  readonly medians: Measured;
  readonly runs: number;
}

/** A server under load. */
export interface LoadTiming {
  readonly what: string;
  readonly server: string;
  readonly medians: LoadResult;
}

export interface Report {
  readonly comparisons: readonly Comparison[];
  readonly timings: readonly Timing[];
  readonly loads?: readonly LoadTiming[];
  /** What a reader must know to judge the figures; one paragraph each. */
  readonly notes?: readonly string[];
  /** Peers that are installed but gave no figure. */
  readonly failed: readonly string[];
}

export interface Circumstances {
  /** ISO date. */
  readonly date: string;
  readonly machine: string;
  readonly versions: readonly string[];
  readonly accounting: string;
  readonly seed: number;
  readonly runs: number;
  /** Reasons why the figures say little; empty for a full run. */
  readonly short: readonly string[];
}

const headText = `# Benchmark results

Written by \`make bench\`; each section is from the last run of its benchmark. oddslake and its peers run alternately, as whole
processes on the same input, with one warm-up round that is not counted. Figures are medians; a ratio is computed per round and
printed with its minimum and maximum in brackets.
`;

/** The sections of a results text, by benchmark. */
const parseSections = (text: string): Map<string, string> =>
  new Map(
    text
      .split(/^## /m)
      .slice(1)
      .map((part) => [part.slice(0, part.indexOf('\n')), `## ${part.trimEnd()}\n`]),
  );

/**
 * Replaces the section of one benchmark.
 * @param before the current text, '' if there is none
 * @param names all benchmarks in their order; sections of other names are dropped
 */
export function resultsText(
  before: string,
  names: readonly string[],
  name: string,
  circumstances: Circumstances,
  reports: readonly Report[],
): string {
  const parts = parseSections(before).set(name, formatSection(name, circumstances, reports));
  return [headText, ...names.flatMap((one) => parts.get(one) ?? [])].join('\n');
}

function formatSection(name: string, circumstances: Circumstances, reports: readonly Report[]): string {
  const { date, machine, versions, accounting, seed, runs, short } = circumstances;
  const comparisons = reports.flatMap((report) => report.comparisons);
  const timings = reports.flatMap((report) => report.timings);
  const loads = reports.flatMap((report) => report.loads ?? []);
  const notes = reports.flatMap((report) => report.notes ?? []);
  const tables = [
    table(['what', 'input', 'ours', 'peer', 'ratio', 'goal', ''], comparisons.map(comparisonCells)),
    ...(timings.length === 0
      ? []
      : [table(['what', 'input', 'process', 'wall', 'CPU', 'peak memory', 'runs'], timings.map(timingCells))]),
    ...(loads.length === 0 ? [] : [table(loadHead, loads.map(loadCells))]),
    ...notes,
  ];
  return `## ${name}

${date} on ${machine}; ${versions.join(', ')}; CPU time and memory by ${accounting}; seed ${seed}, ${runs} rounds.
${short.length === 0 ? '' : `\n**A short run: ${short.join('; ')}. Its figures say little.**\n`}
${tables.join('\n\n')}
`;
}

/** One comparison as a line for the terminal. */
export function comparisonLine(comparison: Comparison): string {
  const [what, input, ours, peer, ratio, goal, met] = comparisonCells(comparison);
  return `${what}, ${input}: ${ours}, ${peer}, ratio ${ratio}, goal ${goal}: ${met}`;
}

function comparisonCells({ what, input, ours, peer, ratio, goal, value, missing }: Comparison): string[] {
  const outcome = value === null ? `not measured: ${missing ?? 'unknown'}` : goal.met(value) ? 'met' : '**missed**';
  const beside = peer === null ? '–' : `${peer.name}${peer.figure === '' ? '' : `: ${peer.figure}`}`;
  return [what, input, ours, beside, ratio === null ? '–' : ratioText(ratio), goal.text, outcome];
}

function timingCells({ what, input, name, medians, runs }: Timing): string[] {
  const { wallMs, cpuMs, peakMiB } = medians;
  return [
    what,
    input,
    name,
    timeText(wallMs),
    cpuMs === null ? '–' : timeText(cpuMs),
    peakMiB === null ? '–' : `${peakMiB.toFixed(0)} MiB`,
    String(runs),
  ];
}

/** CPU time is per request; that of the client is spent on the same machine. */
const loadHead = ['load', 'server', 'requests/s', 'p50', 'p99', "server's CPU", "client's CPU", 'body'];

function loadCells({ what, server, medians }: LoadTiming): string[] {
  const { requestsPerSecond, p50Ms, p99Ms, cpuMsPerRequest, clientCpuMsPerRequest, bytes } = medians;
  return [
    what,
    server,
    countText(requestsPerSecond),
    `${p50Ms.toFixed(2)} ms`,
    `${p99Ms.toFixed(2)} ms`,
    Number.isNaN(cpuMsPerRequest) ? '–' : `${cpuMsPerRequest.toFixed(3)} ms`,
    `${clientCpuMsPerRequest.toFixed(3)} ms`,
    `${(bytes / 1000).toFixed(1)} kB`,
  ];
}

/** A whole number with separators. */
export const countText = (value: number): string => Math.round(value).toLocaleString('en-US');

/** Two decimals, or none if they are not significant. */
function ratioText({ median, min, max }: Spread): string {
  return min === max ? median.toFixed(2) : `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`;
}

export const timeText = (ms: number): string => (ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(2)} s`);

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return 'Nothing was measured.';
  const line = (cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** Text of other programs may contain it. */
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ');
