/** Runs the collector once against an adversary and checks the result. */
import type { Clock } from '../../../../src/base/ports.ts';
import { intersect, isWithin, subtract, type Window } from '../../../../src/base/window.ts';
import { collectTicks, type TickCollectOutcome } from '../../../../src/collector/paging/collect-ticks.ts';
import type { SymbolPlan } from '../../../../src/collector/paging/plan.ts';
import {
  createServerBehavior,
  type KnownPages,
  type ServerBehavior,
} from '../../../../src/collector/paging/server-behavior.ts';
import { noSilences, Night as Responses } from '../../../../src/collector/proof/shown.ts';
import { isUsable } from '../../../../src/sandbox/tick-behavior.ts';
import type { MemoryArchive } from './lake.ts';
import type { Adversary, ManualTime, Row, Traits } from './server.ts';

interface Night {
  readonly collected: TickCollectOutcome;
  readonly behavior: ServerBehavior;
  readonly requests: number;
}

export const toClock = (hand: ManualTime): Clock => ({
  nowMs: () => hand.nowMs,
  monotonicMs: () => hand.nowMs,
  sleep: async (ms: number) => {
    hand.nowMs += ms;
  },
});

export async function collectNight(
  lake: MemoryArchive,
  service: Adversary,
  hand: ManualTime,
  plans: readonly SymbolPlan[],
  origin: 'poll' | 'backfill',
  known: Partial<KnownPages> = {},
  isCaught = false,
): Promise<Night> {
  const clock = toClock(hand);
  const behavior = createServerBehavior(known);
  behavior.omitsTicks = isCaught;
  const before = service.requests;
  const collected = await collectTicks(
    {
      upstream: service,
      clock,
      runId: 'run',
      origin,
      behavior,
      pageLimit: 5000,
      futureSkewMs: 60_000,
      signal: new AbortController().signal,
      append: lake.append,
      onPage: () => {},
      concurrency: 3,
      drain: async () => {},
      night: new Responses(),
      settleMs: 0,
      knownSilences: noSilences,
      getKnownTicks: (symbol) => lake.knownTicks(symbol),
      getProvenSpan: () => ({ firstSeen: hand.nowMs, opensAt: null, provenTo: hand.nowMs }),
      findTick: async (symbol, at) => lake.findTick(symbol, at),
      getCoverage: lake.coverageOf,
      getUnjudged: () => [],
      onSymbol: () => {},
    },
    plans,
  );
  return { collected, behavior, requests: service.requests - before };
}

/**
 * Ticks of the truth that are missing in a proven window, including ticks of a shared millisecond that no response
 * contained. The latter is not checked for servers that ignore from/to, repeat ticks, alternate the truncation side, or cap
 * pages by bytes.
 */
export function findFalseClaims(
  lake: MemoryArchive,
  { served }: Adversary,
  truth: ReadonlyMap<string, readonly Row[]>,
  traits: Traits,
): string[] {
  const lag = Math.max(...traits.lagsMs);
  const { honors, truncate, repeatShare, capUnit } = traits;
  const isEachShown = honors === 'window' && truncate !== 'alternating' && repeatShare === 0 && capUnit === 'rows';
  const out: string[] = [];
  for (const [symbol, rows] of truth) {
    const storedTimes = lake.times.get(symbol) ?? new Set();
    for (const gap of intersect(lake.coverageOf(symbol), traits.gaps))
      out.push(`${symbol}: [${gap.from}, ${gap.to}) is covered, although the server states it as a gap`);
    for (const w of lake.coverageOf(symbol)) {
      if (w.evidence === 'inferred') continue;
      const asOf = w.fetchedAt - lag;
      for (const row of rows) {
        const { t, seenFrom } = row;
        if (!isUsable(row, traits) || traits.gaps.some((gap) => isWithin(t, gap))) continue;
        if (!isWithin(t, w) || (storedTimes.has(t) && (served.has(row) || !isEachShown)) || seenFrom > asOf || t > asOf)
          continue;
        if (traits.keepsMs !== null && t < w.fetchedAt + hourMs - traits.keepsMs) continue;
        out.push(`${symbol}: ${w.evidence} [${w.from}, ${w.to}) of ${w.fetchedAt} lacks ${t}`);
      }
    }
  }
  return out;
}

const hourMs = 3_600_000;

/** The parts of a plan that are neither covered nor reported as gaps. */
export function findUnaccounted(
  lake: MemoryArchive,
  { collected }: Night,
  plan: SymbolPlan,
  untilMs: number,
): Window[] {
  const { symbol } = plan;
  const known = [
    ...lake.coverageOf(symbol),
    ...[...collected.failures, ...collected.behind].filter((failure) => failure.symbol === symbol),
  ];
  const windows = plan.windows.map(({ from, to }) => ({ from, to: Math.min(to, untilMs) }));
  return collected.shortHistories.some((short) => short.symbol === symbol) ? [] : subtract(windows, known);
}

/** Visible ticks of the plans that were not fetched, outside of reported gaps. */
export function findMissedTicks(
  lake: MemoryArchive,
  { collected }: Night,
  plans: readonly SymbolPlan[],
  truth: ReadonlyMap<string, readonly Row[]>,
  traits: Traits,
  visibleMs: number,
): string[] {
  const out: string[] = [];
  for (const { symbol, windows } of plans) {
    const storedTimes = lake.times.get(symbol) ?? new Set();
    const reported = collected.failures.filter((failure) => failure.symbol === symbol);
    for (const row of truth.get(symbol) ?? []) {
      const { t, seenFrom } = row;
      if (!isUsable(row, traits) || traits.gaps.some((gap) => isWithin(t, gap))) continue;
      if (seenFrom > visibleMs || t > visibleMs || storedTimes.has(t)) continue;
      if (windows.some((w) => isWithin(t, w)) && !reported.some((w) => isWithin(t, w))) out.push(`${symbol}: ${t}`);
    }
  }
  return out;
}
