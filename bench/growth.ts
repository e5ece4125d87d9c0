import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { formatIsoUtc } from '../src/base/time.ts';
import { dayMs, intersectTwo, isEmpty } from '../src/base/window.ts';
import type { SandboxTickPage } from '../src/sandbox/page-formats.ts';
import { sandboxDefaults } from '../src/sandbox/sandbox-options.ts';
import { createSimulatedFeed } from '../src/sandbox/simulated-feed.ts';
import type { Bench } from './bench.ts';
import { growth } from './goals.ts';
import { summarise } from './harness.ts';
import { type Measured, measure } from './measure.ts';
import { nightly } from './nightly-command.ts';
import { writePages } from './pages.ts';
import { type Comparison, type Report, timeText } from './results.ts';
import { startSandbox } from './sandbox.ts';
import { pairRatios } from './statistics.ts';

/**
 * Runs the same night on archives of 10 to 1,000 days. About 30 symbols are live at a time, each for 4 to 45
 * days, with 3,000 ticks a day in total. The archives are imported from pages that the service would have sent; each
 * round then polls one more day of all symbols.
 */

const lastDay = Date.UTC(2026, 0, 10);
const feedOptions = { markets: 20, ticksPerDay: 100, epochMs: lastDay - 1000 * dayMs };
const pageTicks = 5000;
/** The goal is that of an archive this long. */
const judgedDays = 1000;

/** @param daysOf lengths of the archives, ascending, at most 1,000 */
export async function benchGrowth(bench: Bench, daysOf: readonly number[]): Promise<Report> {
  const archiveOf = (days: number): string => join(bench.folder, `days-${days}`);
  const { accounting } = bench;
  for (const days of daysOf) await importDays(bench, archiveOf(days), days);
  const now = lastDay + (bench.runs + 2) * dayMs;
  const sandbox = await startSandbox({
    nowMs: now,
    seed: bench.seed,
    ...feedOptions,
  });
  const runs = new Map<number, Measured[]>(daysOf.map((days) => [days, []]));
  try {
    // The first night fetches a week that is already there; it is not counted.
    for (let n = 0; n <= bench.runs; n++) {
      const date = formatIsoUtc(lastDay + n * dayMs).slice(0, 10);
      for (const days of daysOf) {
        const run = await measure(nightly(bench, sandbox, archiveOf(days), ['--date', date]), accounting);
        if (n > 0) runs.get(days)!.push(run);
      }
      const times = daysOf.map((days) => `${days} days ${timeText(runs.get(days)!.at(-1)?.wallMs ?? 0)}`);
      if (n > 0) bench.tell(`round ${n} of ${bench.runs}: ${times.join(', ')}`);
    }
    return createReport(daysOf, runs);
  } finally {
    await sandbox.stop();
    for (const days of daysOf) rmSync(archiveOf(days), { recursive: true, force: true });
  }
}

/** Imports an archive of this many days before `lastDay`. */
async function importDays({ launcher, folder, env, accounting, seed, tell }: Bench, out: string, days: number) {
  const pages = join(folder, 'pages');
  const { ticks } = await writePages(pages, generatePages(days, seed));
  tell(`building an archive of ${days} days with ${ticks.toLocaleString('en-US')} ticks`);
  const argv = [launcher, 'import', pages, '--format', 'pages', '--output', out, '--quiet'] as const;
  await measure({ argv: [...argv, '--set', 'source.name=bench'], cwd: folder, env }, accounting);
  rmSync(pages, { recursive: true });
}

/** The ticks of each symbol in the days before `lastDay`. */
function* generatePages(days: number, seed: number): Generator<SandboxTickPage> {
  const feed = createSimulatedFeed({ ...sandboxDefaults, ...feedOptions, seed });
  const requested = { from: lastDay - days * dayMs, to: lastDay };
  for (const symbol of feed.symbols(lastDay)) {
    const window = intersectTwo(feed.getLifetime(symbol, lastDay)!, requested);
    if (isEmpty(window)) continue;
    const { t, p } = feed.ticks(symbol, window);
    for (let row = 0; row === 0 || row < t.length; row += pageTicks) {
      const end = Math.min(row + pageTicks, t.length);
      const covered = { from: row === 0 ? window.from : t[row]!, to: t[end] ?? window.to };
      const columns = { t: t.subarray(row, end), p: p.subarray(row, end) };
      yield { symbol, ...columns, count: end - row, ...covered, generatedAt: lastDay + dayMs };
    }
  }
}

function createReport(daysOf: readonly number[], runs: ReadonlyMap<number, readonly Measured[]>): Report {
  const [least, most] = [daysOf[0]!, daysOf.at(-1)!];
  const named = (days: number): string => `${days.toLocaleString('en-US')} days`;
  const compare = (days: number, label: string, pick: (run: Measured) => number | null): Comparison => {
    const [theirs, ours] = [least, days].map((each) => runs.get(each)!.map(pick)) as [number[], number[]];
    const isReported = [...ours, ...theirs].every((ms) => ms !== null);
    const ratio = isReported ? pairRatios(ours, theirs) : null;
    const figure = (each: number): string => (isReported ? timeText(pick(summarise(runs.get(each)!))!) : '–');
    return {
      what: `nightly as the archive grows, ${label}`,
      input: named(days),
      ours: figure(days),
      peer: { name: named(least), figure: figure(least) },
      ratio,
      goal: growth,
      headline: days === most && days >= judgedDays && label === 'time',
      value: ratio?.median ?? null,
      missing: 'this machine cannot measure the time of processes',
    };
  };
  return {
    comparisons: daysOf
      .filter((days) => days !== least)
      .flatMap((days) => [compare(days, 'time', ({ wallMs }) => wallMs), compare(days, 'CPU', ({ cpuMs }) => cpuMs)]),
    timings: [...runs].map(([days, of]) => ({
      what: 'nightly as the archive grows',
      input: named(days),
      name: 'oddslake',
      medians: summarise(of),
      runs: of.length,
    })),
    failed: [],
  };
}
