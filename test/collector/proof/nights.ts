/** Runs the nightly of the product against a drawn server, night after night, on an archive in memory. */
import { findProvenEnd, isLive, type LingerRules } from '../../../src/archive/completeness/symbol-lifetime.ts';
import { type CoveredWindow, overlayCoverage, withdrawCoverage } from '../../../src/archive/format/coverage.ts';
import { createUnknownSymbol, type SymbolFacts } from '../../../src/archive/format/market.ts';
import type { EmptyWindow } from '../../../src/archive/journal/empty-responses.ts';
import type { TickRecord } from '../../../src/archive/journal/journal.ts';
import { subtract, union, type Window } from '../../../src/base/window.ts';
import { collectTicks, type TickCollectOutcome } from '../../../src/collector/paging/collect-ticks.ts';
import {
  addTail,
  beginAtAnchor,
  computeProofStart,
  findUnprovenStart,
  planPoll,
  type SymbolPlan,
} from '../../../src/collector/paging/plan.ts';
import { computeCut, cutClaim } from '../../../src/collector/paging/prove-coverage.ts';
import { createServerBehavior, getKnownPages, type KnownPages } from '../../../src/collector/paging/server-behavior.ts';
import { findRepeated } from '../../../src/collector/proof/proven.ts';
import { Night, noSilences, type Omission, type Silences } from '../../../src/collector/proof/shown.ts';
import { type Hand, positionOf, type Service } from './server.ts';
import { day, hour, type Listed, midnightOf, type World } from './world.ts';

/** The settings of the product, as they are by default. */
const rules: LingerRules & { overlapMs: number } = {
  lookbackMs: 7 * day,
  lingerMs: 7 * day,
  overlapMs: hour,
};
const settleMs = 24 * hour;
const pageLimit = 5000;
const concurrency = 4;
const memoryMs = 9 * day;
/** Claims of this time before an omission are withdrawn. */
const recentMs = 8 * day;

/** What the archive has of a symbol. */
export interface Held {
  readonly listed: Listed;
  facts: SymbolFacts;
  /** Ascending and distinct. */
  times: number[];
  coverage: CoveredWindow[];
  empties: EmptyWindow[];
  owed: Window[];
  expired: Window[];
  /** Those of them that earlier nights showed. */
  published: readonly number[];
  /** When the last published response was generated. */
  observedAt: number | null;
}

/** What the archive keeps of a source. */
interface SourceMemory {
  silences: Silences;
  pages: Partial<KnownPages>;
  /** When a response last left out a known tick, epoch ms. */
  omittedAt: number | null;
}

export interface NightResult {
  readonly requests: number;
  /** Requests that are needed if each page is asked for once. */
  readonly requestsMin: number;
  readonly symbols: number;
  readonly outcomes: readonly TickCollectOutcome[];
  /** What was planned and is neither covered nor reported, before the cut. */
  readonly forgotten: readonly string[];
  /** Planned ticks of before the cut that are not held, of symbols without a failed request. */
  readonly lost: readonly string[];
  /** Known ticks that responses left out, the first one of each source. */
  readonly omissions: readonly Omission[];
}

export class Archive {
  readonly held = new Map<string, Held>();
  readonly #memory = new Map<string, SourceMemory>();
  /** Sees each record as it is appended. */
  onRecord: (record: TickRecord) => void = () => {};

  /** Applies a record: its ticks before its claims. */
  append(record: TickRecord): void {
    const held = this.held.get(record.symbol)!;
    const isHeld = (t: number): boolean => held.times[positionIn(held.times, t)] === t;
    const added = [...new Set(record.ticks.t.filter((t) => !isHeld(t)).sort())];
    const at = added.length === 0 ? 0 : positionIn(held.times, added[0]!);
    if (at === held.times.length || held.times[at]! > added.at(-1)!) held.times.splice(at, 0, ...added);
    else if (added.length > 0) held.times = [...Float64Array.from([...held.times, ...added]).sort()];
    held.coverage = withdrawCoverage(held.coverage, record.withdrawn ?? []);
    for (const covered of record.covered) held.coverage.push({ ...covered, origin: record.origin });
    this.onRecord(record);
  }

  /** Runs one night, source after source. @param end where it ends, epoch ms: that of a past day with `--date` */
  async runNight(world: World, service: Service, hand: Hand, end = hand.now): Promise<NightResult> {
    const before = service.requests;
    this.#list(world, hand.now);
    const outcomes: TickCollectOutcome[] = [];
    let [symbols, requestsMin] = [0, 0];
    const [forgotten, lost, omissions]: [string[], string[], Omission[]] = [[], [], []];
    for (const source of ['A', 'B']) {
      const all = [...this.held.values()].filter(({ listed }) => listed.source === source);
      const { silences, pages } = this.#memory.get(source) ?? { silences: noSilences, pages: {} };
      const gap = silences.bridge;
      const plans = this.#plan(all, hand.now, Math.min(end, hand.now), gap === null ? 0 : gap.to - gap.from, pages);
      symbols += plans.length;
      const { collected, omission } = await this.#collect(source, plans, service, hand);
      if (omission !== null) omissions.push(omission);
      outcomes.push(collected);
      for (const plan of plans) {
        requestsMin += this.#countPages(plan);
        const unaccounted = this.#findUnaccounted(plan, collected, hand.now);
        forgotten.push(...unaccounted.forgotten);
        lost.push(...unaccounted.lost);
      }
    }
    for (const held of this.held.values()) publish(held);
    return { requests: service.requests - before, requestsMin, symbols, outcomes, forgotten, lost, omissions };
  }

