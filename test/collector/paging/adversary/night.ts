/** Runs the collector once against an adversary. */
import type { Clock } from '../../../../src/base/ports.ts';
import { collectTicks, type TickCollectOutcome } from '../../../../src/collector/paging/collect-ticks.ts';
import type { SymbolPlan } from '../../../../src/collector/paging/plan.ts';
import {
  createServerBehavior,
  type KnownPages,
  type ServerBehavior,
} from '../../../../src/collector/paging/server-behavior.ts';
import { noSilences, Night as Responses } from '../../../../src/collector/proof/shown.ts';
import type { MemoryArchive } from './lake.ts';
import type { Adversary, ManualTime } from './server.ts';

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
      pieces: false,
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
      getSymbol: (symbol) => ({
        ...lake.knownTicks(symbol),
        firstSeen: hand.nowMs,
        opensAt: null,
        provenTo: hand.nowMs,
      }),
      findTick: async (symbol, at) => lake.findTick(symbol, at),
      getCoverage: lake.coverageOf,
      getUnjudged: () => [],
      onSymbol: () => {},
    },
    plans,
  );
  return { collected, behavior, requests: service.requests - before };
}
