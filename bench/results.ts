import { type Goal, isJudged } from './goals.ts';
import type { Measured } from './measure.ts';
import type { LoadResult } from './request-load.ts';
import type { Spread } from './statistics.ts';

/** The text of bench/RESULTS.md. Pure. */

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
  /** Whether the table of goals at the top of the results lists it. */
  readonly headline?: boolean;
  /** Whether the goal is met; null if it was not measured, see `missing`. */
  readonly value: number | null;
  readonly missing: string | null;
}

/** A measured process. */
export interface Timing {
  readonly what: string;
  readonly input: string;
  readonly name: string;
  readonly medians: Measured & { readonly wallSpread?: Spread };
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

interface Circumstances {
  /** ISO date. */
  readonly date: string;
  readonly machine: string;
  readonly versions: readonly string[];
  readonly accounting: string;
  readonly seed: number;
  readonly runs: number;
  /** Duration of the benchmark, with the preparation of its input. */
  readonly seconds: number;
  /** Reasons why the figures say little; empty for a full run. */
  readonly short: readonly string[];
}

const headText = `# Benchmark results

Written by \`make bench\`; each section is from the last run of its benchmark. oddslake and its peers run alternately, as whole
processes on the same input, with one warm-up round that is not counted. Figures are medians; a ratio is computed per round and
printed with its minimum and maximum in brackets, as are the wall times of the rounds: a difference smaller than that is noise.
The limit program (bench/limit) does the least work that gives the same ticks, see bench/README.md.
`;

const goalsName = 'goals';
const goalsHead = ['benchmark', 'what', 'input', 'ours', 'peer', 'ratio', 'goal', ''];

/** The sections of a results text, by benchmark. */
const parseSections = (text: string): Map<string, string> =>
  new Map(
    text
      .split(/^## /m)
      .slice(1)
      .map((part) => [part.slice(0, part.indexOf('\n')), `## ${part.trimEnd()}\n`]),
  );

/** What a run of one benchmark gave. */
export interface Ran {
  readonly name: string;
  readonly circumstances: Circumstances;
  readonly reports: readonly Report[];
}

/**
 * Replaces the section of one benchmark, and its rows in the table of goals.
 * @param before the current text, '' if there is none
 * @param names all benchmarks in their order; sections of other names are dropped
 */
export function resultsText(before: string, names: readonly string[], ran: Ran): string {
  const parts = parseSections(before);
  const goals = formatGoals(parts.get(goalsName) ?? '', names, ran);
  parts.set(ran.name, formatSection(ran));
  return [headText, goals, ...names.flatMap((one) => parts.get(one) ?? [])].join('\n');
}

/** The headlines of all benchmarks; those of the others are kept as they are. */
function formatGoals(before: string, names: readonly string[], { name, reports }: Ran): string {
  const rows = before.split('\n').map(splitRow);
  const own = reports.flatMap(({ comparisons }) => comparisons).filter(({ headline }) => headline === true);
  const rowsOf = (one: string): string[][] =>
    one === name ? own.map((each) => [name, ...comparisonCells(each)]) : rows.filter(([first]) => first === one);
  return `## ${goalsName}\n\n${table(goalsHead, names.flatMap(rowsOf))}\n`;
}

/** Cells of a row of a Markdown table; empty for any other line. */
const splitRow = (line: string): string[] =>
  line.startsWith('| ')
    ? line
        .slice(2, -2)
        .split(/(?<!\\) \| /)
        .map((cell) => cell.replaceAll('\\|', '|').trim())
    : [];

function formatSection({ name, circumstances, reports }: Ran): string {
  const { date, machine, versions, accounting, seed, runs, seconds, short } = circumstances;
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

${date} on ${machine}; ${versions.join(', ')}; CPU time and memory by ${accounting}; seed ${seed}, at most ${runs} rounds, ${seconds.toFixed(0)} s.
${short.length === 0 ? '' : `\n**A short run: ${short.join('; ')}. Its figures say little.**\n`}
${tables.join('\n\n')}
`;
}

export const mergeReports = (reports: readonly Report[]): Report => ({
  comparisons: reports.flatMap(({ comparisons }) => comparisons),
  timings: reports.flatMap(({ timings }) => timings),
  failed: reports.flatMap(({ failed }) => failed),
});

/** The figures of a report, with the reason why its goals are not judged. */
export const withoutVerdicts = (report: Report, missing: string): Report => ({
  ...report,
  comparisons: report.comparisons.map((one) => ({
    ...one,
    value: null,
    missing: one.value === null ? one.missing : missing,
  })),
});

/** One comparison as a line for the terminal. */
export function comparisonLine(comparison: Comparison): string {
  const [what, input, ours, peer, ratio, goal, met] = comparisonCells(comparison);
  return `${what}, ${input}: ${ours}, ${peer}, ratio ${ratio}, goal ${goal}: ${met}`;
}

function comparisonCells({ what, input, ours, peer, ratio, goal, value, missing }: Comparison): string[] {
  const judged = (): string => (!isJudged(goal) ? '–' : goal.met(value!) ? 'met' : '**missed**');
  const isFigure = ratio !== null || (peer === null && ours !== '–');
  const why = `${isFigure ? 'not judged' : 'not measured'}: ${missing ?? 'unknown'}`;
  const outcome = value === null ? why : judged();
  const beside = peer === null ? '–' : `${peer.name}${peer.figure === '' ? '' : `: ${peer.figure}`}`;
  return [what, input, ours, beside, ratio === null ? '–' : ratioText(ratio), goal.text, outcome];
}

function timingCells({ what, input, name, medians, runs }: Timing): string[] {
  const { wallMs, cpuMs, peakMiB, wallSpread } = medians;
  return [
    what,
    input,
    name,
    wallSpread === undefined || runs === 1 ? timeText(wallMs) : spreadText(wallSpread),
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

/** Two decimals, with the least and the greatest if they differ. */
export function ratioText({ median, min, max }: Spread): string {
  return min === max ? median.toFixed(2) : `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`;
}

/** `1.20 s (1.10–1.35)`, in the unit of the median. */
function spreadText({ median, min, max }: Spread): string {
  const inUnit = (ms: number): string => (median < 1000 ? ms.toFixed(0) : (ms / 1000).toFixed(2));
  return `${timeText(median)} (${inUnit(min)}–${inUnit(max)})`;
}

export const timeText = (ms: number): string => (ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(2)} s`);

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return 'Nothing was measured.';
  const line = (cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** Text of other programs may contain it. */
const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll(/\s+/g, ' ');
