/**
 * A server composed at random of ways to misbehave. It is independent of the pager: each way is a separate switch, and any
 * may be combined. The sandbox's own code composes its pages.
 */
import type { RejectedInput } from '../../../../src/base/ticks.ts';
import { intersect, isWithin, type Window } from '../../../../src/base/window.ts';
import type { TickPage, TicksQuery } from '../../../../src/client/upstream.ts';
import {
  composePage,
  computeGeneratedAt,
  computeMatchedWindow,
  defaultTickBehavior,
  isUsable,
  type TickBehavior,
} from '../../../../src/sandbox/tick-behavior.ts';
import type { Random } from './random.ts';

/** One tick of the truth, epoch ms. It is visible from `seenFrom` on. */
export interface Row {
  readonly t: number;
  readonly p: number;
  readonly seenFrom: number;
}

export interface Traits extends TickBehavior {
  /** Lags of its replicas, in ms. A random one serves each request. */
  readonly lagsMs: readonly number[];
  /** Windows wider than this, in ms, get a coarser grid: every second tick, always the same ones. */
  readonly coarseMs: number | null;
  /** Maximum age of ticks in responses, in ms. Null: unlimited. */
  readonly keepsMs: number | null;
  /** Windows that responses state as gaps. */
  readonly gaps: readonly Window[];
}

export const honest: Traits = {
  ...defaultTickBehavior,
  cap: 100,
  echoWindow: 'echo',
  lagsMs: [0],
  coarseMs: null,
  keepsMs: null,
  gaps: [],
};

export interface ManualTime {
  nowMs: number;
}

export interface Adversary {
  requests: number;
  /** Ticks that some response contained. */
  readonly served: ReadonlySet<Row>;
  ticks(query: TicksQuery): Promise<TickPage>;
}

/** Minimum page size in elements. With a smaller one, most milliseconds would be crowded. */
const capMin = 8;

export function createAdversary(
  truth: ReadonlyMap<string, readonly Row[]>,
  traits: Traits,
  hand: ManualTime,
  random: Random,
): Adversary {
  const symbols = [...truth.keys()];
  const served = new Set<Row>();
  const service: Adversary = {
    requests: 0,
    served,
    async ticks(query) {
      service.requests++;
      for (let i = service.requests % 3; i > 0; i--) await Promise.resolve();
      hand.nowMs += 1 + random.int(20);
      const page = respond(query);
      await Promise.resolve();
      hand.nowMs += 1;
      return page;
    },
  };

  function respond(query: TicksQuery): TickPage {
    const asOf = hand.nowMs;
    const lag = traits.lagsMs[random.int(traits.lagsMs.length)]!;
    const oldest = traits.keepsMs === null ? Number.NEGATIVE_INFINITY : asOf - traits.keepsMs;
    const rows = (truth.get(query.symbol) ?? []).filter(
      (row) =>
        row.t <= asOf - lag &&
        row.seenFrom <= asOf - lag &&
        row.t >= oldest &&
        !traits.gaps.some((gap) => isWithin(row.t, gap)),
    );
    const window = computeMatchedWindow(query, traits);
    const isCoarse = traits.coarseMs !== null && query.to - query.from > traits.coarseMs;
    const inside = rows.filter((row) => window.from <= row.t && row.t < window.to && !(isCoarse && row.t % 2 === 1));
    const before = traits.carryInShare > 0 ? rows.filter((row) => row.t < window.from).slice(-1) : [];
    const { limit, symbol } = query;
    const page = composePage(
      before,
      inside,
      {
        window: query,
        limit,
        n: service.requests,
        rank: symbols.indexOf(symbol),
        nowMs: asOf,
        oldestMs: oldest,
        draw: random.share,
      },
      traits,
      Math.min(capMin, traits.cap),
    );
    const usable = page.elements.filter((row) => row !== null && isUsable(row, traits)) as Row[];
    for (const row of usable) served.add(row);
    const rejected = page.elements
      .filter((row) => row === null || !isUsable(row, traits))
      .map((row): RejectedInput => ({ reason: 'p is not a number', raw: `{"t":${row?.t},"p":"?"}` }));
    return {
      t: Float64Array.from(usable, ({ t }) => t),
      p: Float64Array.from(usable, ({ p }) => p),
      received: page.elements.length,
      rejected,
      gaps: intersect(traits.gaps, [query]),
      generatedAt: computeGeneratedAt(asOf, traits),
      from: page.from,
      to: page.to,
    };
  }
  return service;
}
