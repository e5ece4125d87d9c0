import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import { atMost, nightlyCpu } from './goals.ts';
import { summarise } from './harness.ts';
import { publishedTicks } from './import.ts';
import { type Measured, measure } from './measure.ts';
import { bareClient, nightly } from './nightly-command.ts';
import { writeRequestPaths } from './request-paths.ts';
import type { Comparison, Report } from './results.ts';
import { startSandbox } from './sandbox.ts';
import { median, pairRatios } from './statistics.ts';

/**
 * A first night over loopback HTTP with pages of 5,000 ticks and no rate limit. Measures the CPU time of the collector
 * process per tick, which should be less than that of the service. A second run of the same night, which fetches only
 * the market lists, measures the start-up.
 */

const options = { nowMs: Date.UTC(2026, 0, 20, 3), markets: 16 };
/** Ticks below which the goals are not judged: with fewer, the compiler dominates. */
const judgedTicks = 4e6;
const night = ['--date', '2026-01-19'];

interface Round {
  readonly ours: Measured;
  readonly again: Measured;
  readonly bare: Measured;
  /** CPU time of the service during the nightly run, ms; null if the machine cannot measure it. */
  readonly servedMs: number | null;
}

/** @param ticksPerDay of the busiest symbol; 50,000 are about 4 M ticks: 16 symbols of up to half a million each */
export async function benchNightly(bench: Bench, ticksPerDay: number): Promise<Report> {
  const sandbox = await startSandbox({ ...options, ticksPerDay, seed: bench.seed });
  const out = join(bench.folder, 'nightly');
  const pathsFile = join(bench.folder, 'requests.txt');
  const { accounting } = bench;

  async function round(): Promise<Round> {
    rmSync(out, { recursive: true, force: true });
    const before = sandbox.cpuMs();
    const ours = await measure(nightly(bench, sandbox, out, night), accounting);
    const after = sandbox.cpuMs();
    const again = await measure(nightly(bench, sandbox, out, night), accounting);
    await writeRequestPaths(out, pathsFile);
    const bare = await measure(bareClient(bench, sandbox, pathsFile), accounting);
    return { ours, again, bare, servedMs: before === null || after === null ? null : after - before };
  }

  try {
    await round();
    const ticks = publishedTicks(out);
    const rounds: Round[] = [];
    for (let n = 1; n <= bench.runs; n++) {
      rounds.push(await round());
      bench.tell(`round ${n} of ${bench.runs}: ${(rounds.at(-1)!.ours.wallMs / 1000).toFixed(2)} s`);
    }
    return reportOf(`${(ticks / 1e6).toFixed(1)} M ticks`, ticks, rounds);
  } finally {
    await sandbox.stop();
    rmSync(out, { recursive: true, force: true });
  }
}

function reportOf(input: string, ticks: number, rounds: readonly Round[]): Report {
  const perTickUs = (ms: readonly (number | null)[]): number | null =>
    ms.every((one) => one !== null) ? (1000 * median(ms)) / ticks : null;
  const figure = (us: number | null): string => (us === null ? '–' : `${us.toFixed(2)} µs`);
  const [ours, again] = [rounds.map((one) => one.ours.cpuMs), rounds.map((one) => one.again.cpuMs)];
  const served = rounds.map((one) => one.servedMs);
  const [cpu, servedCpu] = [perTickUs(ours), perTickUs(served)];
  const work = perTickUs(ours.map((ms, i) => (ms === null || again[i] === null ? null : ms - again[i]!)));
  const shares = cpu === null || servedCpu === null ? null : pairRatios(ours as number[], served as number[]);
  const isJudged = ticks >= judgedTicks;
  const missing = isJudged ? 'this machine cannot measure the time of processes' : 'judged only on 4 M ticks or more';
  const comparisons: Comparison[] = [
    {
      what: 'nightly over HTTP, CPU per tick',
      input,
      peer: null,
      ratio: null,
      value: isJudged ? work : null,
      missing,
      ours: `${figure(work)}, ${figure(cpu)} with start-up`,
      goal: nightlyCpu,
      headline: isJudged,
    },
    {
      what: 'nightly over HTTP, the busier side',
      input,
      ours: figure(cpu),
      peer: { name: 'the service', figure: figure(servedCpu) },
      ratio: shares,
      goal: atMost(1),
      value: isJudged ? (shares?.median ?? null) : null,
      missing,
    },
  ];
  const timing = (name: string, pick: (one: Round) => Measured) => ({
    what: 'nightly over HTTP',
    input,
    name,
    medians: summarise(rounds.map(pick)),
    runs: rounds.length,
  });
  return {
    comparisons,
    timings: [
      timing('oddslake', (one) => one.ours),
      timing('oddslake, the same night again', (one) => one.again),
      timing('bare client', (one) => one.bare),
    ],
    failed: [],
  };
}
