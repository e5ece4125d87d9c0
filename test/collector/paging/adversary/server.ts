/**
 * A service composed at random of ways to answer badly. It knows nothing of what the pager believes: each way is a
 * switch of its own, and any may meet any other. How it makes a page of its ticks is the sandbox's own code.
 */
import type { RejectedInput } from '../../../../src/base/ticks.ts';
import { intersect, isWithin, type Window } from '../../../../src/base/window.ts';
import type { TickPage, TicksQuery } from '../../../../src/client/upstream.ts';
import {
  composePage,
  computeMatchedWindow,
  computeStatedMoment,
  defaultTickBehavior,
  isUsable,
  type TickBehavior,
} from '../../../../src/sandbox/tick-behavior.ts';
import type { Random } from './random.ts';

/** One tick of the truth, epoch ms. It can be seen from `seenFrom` on. */
export interface Row {
  readonly t: number;
  readonly p: number;
  readonly seenFrom: number;
}

export interface Traits extends TickBehavior {
  /** Lags of its replicas, ms; one answers each request. */
  readonly lagsMs: readonly number[];
  /** Windows wider than so many ms are answered with a coarser grid: every second tick, always the same ones. */
  readonly coarseMs: number | null;
  /** Oldest tick that it answers with, ms before now; null: all. */
  readonly keepsMs: number | null;
  /** Windows that it lacks and names. */
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

export interface Hand {
  nowMs: number;
}

export interface Adversary {
  requests: number;
  /** Ticks that some response brought. */
  readonly served: ReadonlySet<Row>;
  ticks(query: TicksQuery): Promise<TickPage>;
}

/** Elements that every page has room for, whatever its cap: fewer would make crowds of most milliseconds. */
const capMin = 8;

export function adversary(
  truth: ReadonlyMap<string, readonly Row[]>,
  traits: Traits,
  hand: Hand,
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
      .map((row): RejectedInput => ({ reason: 'p is no number', raw: `{"t":${row?.t},"p":"?"}` }));
    return {
      t: Float64Array.from(usable, ({ t }) => t),
      p: Float64Array.from(usable, ({ p }) => p),
      received: page.elements.length,
      rejected,
      gaps: intersect(traits.gaps, [query]),
      generatedAt: computeStatedMoment(asOf, traits),
      from: page.from,
      to: page.to,
    };
  }
  return service;
}
