import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openSharedRateStore } from '../src/archive/journal/rate-limit-store.ts';
import { openState } from '../src/archive/journal/state.ts';
import { systemClock, systemRandom } from '../src/base/system.ts';
import { openUpstream } from '../src/client/client.ts';
import { paths } from '../src/contract/paths.ts';
import type { Bench } from './bench.ts';
import type { Comparison, Goal, Report } from './results.ts';
import { type BenchedSandbox, startSandbox } from './sandbox.ts';

/**
 * How much of the allowed rate is used while there is work, and how much of what is asked is refused: the client with an
 * archive's pace against the sandbox in a process of its own, first where the rate is known, then where far more is
 * configured, after as long to find out; the latter side by side, each with a service of its own.
 */

const seconds = 40;
const askers = 8;

interface Situation {
  readonly name: string;
  /** Requests a second that the service allows, and that the client is told. */
  readonly allowed: number;
  readonly configured: number;
  readonly flags: readonly string[];
}

interface Found {
  /** Of the allowed rate. */
  readonly used: number;
  /** Requests refused in the measured time, and before it. */
  readonly refused: number;
  readonly refusedBefore: number;
  /** Requests of the measured time, refused ones included. */
  readonly asked: number;
}

const known: readonly Situation[] = [20, 200].map((rate) => ({
  name: `known, ${rate} a second`,
  allowed: rate,
  configured: rate,
  flags: [],
}));
const unknown: readonly Situation[] = ['sliding', 'fixed', 'bucket'].map((limiter) => ({
  name: `unknown, 20 a second, 100 configured, ${limiter}`,
  allowed: 20,
  configured: 100,
  flags: ['--limiter', limiter],
}));

export async function benchRate(bench: Bench): Promise<Report> {
  const comparisons: Comparison[] = [];
  for (const one of known) {
    bench.tell(`${one.name}: ${seconds} seconds`);
    comparisons.push(comparisonOf(one.name, await measureUse(bench, one, 0), true));
  }
  bench.tell(`unknown, ${unknown.length} kinds of limit: ${2 * seconds} seconds`);
  const found = await Promise.all(unknown.map((one) => measureUse(bench, one, seconds)));
  for (const [i, { name }] of unknown.entries()) comparisons.push(comparisonOf(name, found[i]!, false));
  return { comparisons, timings: [], failed: [] };
}

function comparisonOf(input: string, { used, refused, refusedBefore, asked }: Found, isKnown: boolean): Comparison {
  const share = refused / asked;
  const goal: Goal = isKnown
    ? { text: '0.97, none refused', met: (value) => value >= 0.97 && refused + refusedBefore === 0 }
    : { text: '0.9, under 1 % refused', met: (value) => value >= 0.9 && share < 0.01 };
  return {
    what: 'allowed rate used',
    input,
    goal,
    peer: null,
    ratio: null,
    value: used,
    missing: null,
    ours: `${used.toFixed(3)}, ${(100 * share).toFixed(2)} % refused`,
  };
}

async function measureUse(bench: Bench, { allowed, configured, flags }: Situation, findSeconds: number) {
  const sandbox = await startSandbox([
    '--market-count',
    '2',
    '--rate',
    String(allowed),
    '--retry-after',
    'none',
    ...flags,
  ]);
  const folder = mkdtempSync(join(bench.folder, 'rate-'));
  const state = openState(folder, { upstream: sandbox.url, parts: 1 });
  const pace = openSharedRateStore(state, folder);
  const upstream = openUpstream(
    {
      baseUrl: sandbox.url,
      apiKey: sandbox.key,
      userAgent: 'oddslake/bench',
      requestsPerSecond: configured,
      concurrency: askers,
      retryAttemptsMax: 100,
      retryBudget: 10_000,
      retryDelayMsMin: 250,
    },
    { clock: systemClock, random: systemRandom, rateStore: pace },
  );
  try {
    let isOver = false;
    const working = Array.from({ length: askers }, async () => {
      while (!isOver) await upstream.markets({ limit: 1 });
    });
    // The first second of a pace has no second before it.
    await systemClock.sleep(1000 + findSeconds * 1000);
    const before = await look(sandbox);
    await systemClock.sleep(seconds * 1000);
    const after = await look(sandbox);
    isOver = true;
    await Promise.all(working);
    const [passed, refused] = [after.passed - before.passed, after.refused - before.refused];
    const used = passed / ((after.atMs - before.atMs) / 1000) / allowed;
    return { used, refused, refusedBefore: before.refused, asked: passed + refused };
  } finally {
    await upstream.close();
    pace.close();
    state.close();
    rmSync(folder, { recursive: true });
    await sandbox.stop();
  }
}

async function look(sandbox: BenchedSandbox): Promise<{ passed: number; refused: number; atMs: number }> {
  const { 200: passed = 0, 429: refused = 0 } = (await sandbox.stats()).byPath[paths.markets] ?? {};
  return { passed, refused, atMs: systemClock.monotonicMs() };
}
