import { globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import { atLeast, atMost, type ImportGoals, importBytes, noGoal } from './goals.ts';
import {
  alternate,
  type Contender,
  computeSpeedup,
  createContender,
  isMeasured,
  processTimings,
  summarise,
} from './harness.ts';
import type { Measured } from './measure.ts';
import type { Peer, PeerName } from './peers.ts';
import { type Comparison, type Report, timeText } from './results.ts';
import { median, pairRatios, spread } from './statistics.ts';

/**
 * Compares `oddslake import` of saved pages with other programs that read the same pages: time, and bytes per tick. One of
 * them is the limit program.
 */

/** Peers that take minutes where others take seconds, and how many rounds they take part in. */
const runsMaxOf: Partial<Readonly<Record<PeerName, number>>> = { pandas: 1 };

export interface PagesInput {
  readonly name: string;
  readonly folder: string;
  /** Rows of all pages. */
  readonly ticks: number;
}

export async function benchImport(
  bench: Bench,
  input: PagesInput,
  names: readonly PeerName[],
  goals: ImportGoals = { speed: {} },
): Promise<Report> {
  const missing = new Map<string, string>();
  const peers: Peer[] = [];
  for (const name of names) {
    const available = bench.peers.find(name);
    if ('missing' in available) {
      missing.set(name, available.missing);
      bench.tell(`${name} is skipped: ${available.missing}`);
    } else peers.push(available);
  }
  const ours = contender(bench, 'oddslake', (out) => importArgv(bench.launcher, input.folder, out));
  const theirs = peers.map(({ name, argv }) => ({
    ...contender(bench, name, (out) => argv(input.folder, out)),
    runsMax: runsMaxOf[name] ?? bench.runs,
  }));
  const bytesPerTick = new Map<string, number>();

  /** All must contain the same ticks; otherwise their times measure different work. */
  const check = async (standing: readonly Contender[]): Promise<Map<string, string>> => {
    const differing = new Map<string, string>();
    if (!standing.includes(ours)) return differing;
    const rows = publishedTicks(ours.out!);
    for (const { name, out } of standing) {
      const difference = name === ours.name ? null : bench.peers.differ(ours.out!, out!);
      if (difference === null)
        bytesPerTick.set(name, parquetBytes(name === ours.name ? join(out!, 'ticks') : out!) / rows);
      else {
        bench.tell(`${name}: ${difference}`);
        differing.set(name, 'does not contain the same ticks');
      }
    }
    return differing;
  };

  const outcomes = await alternate([ours, ...theirs], { ...bench, check });
  const runs = new Map<string, readonly Measured[]>();
  for (const outcome of outcomes) {
    if ('runs' in outcome) runs.set(outcome.name, outcome.runs);
    else missing.set(outcome.name, `${outcome.name} ${outcome.failed}`);
  }
  return {
    failed: outcomes.filter((outcome) => !isMeasured(outcome)).map(({ name }) => name),
    comparisons: [
      ...names.map((name) => (name === 'limit' ? time : speed)(input, name, runs, missing, goals)),
      bytes(
        input,
        names.filter((name) => name !== 'limit' && bytesPerTick.has(name) && runs.has(name)),
        bytesPerTick,
        missing,
      ),
    ],
    timings: processTimings('import', input.name, outcomes),
  };
}

/** `oddslake import` of a folder of pages. */
export const importArgv = (launcher: string, pages: string, out: string): readonly [string, ...string[]] => [
  launcher,
  'import',
  pages,
  '--format',
  'pages',
  '--output',
  out,
  '--quiet',
  '--set',
  'source.name=bench',
];

function contender(bench: Bench, name: string, argv: (out: string) => readonly [string, ...string[]]): Contender {
  const out = join(bench.folder, `out-${name}`);
  return createContender(bench, name, argv(out), out);
}

function speed(
  input: PagesInput,
  name: PeerName,
  runs: ReadonlyMap<string, readonly Measured[]>,
  missing: ReadonlyMap<string, string>,
  goals: ImportGoals,
): Comparison {
  const [ours, theirs] = [runs.get('oddslake'), runs.get(name)];
  const ratio = ours !== undefined && theirs !== undefined ? computeSpeedup(ours, theirs) : null;
  const figure = (of: readonly Measured[] | undefined): string =>
    of === undefined ? '–' : `${(input.ticks / 1000 / summarise(of).wallMs).toPrecision(3)} M ticks/s`;
  return {
    what: 'import, speed',
    input: input.name,
    ours: figure(ours),
    peer: { name, figure: figure(theirs) },
    ratio,
    goal: goals.speed[name] === undefined ? noGoal : atLeast(goals.speed[name]),
    headline: goals.speed[name] !== undefined,
    value: ratio?.median ?? null,
    missing: missing.get('oddslake') ?? missing.get(name) ?? null,
  };
}

/** Our time relative to the limit program's. */
function time(
  input: PagesInput,
  name: PeerName,
  runs: ReadonlyMap<string, readonly Measured[]>,
  missing: ReadonlyMap<string, string>,
  { limitTimes }: ImportGoals,
): Comparison {
  const [ours, theirs] = [runs.get('oddslake'), runs.get(name)];
  const wall = (of: readonly Measured[]): number[] => of.map(({ wallMs }) => wallMs);
  const ratio = ours !== undefined && theirs !== undefined ? pairRatios(wall(ours), wall(theirs)) : null;
  const figure = (of: readonly Measured[] | undefined): string => (of === undefined ? '–' : timeText(median(wall(of))));
  return {
    what: 'import, time',
    input: input.name,
    ours: figure(ours),
    peer: { name: 'the limit program', figure: figure(theirs) },
    ratio,
    goal: limitTimes === undefined ? noGoal : atMost(limitTimes, `at most ${limitTimes} ×`),
    headline: true,
    value: ratio?.median ?? null,
    missing: missing.get('oddslake') ?? missing.get(name) ?? null,
  };
}

function bytes(
  input: PagesInput,
  peers: readonly PeerName[],
  perTick: ReadonlyMap<string, number>,
  missing: ReadonlyMap<string, string>,
): Comparison {
  const figure = (of: number | undefined): string => (of === undefined ? '–' : `${of.toFixed(2)} B`);
  const ours = perTick.get('oddslake');
  const smallest = peers.toSorted((a, b) => perTick.get(a)! - perTick.get(b)!).at(0);
  const theirs = smallest === undefined ? undefined : perTick.get(smallest);
  const ratio = ours !== undefined && theirs !== undefined ? spread([ours / theirs]) : null;
  return {
    what: 'import, bytes per tick',
    input: input.name,
    ours: figure(ours),
    peer: {
      name: smallest === undefined ? 'the smallest' : `${smallest}, the smallest of ${peers.length}`,
      figure: figure(theirs),
    },
    ratio,
    goal: importBytes,
    headline: peers.length > 1,
    value: ratio?.median ?? null,
    missing: missing.get('oddslake') ?? 'no peer to compare with',
  };
}

/** Rows of the manifest's tick part files, without duplicates. */
export function publishedTicks(archive: string): number {
  const manifest = JSON.parse(readFileSync(join(archive, 'manifest.json'), 'utf8')) as {
    datasets: { ticks: { files: { rows: number }[] } };
  };
  return manifest.datasets.ticks.files.reduce((sum, { rows }) => sum + rows, 0);
}

function parquetBytes(folder: string): number {
  return globSync('**/*.parquet', { cwd: folder }).reduce((sum, path) => sum + statSync(join(folder, path)).size, 0);
}
