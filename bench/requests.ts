import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { formatIsoUtc } from '../src/base/time.ts';
import { dayMs, isEmpty } from '../src/base/window.ts';
import { sandboxDefaults } from '../src/sandbox/sandbox-options.ts';
import { createSimulatedFeed } from '../src/sandbox/simulated-feed.ts';
import type { Bench } from './bench.ts';
import { atMost } from './goals.ts';
import { summarise } from './harness.ts';
import { type Measured, measure } from './measure.ts';
import { nightly } from './nightly-command.ts';
import { mergeReports, type Report } from './results.ts';
import { startSandbox } from './sandbox.ts';
import { spread } from './statistics.ts';

/**
 * Compares the requests of a first night with the minimum, against a service that silently caps its pages below the
 * requested limit. The busiest symbol has eighty times the ticks of the quietest.
 */

const goal = 1.05;
const cap = 1000;
const end = Date.UTC(2026, 0, 20);
/** Settings of the night: the market lists to poll, each of which fits into one page. */
const lists = 2;
const feedOptions = { markets: 40, ticksPerDay: 2000 };

export async function benchRequests(bench: Bench): Promise<Report> {
  const reports: Report[] = [];
  for (const side of ['earliest', 'latest'] as const) reports.push(await benchSide(bench, side));
  return mergeReports(reports);
}

async function benchSide(bench: Bench, side: 'earliest' | 'latest'): Promise<Report> {
  const out = join(bench.folder, 'requests');
  const sandbox = await startSandbox({
    nowMs: end + dayMs / 8,
    cap,
    truncate: side,
    seed: bench.seed,
    ...feedOptions,
  });
  const requests: number[] = [];
  const runs: Measured[] = [];
  try {
    let [before, polled] = [0, [] as string[]];
    for (let n = 0; n < bench.runs; n++) {
      rmSync(out, { recursive: true, force: true });
      const date = formatIsoUtc(end - dayMs).slice(0, 10);
      runs.push(await measure(nightly(bench, sandbox, out, ['--date', date]), bench.accounting));
      const stats = await sandbox.stats();
      requests.push(stats.requests - before);
      before = stats.requests;
      polled = Object.keys(stats.bySymbol);
      bench.tell(`night ${n + 1} of ${bench.runs}, ${side} kept: ${requests.at(-1)} requests`);
    }
    const least = leastRequests(polled, bench.seed);
    const ratio = spread(requests.map((count) => count / least));
    const input = `${polled.length} uneven symbols, silent cap of ${cap.toLocaleString('en-US')}, the ${side} kept`;
    return {
      comparisons: [
        {
          what: 'requests made',
          input,
          ours: `${spread(requests).median}`,
          peer: { name: 'the fewest that prove the coverage', figure: `${least}` },
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

/** Requests that confirm a window after its pages have been fetched: one per side. */
const confirmRequestsPerWindow = 2;

/**
 * The minimum number of requests of a first night that proves what it covers: one for each market list, and for each symbol
 * as many full pages as its ticks fill from its opening to the end of the night, and one for each side at which the pages may
 * be truncated (`confirmRequestsPerWindow`). An empty response needs no other one.
 */
function leastRequests(polled: readonly string[], seed: number): number {
  const feed = createSimulatedFeed({ ...sandboxDefaults, ...feedOptions, seed });
  return polled.reduce((sum, symbol) => {
    const lifetime = feed.getLifetime(symbol, end)!;
    const window = { from: lifetime.from, to: Math.min(lifetime.to, end) };
    const ticks = isEmpty(window) ? 0 : feed.ticks(symbol, window).t.length;
    return sum + pagesOf(ticks, cap) + (ticks === 0 ? 0 : confirmRequestsPerWindow);
  }, lists);
}

/** Pages of at most `size` ticks; an empty response counts as one page. */
export const pagesOf = (ticks: number, size: number): number => Math.max(1, Math.ceil(ticks / size));
