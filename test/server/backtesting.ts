import type { Archive } from '../../src/archive/archive.ts';
import { resolveStrategy } from '../../src/backtest/resolve-strategy.ts';
import { runBacktest } from '../../src/backtest/run/run-backtest.ts';
import { systemClock, systemRandom } from '../../src/base/system.ts';
import { parseBacktestSpec } from '../../src/contract/backtest-request.ts';
import type { BacktestResult } from '../../src/contract/backtests.ts';
import { answer, append, day0, dayMs, publishNow } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { madeOnce } from './made-once.ts';
import { type ServingOptions, serving } from './serving.ts';
import { tokenOf, withTokens } from './users.ts';

// Requests, users and helpers for the tests of backtests.

export const path = '/api/v1/research/backtest';
export const backtestPath = '/api/v1/backtest';

export interface Kept {
  readonly id: string;
  readonly state: string;
  readonly value: number | null;
  readonly progress: { readonly batches_done: number; readonly batches_total: number | null };
  readonly started_at: number | null;
  readonly finished_at: number | null;
  readonly error: string | null;
  readonly trades_file: {
    readonly url: string;
    readonly bytes: number;
    readonly sha256: string;
    readonly rows: number;
  } | null;
  readonly result?: BacktestResult | null;
}

/** Two symbols in different parts with oscillating prices, a tick per minute. */
export async function createTradedArchive(ticks: keyof typeof made = 1440): Promise<Archive> {
  return await made[ticks]();
}

const tradedFor = (ticks: number) =>
  madeOnce(
    async (archive) => {
      for (const [symbol, pace] of [
        ['KX A', 40],
        ['KX D', 97],
      ] as const)
        append(
          archive,
          answer(
            symbol,
            Array.from({ length: ticks }, (_, i) => [day0 + i * 60_000, 0.5 + 0.4 * Math.sin(i / pace)]),
          ),
        );
      await publishNow(archive);
    },
    { parts: 2 },
  );
const made = { 1440: tradedFor(1440), 50000: tradedFor(50_000) };

/** Buys below a price and sells above another. */
export const threshold = {
  entry_executable: { name: 'threshold' },
  objective: 'total_pnl',
  parameters: { buy_below: 0.3, sell_above: 0.7 },
};

const average = (window_ms: number) => ({ measure: 'moving_average', window_ms, at_least: 0 });
const averages = Array.from({ length: 11 }, (_, i) => average((i + 1) * 3_600_000));

/** The same as a saved backtest. */
export const saved = { ...threshold, save: true };

/** Runs for minutes on 100,000 ticks and never buys; no test waits for its end. */
export const endless = {
  entry_executable: {
    name: 'endless',
    strategy: {
      parameters: { above: 2 },
      rules: Array.from({ length: 7 }, () => ({
        side: 'yes',
        size: { contracts: 1 },
        entry: { all: [...averages, { measure: 'price', above: { parameter: 'above' } }] },
      })),
    },
  },
  objective: 'total_pnl',
  grid: { above: Array.from({ length: 1000 }, (_, i) => 2 + i) },
};

/** Slow: about a second for some grid points on 100,000 ticks. */
export const long = (points: number) => ({
  entry_executable: { name: 'mean_reversion' },
  objective: 'sharpe',
  grid: { enter_beyond: Array.from({ length: points }, (_, i) => 1 + i / points) },
});

/** Two backtests to save: a short one, and one that does not end. */
export const brief = { ...saved, to: day0 + dayMs };
export const slow = { ...endless, save: true };

export interface Listed {
  readonly backtests: readonly Kept[];
  readonly count: number;
  readonly next_cursor: string | null;
}

/** Serves backtests until the test ends. */
export async function asking(archive: Archive, { set = [], ...rest }: ServingOptions = {}) {
  // One thread: starting a second one takes longer than the run.
  const usual = [...withTokens, 'service.research.threads=1'];
  const service = await serving(archive, { set: [...usual, ...set], ...rest });
  const as = (user: string, workspace?: string) => {
    const authorization = `Bearer ${tokenOf(user, workspace)}`;
    const json = <T = Kept>(at: string, init: RequestInit = {}) =>
      service.json<T>(at, { ...init, headers: { ...init.headers, authorization } });
    return {
      authorization,
      json,
      post: <T = Kept>(body: unknown, headers: Record<string, string> = {}, rest: RequestInit = {}) =>
        json<T>(path, {
          method: 'POST',
          body: JSON.stringify(body),
          ...rest,
          headers: { 'content-type': 'application/json', ...headers },
        }),
      /** Removes a backtest and returns the status. */
      drop: async (id: string) =>
        (await service.ask(`${backtestPath}/${id}`, { method: 'DELETE', headers: { authorization } })).status,
      /** Waits until the backtest is in one of these states. */
      async becomes({ id }: Pick<Kept, 'id'>, ...states: string[]): Promise<Kept> {
        // Less and less often: the requests take the time of the backtest.
        let pauseMs = 0;
        return await waitFor(
          async () => {
            await systemClock.sleep(pauseMs);
            pauseMs = Math.min(pauseMs + 5, 50);
            const { body } = await json<Kept>(`${backtestPath}/${id}`);
            return states.includes(body.state) && body;
          },
          `a backtest that is ${states.join(' or ')}`,
        );
      },
    };
  };
  return { ...service, as, alice: as('alice'), bob: as('bob') };
}

/** The result of the engine without a service, through JSON. */
export async function runDirectly(archive: Archive, body: unknown): Promise<BacktestResult> {
  const read = parseBacktestSpec(body);
  if ('faults' in read) throw new Error(JSON.stringify(read.faults));
  const one = await resolveStrategy(read.spec.entry_executable, async () => null);
  const watching = { random: systemRandom, signal: new AbortController().signal, threads: 1, progress() {} };
  return JSON.parse(JSON.stringify(await runBacktest(archive, read.spec, one, watching))) as BacktestResult;
}

export const errorsOf = (body: unknown): string[] =>
  ((body as { errors?: { name: string }[] }).errors ?? []).map(({ name }) => name).sort();