  /** The market lists: new symbols appear, ended ones are no longer active. */
  #list(world: World, now: number): void {
    for (const listed of world.symbols) {
      if (listed.opensAt > now) continue;
      const held = this.held.get(listed.name) ?? createHeld(listed, now);
      this.held.set(listed.name, held);
      const isActive = now < listed.endsAt;
      held.facts = {
        ...held.facts,
        isActive,
        lastSeen: now,
        lastActive: isActive ? now : held.facts.lastActive,
        inactiveSince: isActive ? null : (held.facts.inactiveSince ?? now),
        closesAt: Number.isFinite(listed.endsAt) ? listed.endsAt : null,
      };
    }
  }

  /** As planTickPolls and coverUnprovenTails do. */
  #plan(all: readonly Held[], now: number, end: number, bridgeMs: number, pages: Partial<KnownPages>): SymbolPlan[] {
    const plans: SymbolPlan[] = [];
    for (const held of all) {
      const { facts, times } = held;
      const coverage = union(held.coverage);
      const excluded = union([...coverage, ...held.expired]);
      const planned = planPoll(facts, excluded, end, rules, held.owed);
      if (!isPolled(held, excluded, now)) continue;
      const plan = addTail(planned, { ...facts, lastTick: times.at(-1) ?? null }, coverage, rules);
      if (plan.windows.length === 0) continue;
      const start = findUnprovenStart(
        plan,
        held.coverage,
        computeProofStart(now, { ...rules, settleMs }, createServerBehavior(pages), facts.firstSeen),
        facts.firstSeen,
      );
      const last = held.times.at(-1) ?? null;
      const tick = start === null || (last !== null && last <= start.start) ? last : findTick(held, start.start);
      plans.push(start === null ? plan : beginAtAnchor(plan, start, tick, bridgeMs));
    }
    return plans;
  }

  async #collect(
    source: string,
    plans: readonly SymbolPlan[],
    service: Service,
    hand: Hand,
  ): Promise<{ collected: TickCollectOutcome; omission: Omission | null }> {
    const memory = this.#memory.get(source) ?? {
      pages: {},
      silences: noSilences,
      omittedAt: null,
    };
    const knownFrom = memory.omittedAt === null ? 0 : computeCut(memory.omittedAt, settleMs);
    const behavior = { ...createServerBehavior(memory.pages), omitsTicks: memory.omittedAt !== null };
    const night = new Night();
    const append = async (record: TickRecord): Promise<void> => this.append(record);
    const collected = await collectTicks(
      {
        upstream: service,
        clock: toClock(hand),
        runId: `${source}${hand.now}`,
        origin: 'poll',
        behavior,
        night,
        knownSilences: memory.silences,
        settleMs,
        pieces: true,
        pageLimit,
        futureSkewMs: 60_000,
        signal: new AbortController().signal,
        concurrency,
        append,
        drain: async () => {},
        onPage: () => {},
        onSymbol: () => {},
        getCoverage: (symbol) => union(this.held.get(symbol)!.coverage),
        getUnjudged: () => [],
        getSymbol: (symbol) => {
          const { facts, times, observedAt, coverage } = this.held.get(symbol)!;
          const { firstTick: first, ticks: count, firstSeen, opensAt } = facts;
          const provenTo = findProvenEnd(facts, coverage);
          return { first, last: times.at(-1) ?? null, count, observedAt, firstSeen, opensAt, provenTo };
        },
        findTick: async (symbol, at) => findTick(this.held.get(symbol)!, at),
        loadKnownTimes: async (symbol, { from, to }, observedAt) => {
          const { times, published } = this.held.get(symbol)!;
          const compared = { from: Math.max(from, knownFrom), to: Math.min(to, computeCut(observedAt, settleMs)) };
          const ends = [compared.from, compared.to].map((t) => positionIn(times, t));
          return Float64Array.from(times.slice(...ends).filter((t) => published[positionIn(published, t)] === t));
        },
        onOmission: async ({ at }) => this.#distrust(source, memory.omittedAt === null ? at - recentMs : 0),
      },
      plans,
    );
    const { omission } = night;
    this.#memory.set(source, {
      pages: getKnownPages(behavior) ?? {},
      silences: collected.silences,
      omittedAt: omission?.at ?? memory.omittedAt,
    });
    this.#claimRepeated(collected, hand.now);
    this.#noteOwed(collected);
    return { collected, omission };
  }

  /** As distrustSource does. */
  #distrust(source: string, since: number): void {
    for (const held of this.held.values())
      if (held.listed.source === source)
        held.coverage = held.coverage.flatMap((w): CoveredWindow[] => {
          const from = w.fetchedAt >= since ? w.from : Math.max(w.from, Math.min(w.to, since));
          return [
            { ...w, to: from },
            { ...w, from, evidence: 'inferred' },
          ];
        });
  }

  /** As claimRepeated of the poll does. */
  #claimRepeated({ supports }: TickCollectOutcome, now: number): void {
    for (const held of this.held.values())
      held.empties = held.empties.filter(({ observedAt }) => observedAt >= now - memoryMs);
    for (const support of supports) this.held.get(support.symbol)!.empties.push(support);
    for (const [symbol, own] of Map.groupBy(supports, (support) => support.symbol)) {
      const { coverage, empties } = this.held.get(symbol)!;
      const fetchedAt = Math.min(...own.map(({ observedAt }) => observedAt));
      for (const { from, to } of findRepeated(empties))
        coverage.push(...cutClaim({ from, to, fetchedAt, evidence: 'repeated', origin: 'poll' } as const, settleMs));
    }
  }

  /** As recordOwedWindows does. */
  #noteOwed({ failures, shortHistories }: TickCollectOutcome): void {
    for (const { symbol, from } of shortHistories) {
      const held = this.held.get(symbol)!;
      const { firstSeen, opensAt } = held.facts;
      held.facts = { ...held.facts, servedFrom: Math.min(from, firstSeen) };
      const since = Math.max(firstSeen, opensAt ?? firstSeen);
      if (since < from) held.expired.push({ from: since, to: from });
    }
    for (const failure of failures) this.held.get(failure.symbol)!.owed.push(failure);
    for (const held of this.held.values()) held.owed = subtract(held.owed, held.coverage);
  }

  #findUnaccounted({ symbol, windows }: SymbolPlan, collected: TickCollectOutcome, now: number) {
    const { coverage, times, listed } = this.held.get(symbol)!;
    const reported = [
      ...collected.failures,
      ...collected.behind,
      ...collected.shortHistories.map(({ symbol, from }) => ({ symbol, from: 0, to: from })),
    ].filter((one) => one.symbol === symbol);
    const cut = midnightOf(now - day);
    const planned = subtract(
      windows.map(({ from, to }) => ({ from, to: Math.min(to, cut) })),
      reported,
    );
    const isHeld = (t: number): boolean => times[positionIn(times, t)] === t;
    return {
      forgotten: subtract(planned, coverage).map(({ from, to }) => `${symbol}: [${from}, ${to}) is forgotten`),
      lost: (collected.failed.includes(symbol) ? [] : planned).flatMap(({ from, to }) => {
        const there = listed.times.subarray(positionOf(listed.times, from), positionOf(listed.times, to));
        return [...there].filter((t) => !isHeld(t)).map((t) => `${symbol}: ${t} is lost`);
      }),
    };
  }

  /** One request for each symbol and full page. */
  #countPages({ symbol, windows }: SymbolPlan): number {
    const { times } = this.held.get(symbol)!;
    return windows.reduce((sum, { from, to }) => {
      const ticks = positionIn(times, to) - positionIn(times, from);
      return sum + Math.max(1, Math.ceil(ticks / pageLimit));
    }, 0);
  }
}

