import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openSharedRateStore } from '../src/archive/journal/rate-limit-store.ts';
import { openState } from '../src/archive/journal/state.ts';
import { systemClock, systemRandom } from '../src/base/system.ts';
import { openUpstream } from '../src/client/client.ts';
import { paths } from '../src/contract/paths.ts';
import type { SandboxOptions } from '../src/sandbox/sandbox-options.ts';
import type { Bench } from './bench.ts';
import { atLeast, type Goal } from './goals.ts';
import type { Comparison, Report } from './results.ts';
import { type BenchedSandbox, startSandbox } from './sandbox.ts';

/**
 * Measures how much of the allowed rate the client uses while there is work, and how many of its requests are
 * throttled. Runs the client with an archive's rate store against sandboxes in separate processes: first with the
 * allowed rate configured, then with a far higher rate configured. The runs of the second kind are concurrent, and each
 * is measured after an equally long time to adapt.
 */

const clients = 8;

interface Situation {
  readonly name: string;
  /** Requests per second that the service allows and the client is configured with. */
  readonly allowed: number;
  readonly configured: number;
  readonly options: Partial<SandboxOptions>;
}

interface RateUse {
  /** Minimum share of the allowed rate. */
  readonly used: number;
  /** Throttled requests during the measured time, and before it. */
  readonly throttled: number;
  readonly throttledBefore: number;
  /** Requests during the measured time, throttled ones included. */
  readonly requests: number;
}

const known: readonly Situation[] = [20, 200].map((rate) => ({
  name: `known, ${rate} a second`,
  allowed: rate,
  configured: rate,
  options: {},
}));
const unknown: readonly Situation[] = (['sliding', 'fixed', 'bucket'] as const).map((limiter) => ({
  name: `unknown, 20 a second, 100 configured, ${limiter}`,
  allowed: 20,
  configured: 100,
  options: { limiter },
}));

/** @param seconds duration of each measurement */
export async function benchRate(bench: Bench, seconds: number): Promise<Report> {
  const comparisons: Comparison[] = [];
  for (const one of known) {
    bench.tell(`${one.name}: ${seconds} seconds`);
    comparisons.push(createComparison(one.name, await measureUse(bench, one, seconds, 0), true));
  }
  bench.tell(`unknown, ${unknown.length} rate-limiting algorithms: ${2 * seconds} seconds`);
  const results = await Promise.all(unknown.map((one) => measureUse(bench, one, seconds, seconds)));
  for (const [i, { name }] of unknown.entries()) comparisons.push(createComparison(name, results[i]!, false));
  return { comparisons, timings: [], failed: [] };
}

function createComparison(
  input: string,
  { used, throttled, throttledBefore, requests }: RateUse,
  isKnown: boolean,
): Comparison {
  const share = throttled / requests;
  const goal: Goal = isKnown
    ? {
        ...atLeast(0.97),
        text: '0.97, none throttled',
        met: (value) => value >= 0.97 && throttled + throttledBefore === 0,
      }
    : { ...atLeast(0.9), text: '0.9, under 1 % throttled', met: (value) => value >= 0.9 && share < 0.01 };
  return {
    what: 'allowed rate used',
    input,
    goal,
    peer: null,
    ratio: null,
    value: used,
    missing: null,
    ours: `${used.toFixed(3)}, ${(100 * share).toFixed(2)} % throttled`,
  };
}

async function measureUse(
  bench: Bench,
  { allowed, configured, options }: Situation,
  seconds: number,
  findSeconds: number,
) {
  const sandbox = await startSandbox({ markets: 2, requestsPerSecond: allowed, retryAfter: 'none', ...options });
  const folder = mkdtempSync(join(bench.folder, 'rate-'));
  const state = openState(folder, { upstream: sandbox.url });
  const rateStore = openSharedRateStore(state, folder);
  const upstream = openUpstream(
    {
      baseUrl: sandbox.url,
      apiKey: sandbox.key,
      userAgent: 'oddslake/bench',
      requestsPerSecond: configured,
      concurrency: clients,
      retryAttemptsMax: 100,
      retryBudget: 10_000,
      retryDelayMsMin: 250,
    },
    { clock: systemClock, random: systemRandom, rateStore: rateStore },
  );
  try {
    let isOver = false;
    const working = Array.from({ length: clients }, async () => {
      while (!isOver) await upstream.markets({ limit: 1 });
    });
    // The first second has no previous second.
    await systemClock.sleep(1000 + findSeconds * 1000);
    const before = await readCounters(sandbox);
    await systemClock.sleep(seconds * 1000);
    const after = await readCounters(sandbox);
    isOver = true;
    await Promise.all(working);
    const [passed, throttled] = [after.passed - before.passed, after.throttled - before.throttled];
    const used = passed / ((after.atMs - before.atMs) / 1000) / allowed;
    return { used, throttled, throttledBefore: before.throttled, requests: passed + throttled };
  } finally {
    await upstream.close();
    rateStore.close();
    state.close();
    rmSync(folder, { recursive: true });
    await sandbox.stop();
  }
}

async function readCounters(sandbox: BenchedSandbox): Promise<{ passed: number; throttled: number; atMs: number }> {
  const { 200: passed = 0, 429: throttled = 0 } = (await sandbox.stats()).byPath[paths.markets] ?? {};
  return { passed, throttled, atMs: systemClock.monotonicMs() };
}
