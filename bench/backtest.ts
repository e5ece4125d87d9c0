import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import { backtests, faster } from './goals.ts';
import { importArgv, type PagesInput } from './import.ts';
import { CommandFailed, measure } from './measure.ts';
import { type Comparison, mergeReports, type Report } from './results.ts';
import { median, pairRatios } from './statistics.ts';

/**
 * Built-in strategies over an archive, compared with the same strategies in vectorised Polars and pandas. All three
 * results must be equal.
 */

export const strategies = ['threshold', 'mean_reversion'] as const;
export type Strategy = (typeof strategies)[number];
export const backtestPeers = ['polars', 'pandas'] as const;
export type BacktestPeer = (typeof backtestPeers)[number];
const threads = 2;
/** Ticks below which the goals are not judged: with fewer, starting threads dominates the time. */
const judgedTicksMin = 40e6;

/** The output of a program: milliseconds from the files to the result, and the result. */
export interface Played {
  readonly ms: number;
  readonly ticks: number;
  readonly trades: number;
  readonly pnl: number;
}

type Runs = ReadonlyMap<string, readonly Played[]>;

/** @param peersOf the strategies to run, each with the peers to compare with */
export async function benchBacktest(
  bench: Bench,
  input: PagesInput,
  peersOf: ReadonlyMap<Strategy, readonly BacktestPeer[]>,
): Promise<Report> {
  const archive = join(bench.folder, 'played');
  try {
    const { launcher, folder, env, accounting } = bench;
    await measure({ argv: importArgv(launcher, input.folder, archive), cwd: folder, env }, accounting);
    const reports = [...peersOf].map(([name, peers]) => {
      const { runs, failed } = runAlternately(bench, archive, name, peers);
      return {
        comparisons: compare(name, peers, input.name, runs, input.ticks >= judgedTicksMin),
        timings: [],
        failed,
      };
    });
    return mergeReports(reports);
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    bench.tell(`${error.message}: ${error.output}`);
    return {
      comparisons: [...peersOf].flatMap(([name, peers]) => compare(name, peers, input.name, new Map(), false)),
      timings: [],
      failed: ['import'],
    };
  } finally {
    rmSync(archive, { recursive: true, force: true });
  }
}

/**
 * Runs oddslake and the peers alternately; the first round is not counted. A program that fails or disagrees is
 * excluded.
 */
function runAlternately(
  bench: Bench,
  archive: string,
  name: Strategy,
  peers: readonly BacktestPeer[],
): { runs: Runs; failed: string[] } {
  const runs = new Map<string, Played[]>();
  const failed: string[] = [];
  const programs: [string, () => Played | string][] = [
    ['oddslake', () => runOddslake(bench, archive, name)],
    ...peers
      .filter((peer) => !('missing' in bench.peers.find(peer)))
      .map((peer): [string, () => Played | string] => [peer, () => runPeer(bench, peer, archive, name)]),
  ];
  for (const [program] of programs) runs.set(program, []);
  for (let round = 0; round <= bench.runs; round++) {
    for (const [program, play] of programs) {
      const results = runs.get(program);
      if (results === undefined) continue;
      const played = play();
      const failure = typeof played === 'string' ? played : compareResults(runs.get('oddslake')?.[0], played);
      if (typeof played === 'string' || failure !== null) {
        bench.tell(`${program} on ${name}: ${failure}`);
        failed.push(program);
        runs.delete(program);
        continue;
      }
      if (round > 0 || results.length === 0) results.push(played);
      if (round > 0)
        bench.tell(`round ${round} of ${bench.runs}, ${name} by ${program}: ${(played.ms / 1000).toFixed(3)} s`);
    }
  }
  // The warm-up rounds.
  return { runs: new Map([...runs].map(([program, played]) => [program, played.slice(1)])), failed };
}

function runOddslake({ env, folder }: Bench, archive: string, name: string): Played | string {
  const script = join(import.meta.dirname, 'backtest-once.ts');
  // The same Node flags as bin/oddslake.
  const flags = ['--disable-warning=ExperimentalWarning', '--max-semi-space-size=4', '--initial-old-space-size=128'];
  const { status, stdout, stderr } = spawnSync(process.execPath, [...flags, script, archive, name, String(threads)], {
    encoding: 'utf8',
    env: { ...env, NODE_COMPILE_CACHE: join(folder, 'compiled') },
  });
  return status === 0 ? (JSON.parse(stdout) as Played) : `exited with ${status}: ${stderr.trim().slice(-1000)}`;
}

function runPeer(bench: Bench, peer: string, archive: string, name: string): Played | string {
  const output = bench.peers.run(`backtest_${peer}.py`, [archive, name]);
  return 'failed' in output ? output.failed : (JSON.parse(output.printed) as Played);
}

/** How the results of two programs differ; null if they are equal or there is only one. */
export function compareResults(ours: Played | undefined, theirs: Played): string | null {
  if (ours === undefined) return null;
  if (theirs.ticks !== ours.ticks) return `${theirs.ticks} ticks instead of ${ours.ticks}`;
  if (theirs.trades !== ours.trades) return `${theirs.trades} trades instead of ${ours.trades}`;
  const off = Math.abs(theirs.pnl - ours.pnl);
  return off <= 1e-6 * (1 + Math.abs(ours.pnl)) ? null : `a P&L of ${theirs.pnl} instead of ${ours.pnl}`;
}

/**
 * oddslake's own figures and the comparison with each peer. Pure.
 * @param judged whether the goals apply to this input
 */
export function compare(
  name: Strategy,
  peers: readonly BacktestPeer[],
  input: string,
  runs: Runs,
  judged: boolean,
): Comparison[] {
  const label = `backtest of ${name}`;
  const ours = runs.get('oddslake') ?? [];
  const speed = (of: readonly Played[]): number => median(of.map(({ ticks, ms }) => ticks / 1000 / ms));
  const figure = (of: readonly Played[]): string => (of.length === 0 ? '–' : `${speed(of).toFixed(1)} M ticks/s`);
  const outcome = (value: number): Pick<Comparison, 'value' | 'missing'> =>
    judged ? { value, missing: null } : { value: null, missing: 'judged only on 40 M ticks or more' };
  const alone: Comparison = {
    what: label,
    input,
    ours: figure(ours),
    peer: null,
    ratio: null,
    goal: backtests[name],
    headline: judged,
    ...(ours.length === 0 ? { value: null, missing: 'oddslake failed' } : outcome(speed(ours))),
  };
  const comparisons = peers.map((peer): Comparison => {
    const theirs = runs.get(peer) ?? [];
    const both = { what: label, input, ours: figure(ours), peer: { name: peer, figure: figure(theirs) }, goal: faster };
    if (ours.length === 0 || theirs.length !== ours.length)
      return { ...both, ratio: null, value: null, missing: `no result from ${peer}` };
    const msOf = (of: readonly Played[]): number[] => of.map(({ ms }) => ms);
    const ratio = pairRatios(msOf(theirs), msOf(ours));
    return { ...both, ratio, ...outcome(ratio.median) };
  });
  return [alone, ...comparisons];
}
