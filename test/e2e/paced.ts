import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import type { SandboxOptions } from '../../src/sandbox/sandbox-options.ts';
import type { SandboxStats } from '../../src/sandbox/stats.ts';
import { fixedNow, sandbox, sandboxProcess, set } from './lake.ts';

// Shared code of the request rate tests: a service with small pages, so that many requests are needed.
// The used share of the rate depends on the machine: it is printed, and checked only with LONG=1, which runs for
// minutes.

export const long = process.env.LONG === '1';
export const seed = Number(process.env.SEED || 11);

const cap = 100;
const world = { nowMs: fixedNow, seed, ticksPerDay: 600, cap, lifetimeDaysMax: 45 };

/** A service in a separate process. */
export const service = (rate: number, markets: number, more: Partial<SandboxOptions> = {}) =>
  sandboxProcess({ ...world, requestsPerSecond: rate, markets, ...more }, long ? 600_000 : undefined);

/** The same service in this process, to compare data with. */
export const openReference = (markets: number): Promise<Sandbox> => sandbox({ ...world, markets });

/** Flags of a job with this configured rate. */
export const rateFlags = (rate: number): string[] => [
  ...set(`upstream.requests_per_second=${rate}`, `poll.page_limit=${cap}`),
];

export const countResponses = (stats: SandboxStats, status: number): number =>
  Object.values(stats.byPath).reduce((sum, statuses) => sum + (statuses[status] ?? 0), 0);

/** Requests between two samples of a service's counters. */
export function computeUse(before: SandboxStats, after: SandboxStats, ms: number, allowed: number) {
  const [passed = 0, refused = 0] = [200, 429].map(
    (status) => countResponses(after, status) - countResponses(before, status),
  );
  return { passed, refused, refusedShare: refused / (passed + refused), used: passed / (ms / 1000) / allowed };
}
