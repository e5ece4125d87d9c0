/** Fetches several symbols like the collector, and checks each claim against the truth when it is made. */

import type { TickRecord } from '../../../src/archive/journal/journal.ts';
import type { Clock } from '../../../src/base/ports.ts';
import type { TickColumns } from '../../../src/base/ticks.ts';
import { isWithin, subtract, union, type Window } from '../../../src/base/window.ts';
import type { Upstream } from '../../../src/client/upstream.ts';
import { defaultFetchOptions } from '../../../src/collector/paging/fetch-steps.ts';
import {
  claimWindow,
  type EmptyResponse,
  type FetchContext,
  type FetchOutcome,
  fetchSymbol,
} from '../../../src/collector/paging/fetch-symbol.ts';
import { createServerBehavior, type ServerBehavior } from '../../../src/collector/paging/server-behavior.ts';
import { Night } from '../../../src/collector/proof/shown.ts';
import { type ManualTime, type Row, visible } from './honest-service.ts';

export interface Run {
  /** The stored ticks of a symbol, as `t p`. */
  keptOf(symbol: string): ReadonlySet<string>;
  readonly covered: ReadonlyMap<string, readonly Window[]>;
  readonly lost: ReadonlyMap<string, readonly Window[]>;
  /** Reasons for gaps, by symbol. */
  readonly reasons: ReadonlyMap<string, readonly string[]>;
  /** Errors in claims, found when the claims were made. */
  readonly lies: readonly string[];
  readonly behavior: ServerBehavior;
}

export const toKey = (row: { readonly t: number; readonly p: number }): string => `${row.t} ${row.p}`;

const toKeys = ({ t, p }: TickColumns): string[] => Array.from(t, (time, i) => toKey({ t: time, p: p[i]! }));

interface RunOptions {
  readonly upstream: Pick<Upstream, 'ticks'>;
  readonly hand: ManualTime;
  readonly plans: ReadonlyMap<string, readonly Window[]>;
  readonly truth: ReadonlyMap<string, readonly Row[]>;
  readonly pageLimit?: number;
  readonly workers?: number;
  /** Whether every price of a time must be stored, or only one of them. */
  readonly everyPrice?: boolean;
  readonly signal?: AbortSignal;
}

export async function run(options: RunOptions): Promise<Run> {
  const { hand, truth, plans } = options;
  const kept = new Map<string, TickColumns[]>();
  const keys = new Map<string, Set<string>>();
  const times = new Map<string, Set<number>>();
  const covered = new Map<string, Window[]>();
  const lost = new Map<string, Window[]>();
  const reasons = new Map<string, string[]>();
  const lies: string[] = [];
  const clock: Clock = {
    nowMs: () => hand.nowMs,
    monotonicMs: () => hand.nowMs,
    sleep: async (ms) => {
      hand.nowMs += ms;
    },
  };
  async function append(record: TickRecord): Promise<void> {
    const { symbol, ticks } = record;
    listOf(kept, symbol, () => []).push(ticks);
    const symbolKeys = listOf(keys, symbol, () => new Set<string>());
    const moments = listOf(times, symbol, () => new Set<number>());
    // Only if needed: formatting each tick would dominate the run time.
    if (options.everyPrice) for (const key of toKeys(ticks)) symbolKeys.add(key);
    for (const t of ticks.t) {
      moments.add(t);
      if (!isWithin(t, record.requestedWindow)) lies.push(`${symbol}: kept ${t}, which was not requested`);
    }
    for (const withdrawnWindow of record.withdrawn ?? []) {
      covered.set(symbol, subtract(covered.get(symbol) ?? [], [withdrawnWindow]));
    }
    for (const claim of record.covered) {
      const { from, to, fetchedAt } = claim;
      if (from >= to) lies.push(`${symbol}: claimed the empty [${from}, ${to})`);
      if (to > fetchedAt) lies.push(`${symbol}: claimed up to ${to} by a response of ${fetchedAt}`);
      for (const row of visible(truth.get(symbol) ?? [], claim, fetchedAt)) {
        if (!row.usable) continue;
        const there = options.everyPrice ? symbolKeys.has(toKey(row)) : moments.has(row.t);
        if (!there) lies.push(`${symbol}: claimed [${from}, ${to}) without ${toKey(row)}`);
      }
      listOf(covered, symbol, () => []).push({ from, to });
    }
    await Promise.resolve();
  }
  const context: FetchContext = {
    upstream: options.upstream,
    clock,
    runId: 'run',
    origin: 'poll',
    behavior: createServerBehavior(),
    pageLimit: options.pageLimit ?? 5000,
    futureSkewMs: 60_000,
    signal: options.signal ?? new AbortController().signal,
    append,
    night: new Night(),
    onPage: () => {},
  };
  const empties: EmptyResponse[] = [];
  const addOutcome = (symbol: string, outcome: FetchOutcome): void => {
    empties.push(...outcome.empties);
    listOf(lost, symbol, () => []).push(...outcome.lost);
    const symbolReasons = listOf(reasons, symbol, () => []);
    for (const { reason } of outcome.lost) if (!symbolReasons.includes(reason)) symbolReasons.push(reason);
  };
  const workers = options.workers ?? 3;
  await runWorkers(workers, [...plans], async ([symbol, windows]) =>
    addOutcome(
      symbol,
      await fetchSymbol(
        context,
        symbol,
        windows.map((w) => ({ ...w, options: defaultFetchOptions })),
      ),
    ),
  );
  for (const empty of empties) await claimWindow(context, empty.symbol, empty, empty.observedAt, 'inferred');
  const keptOf = (symbol: string) => new Set((kept.get(symbol) ?? []).flatMap(toKeys));
  return { keptOf, covered: joined(covered), lost: joined(lost), reasons, lies, behavior: context.behavior };
}

/** The parts of the plan that are neither covered nor lost. */
export const findUnaccounted = (run: Run, symbol: string, windows: readonly Window[], untilMs: number): Window[] =>
  subtract(
    windows.map((w) => ({ from: w.from, to: Math.min(w.to, untilMs) })),
    [...(run.covered.get(symbol) ?? []), ...(run.lost.get(symbol) ?? [])],
  );

const joined = (windows: ReadonlyMap<string, readonly Window[]>): Map<string, Window[]> =>
  new Map([...windows].map(([symbol, list]) => [symbol, union(list)]));

function listOf<T>(map: Map<string, T>, key: string, empty: () => T): T {
  let value = map.get(key);
  if (value === undefined) {
    value = empty();
    map.set(key, value);
  }
  return value;
}

async function runWorkers<T>(workers: number, items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < items.length) await work(items[next++]!);
  };
  await Promise.all(Array.from({ length: workers }, worker));
}
