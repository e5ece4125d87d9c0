import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import type { SandboxStats } from '../../src/sandbox/stats.ts';
import { fixedNow, sandbox, sandboxProcess } from './lake.ts';

// The wiring of the tests of the request rate: a service whose pages are small, so that much must be asked for.
//
// How fast the machine is decides how much of a rate is used: that is printed, and judged only where LONG=1 asks for
// the whole minutes.

export const long = process.env.LONG === '1';
export const seed = Number(process.env.SEED || 11);

const now = fixedNow;
const [ticksPerDay, cap] = [600, 100];

/** A service in a process of its own. */
export function service(rate: number, markets: number, ...more: string[]) {
  const time = ['--now', new Date(now).toISOString(), '--seed', String(seed), '--rate', String(rate)];
  const size = ['--market-count', String(markets), '--ticks-per-day', String(ticksPerDay), '--cap', String(cap)];
  return sandboxProcess([...time, ...size, ...more], long ? 600_000 : undefined);
}

/** The same service in this process, to be asked for the truth. */
export const truth = (markets: number): Promise<Sandbox> => sandbox({ nowMs: now, seed, markets, ticksPerDay, cap });

/** Flags of a job that is configured with this rate. */
export const at = (rate: number): string[] => [
  '--set',
  `upstream.requests_per_second=${rate}`,
  '--set',
  `poll.page_limit=${cap}`,
];

export const answers = (stats: SandboxStats, status: number): number =>
  Object.values(stats.byPath).reduce((sum, statuses) => sum + (statuses[status] ?? 0), 0);

/** What came of the time between two looks at a service. */
export function between(before: SandboxStats, after: SandboxStats, ms: number, allowed: number) {
  const [passed = 0, refused = 0] = [200, 429].map((status) => answers(after, status) - answers(before, status));
  return { passed, refused, refusedShare: refused / (passed + refused), used: passed / (ms / 1000) / allowed };
}
