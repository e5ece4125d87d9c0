import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { formatIsoUtc } from '../src/base/time.ts';
import { dayMs, intersectTwo, isEmpty } from '../src/base/window.ts';
import { sandboxDefaults } from '../src/sandbox/options.ts';
import { createSimulatedFeed } from '../src/sandbox/simulated-feed.ts';
import type { Bench } from './bench.ts';
import { summarise } from './harness.ts';
import { type Measured, measure } from './measure.ts';
import { nightly } from './nightly-command.ts';
import { atMost, type Report } from './results.ts';
import { startSandbox } from './sandbox.ts';
import { spread } from './statistics.ts';

/**
 * Requests of a first night against the fewest that could have brought the same, from a service that caps its pages below
 * the limit asked for and says nothing of it. Symbols are uneven: the busiest has eighty times the ticks of the quietest.
 */

const goal = 1.05;
const cap = 1000;
const end = Date.UTC(2026, 0, 20);
const lookbackMs = 7 * dayMs;
/** Of the night's settings: lists that it polls, each of which fits into one page. */
const lists = 2;
const feedOptions = { markets: 40, ticksPerDay: 2000 };

export async function benchRequests(bench: Bench): Promise<Report> {
  const reports: Report[] = [];
  for (const side of ['earliest', 'latest'] as const) reports.push(await benchSide(bench, side));
  return {
    comparisons: reports.flatMap(({ comparisons }) => comparisons),
    timings: reports.flatMap(({ timings }) => timings),
    failed: [],
  };
}

async function benchSide(bench: Bench, side: 'earliest' | 'latest'): Promise<Report> {
  const out = join(bench.folder, 'requests');
  const sandbox = await startSandbox([
    '--now',
    formatIsoUtc(end + dayMs / 8),
    '--cap',
    String(cap),
    '--truncate',
    side,
    '--seed',
    String(bench.seed),
    '--market-count',
    String(feedOptions.markets),
    '--ticks-per-day',
    String(feedOptions.ticksPerDay),
  ]);
  const made: number[] = [];
  const runs: Measured[] = [];
  try {
    let [before, polled] = [0, [] as string[]];
    for (let n = 0; n < bench.runs; n++) {
      rmSync(out, { recursive: true, force: true });
      const date = formatIsoUtc(end - dayMs).slice(0, 10);
      runs.push(await measure(nightly(bench, sandbox, out, ['--date', date]), bench.accounting));
      const stats = await sandbox.stats();
      made.push(stats.requests - before);
      before = stats.requests;
      polled = Object.keys(stats.bySymbol);
      bench.tell(`night ${n + 1} of ${bench.runs}, ${side} kept: ${made.at(-1)} requests`);
    }
    const least = leastRequests(polled, bench.seed);
    const ratio = spread(made.map((count) => count / least));
    const input = `${polled.length} uneven symbols, silent cap of ${cap.toLocaleString('en-US')}, the ${side} kept`;
    return {
      comparisons: [
        {
          what: 'requests made',
          input,
          ours: `${spread(made).median}`,
          peer: { name: 'the fewest possible', figure: `${least}` },
          ratio,
          goal: atMost(goal),
          value: ratio.median,
          missing: null,
        },
      ],
      timings: [{ what: 'requests made', input, name: 'oddslake', medians: summarise(runs), runs: runs.length }],
      failed: [],
    };
  } finally {
    await sandbox.stop();
    rmSync(out, { recursive: true, force: true });
  }
}

/**
 * The fewest requests that bring what a first night polls: for each symbol as many full pages as its ticks fill, and one
 * where it has none, for that has to be known too; and each market list once.
 */
function leastRequests(polled: readonly string[], seed: number): number {
  const feed = createSimulatedFeed({ ...sandboxDefaults, ...feedOptions, seed });
  const night = { from: end - lookbackMs, to: end };
  return polled.reduce((sum, symbol) => {
    const window = intersectTwo(feed.getLifetime(symbol, end)!, night);
    const ticks = isEmpty(window) ? 0 : feed.ticks(symbol, window).t.length;
    return sum + pagesOf(ticks, cap);
  }, lists);
}

/** Pages of at most `size` that hold so many ticks; an answer without any is one, too. */
export const pagesOf = (ticks: number, size: number): number => Math.max(1, Math.ceil(ticks / size));