const createHeld = (listed: Listed, now: number): Held => ({
  listed,
  facts: {
    ...createUnknownSymbol(listed.name, now),
    listed: true,
    isActive: true,
    opensAt: listed.isOpeningListed ? listed.opensAt : null,
  },
  times: [],
  coverage: [],
  empties: [],
  owed: [],
  expired: [],
  published: [],
  observedAt: null,
});

/** Whether the lists still require it, as needsPolling says of the coverage so far. */
function isPolled({ facts, coverage: responses }: Held, coverage: readonly Window[], now: number): boolean {
  const cursor = coverage.at(-1)?.to ?? Number.NEGATIVE_INFINITY;
  return isLive(facts, { cursor, provenTo: findProvenEnd(facts, responses) }, now, rules);
}

/** What a publish makes of the journal. */
function publish(held: Held): void {
  held.coverage = overlayCoverage(held.coverage);
  if (held.coverage.length > 0) held.observedAt = Math.max(...held.coverage.map(({ fetchedAt }) => fetchedAt));
  const { times } = held;
  held.published = times.slice();
  held.facts = {
    ...held.facts,
    firstTick: times[0] ?? null,
    lastTick: times.at(-1) ?? null,
    ticks: times.length,
    polledFrom: held.facts.polledFrom ?? held.coverage[0]?.from ?? null,
  };
}

/** As findLastTick does: back to the lookback before the time. */
function findTick({ times }: Held, at: number): number | null {
  const tick = times[positionIn(times, at + 1) - 1];
  return tick === undefined || tick < at - rules.lookbackMs ? null : tick;
}

const positionIn = (times: readonly number[], t: number): number => positionOf(times as unknown as Float64Array, t);

const toClock = (hand: Hand) => ({
  nowMs: () => hand.now,
  monotonicMs: () => hand.now,
  sleep: async (ms: number) => {
    hand.now += ms;
  },
});
