import { globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import { alternate, type Contender, computeSpeedup, type Outcome, summarise } from './harness.ts';
import type { Measured } from './measure.ts';
import type { Peer, PeerName } from './peers.ts';
import { atLeast, atMost, type Comparison, type Report } from './results.ts';
import { spread } from './statistics.ts';

/** Compares `oddslake import` of saved pages with other programs that read the same pages: time, and bytes per tick. */

/** Minimum speed relative to each peer. */
const speedGoals: Readonly<Record<PeerName, number>> = { duckdb: 3, polars: 6, pandas: 15, dlt: 100 };
/** Maximum bytes per tick relative to the smallest peer. */
const bytesGoal = 0.9;

export interface PagesInput {
  readonly name: string;
  readonly folder: string;
  /** Rows of all pages. */
  readonly ticks: number;
}

export async function benchImport(bench: Bench, input: PagesInput, names: readonly PeerName[]): Promise<Report> {
  const missing = new Map<string, string>();
  const peers: Peer[] = [];
  for (const name of names) {
    const available = bench.peers.find(name);
    if ('missing' in available) {
      missing.set(name, available.missing);
      bench.tell(`${name} is skipped: ${available.missing}`);
    } else peers.push(available);
  }
  const ours = contender(bench, 'oddslake', (out) => [
    bench.launcher,
    'import',
    input.folder,
    '--format',
    'pages',
    '--output',
    out,
    '--quiet',
    '--set',
    'source.name=bench',
  ]);
  const theirs = peers.map((peer) => contender(bench, peer.name, (out) => peer.argv(input.folder, out)));
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
      ...names.map((name) => speed(input, name, runs, missing)),
      bytes(
        input,
        names.filter((name) => bytesPerTick.has(name) && runs.has(name)),
        bytesPerTick,
        missing,
      ),
    ],
    timings: outcomes.filter(isMeasured).map((outcome) => ({
      what: 'import',
      input: input.name,
      name: outcome.name,
      medians: summarise(outcome.runs),
      runs: outcome.runs.length,
    })),
  };
}

const isMeasured = (outcome: Outcome): outcome is Extract<Outcome, { runs: unknown }> => 'runs' in outcome;

function contender(
  { folder, env }: Bench,
  name: string,
  argv: (out: string) => readonly [string, ...string[]],
): Contender {
  const out = join(folder, `out-${name}`);
  return { name, out, command: { argv: argv(out), cwd: folder, env } };
}

function speed(
  input: PagesInput,
  name: PeerName,
  runs: ReadonlyMap<string, readonly Measured[]>,
  missing: ReadonlyMap<string, string>,
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
    goal: atLeast(speedGoals[name]),
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
    goal: atMost(bytesGoal),
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
