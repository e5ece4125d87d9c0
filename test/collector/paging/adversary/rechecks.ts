/** Simulates nights with rechecks against one drawn server: when claimed ticks were missing, and when that was found. */
import { type CoveredWindow, isProven } from '../../../../src/archive/format/coverage.ts';
import type { SymbolFacts } from '../../../../src/archive/format/market.ts';
import type { TickRecord } from '../../../../src/archive/journal/journal.ts';
import {
  computeOverlapMs,
  emptyRecheckHistory,
  type RecheckHistory,
  recordLateness,
} from '../../../../src/archive/journal/recheck-results.ts';
import { isWithin, subtract, union, type Window } from '../../../../src/base/window.ts';
import { type FetchContext, requestWindow } from '../../../../src/collector/paging/fetch-symbol.ts';
import { addTail, beginAtAnchor, findUnprovenStart, type SymbolPlan } from '../../../../src/collector/paging/plan.ts';
import { createServerBehavior } from '../../../../src/collector/paging/server-behavior.ts';
import { Night } from '../../../../src/collector/proof/shown.ts';
import {
  createDemotion,
  type RecheckNightContext,
  type RecheckNightOutcome,
  recheckNight,
} from '../../../../src/collector/rechecks/recheck.ts';
import { countRechecks, countRereadRequests } from '../../../../src/collector/rechecks/recheck-plan.ts';
import { isUsable } from '../../../../src/sandbox/tick-behavior.ts';
import { drawTraits, hourMs, start } from './draw.ts';
import { type MemoryArchive, openMemoryArchive } from './lake.ts';
import { collectNight, toClock } from './night.ts';
import { createSeededRandom, type Random } from './random.ts';
import { type Adversary, createAdversary, type ManualTime, type Row, type Traits } from './server.ts';

export type Misbehavior = 'honest' | 'sampling' | 'coarse' | 'joining' | 'lagging replica' | 'late ticks';

interface Simulated {
  readonly name: string;
  /**
   * The first night, counted from 0, after whose poll 1 % of a night's ticks was missing, and the first night that found
   * some. Null: none.
   */
  readonly firstMissing: number | null;
  readonly firstFound: number | null;
  /** Ticks that were claimed as proven and missing, after each night. */
  readonly missing: readonly number[];
  readonly nights: readonly RecheckNightOutcome[];
  /** Requests of the polls, and all other requests. */
  readonly pollRequests: number;
  readonly recheckRequests: number;
  /** The overlap of the last poll, in ms. */
  readonly overlapMs: number;
}

const dayMs = 24 * hourMs;
/** If a server omits nothing for this many nights, the simulation ends. */
const nightsUndue = 4;
const configured = { overlapMs: hourMs, boundMs: dayMs, share: 0.01 };

function drawServer(random: Random, kind: Misbehavior): Traits {
  const traits = drawTraits(random, kind === 'sampling' || kind === 'joining' ? kind : 'contiguous');
  return {
    ...traits,
    // Other tests cover servers that ignore from/to or have gaps.
    ...({
      honors: 'window',
      unusableShare: 0,
      keepsMs: null,
      gaps: [],
      generatedAtResolutionMs: 0,
    } satisfies Partial<Traits>),
    cap: 40 + random.int(400),
    ...(kind === 'sampling' && { sample: 20 + random.int(300) }),
    ...(kind === 'coarse' && { coarseMs: random.pick([2, 6, 12]) * hourMs }),
    ...(kind === 'lagging replica' && { lagsMs: [0, 0, random.pick([3, 6, 11]) * hourMs] }),
  };
}

/** Ticks of some symbols over some days. With late ticks, some become visible only hours after their time. */
function drawTicks(random: Random, days: number, isLate: boolean): Map<string, Row[]> {
  const lateMsMax = random.pick([2, 4, 9]) * hourMs;
  const lateShare = random.pick([0.02, 0.1, 0.3]);
  return new Map(
    Array.from({ length: 1 + random.int(5) }, (_, s) => {
      const perDay = 20 + random.int(400);
      const times = new Set<number>();
      for (let i = 0; i < perDay * days; i++) times.add(start + random.int(days * dayMs));
      const rows = [...times]
        .sort((a, b) => a - b)
        .map((t): Row => {
          const seenFrom = isLate && random.chance(lateShare) ? t + random.int(lateMsMax) : 0;
          return { t, p: random.int(1000) / 1000, seenFrom };
        });
      return [`S${s}`, rows];
    }),
  );
}

/** Polls a drawn server night after night, with rechecks like the nightly job. */
export async function simulateNights(
  seed: number,
  kind: Misbehavior,
  nightsMax: number,
  { share = configured.share, isUntilFound = false }: { share?: number; isUntilFound?: boolean } = {},
): Promise<Simulated> {
  const random = createSeededRandom(seed);
  const traits = drawServer(random, kind);
  const truth = drawTicks(random, nightsMax, kind === 'late ticks');
  const hand: ManualTime = { nowMs: start };
  const service = createAdversary(truth, traits, hand, createSeededRandom(seed + 700_000_000));
  const lake = openMemoryArchive();
  const symbols = [...truth.keys()];
  const missing: number[] = [];
  const nights: RecheckNightOutcome[] = [];
  const sum = { pollRequests: 0, recheckRequests: 0 };
  let memory: RecheckHistory = emptyRecheckHistory;
  let overlapMs = configured.overlapMs;
  let firstMissing: number | null = null;
  let firstFound: number | null = null;
  const overlapOf = (known: RecheckHistory): number =>
    computeOverlapMs(known, configured.overlapMs, configured.boundMs);
  for (let n = 0; n < nightsMax; n++) {
    hand.nowMs = start + (n + 1) * dayMs - random.int(hourMs);
    const end = hand.nowMs;
    overlapMs = overlapOf(memory);
    const isCaught = memory.caughtAt !== null;
    const plans = symbols
      .map((symbol) => planPoll(lake, symbol, end, overlapMs))
      .map((plan) => (isCaught ? plain(plan) : plan));
    const claimed = new Map(symbols.map((symbol) => [symbol, lake.coverageOf(symbol)]));
    const storedTimes = new Map(symbols.map((symbol) => [symbol, new Set(lake.times.get(symbol))]));
    const night = await collectNight(lake, service, hand, plans, 'poll', {}, isCaught);
    // Ticks that the overlap returns are late. A publish measures the lateness.
    if (!isCaught)
      memory = recordLateness(memory, end, overlapLateness(lake, claimed, storedTimes, overlapMs), hand.nowMs);
    sum.pollRequests += night.requests;
    const threshold = ticksOf(lake) / (n + 1) / 100;
    if (firstMissing === null && missingOf(lake, truth, traits, hand.nowMs).length > threshold) firstMissing = n;
    const context = contextOf(lake, service, hand, { symbols, endMs: end, seed: seed * 1000 + n });
    const windows = countRechecks(share, night.requests);
    const limits = { windows, rereadRequestsMax: countRereadRequests(night.requests), computeOverlapMs: overlapOf };
    const rechecked = await recheckNight(context, memory, limits, isCaught && night.behavior.contradictions > 0);
    ({ memory } = rechecked);
    sum.recheckRequests += rechecked.requests;
    nights.push(rechecked);
    const missingCount = missingOf(lake, truth, traits, hand.nowMs).length;
    // A wider overlap finds doubtful ticks too: fewer ticks are missing than counted.
    const isHealed = firstMissing !== null && missingCount <= threshold;
    if (firstFound === null && (rechecked.contradicted > 0 || isHealed)) firstFound = n;
    missing.push(missingCount);
    if (isUntilFound && firstFound !== null && firstMissing !== null) break;
    if (isUntilFound && n === nightsUndue && firstMissing === null) break;
  }
  const name = `seed ${seed} ${kind} ${JSON.stringify(traits)}`;
  return { name, firstMissing, firstFound, missing, nights, ...sum, overlapMs };
}

function overlapLateness(
  lake: MemoryArchive,
  claimed: ReadonlyMap<string, readonly CoveredWindow[]>,
  storedTimes: ReadonlyMap<string, ReadonlySet<number>>,
  overlapMs: number,
): number {
  let latenessMs = 0;
  for (const [symbol, windows] of claimed)
    for (const t of lake.times.get(symbol) ?? [])
      if (!storedTimes.get(symbol)!.has(t))
        for (const w of windows)
          if (isWithin(t, w)) latenessMs = Math.max(latenessMs, w.fetchedAt - t <= overlapMs ? w.fetchedAt - t : 0);
  return latenessMs;
}

/** Plans a poll: from the last tick before what is not proven, at least from the cursor with the overlap, and the gaps before. */
function planPoll(lake: MemoryArchive, symbol: string, nowMs: number, overlapMs: number): SymbolPlan {
  const coverage = lake.coverageOf(symbol);
  const uncovered = subtract([{ from: start, to: nowMs }], coverage);
  const windows = uncovered.map((w) => (w.to === nowMs ? { ...w, from: Math.max(start, w.from - overlapMs) } : w));
  const lastTick = lake.lastTick(symbol);
  const plan = { symbol, windows: union(windows), isFirst: lastTick === null };
  const rules = { overlapMs, lookbackMs: 48 * hourMs, lingerMs: 0 };
  const facts = { lastTick } as SymbolFacts;
  const withTail = addTail(plan, facts, union(coverage), rules);
  const begin = findUnprovenStart(withTail, coverage, start, start);
  return begin === null ? withTail : beginAtAnchor(withTail, begin, lake.findTick(symbol, begin.start), 0);
}

const plain = ({ tail: _, ...plan }: SymbolPlan): SymbolPlan => plan;

const ticksOf = (lake: MemoryArchive): number => [...lake.times.values()].reduce((sum, { size }) => sum + size, 0);

/** Usable ticks that the server shows by now, inside of proven coverage and missing in the archive. */
function missingOf(
  lake: MemoryArchive,
  truth: ReadonlyMap<string, readonly Row[]>,
  traits: Traits,
  nowMs: number,
): number[] {
  return [...truth].flatMap(([symbol, rows]) => {
    const storedTimes = lake.times.get(symbol) ?? new Set();
    const claimed = lake.coverageOf(symbol).filter(isProven);
    return rows
      .filter((row) => isUsable(row, traits) && row.seenFrom <= nowMs && !storedTimes.has(row.t))
      .filter(({ t }) => claimed.some((w) => isWithin(t, w)))
      .map(({ t }) => t);
  });
}

interface NightOf {
  readonly symbols: readonly string[];
  readonly endMs: number;
  readonly seed: number;
}

function contextOf(
  lake: MemoryArchive,
  service: Adversary,
  hand: ManualTime,
  { symbols, endMs, seed }: NightOf,
): RecheckNightContext {
  const drawn = createSeededRandom(seed);
  const cover: FetchContext = {
    upstream: service,
    clock: toClock(hand),
    runId: 'run',
    origin: 'poll',
    behavior: createServerBehavior(),
    pageLimit: 5000,
    futureSkewMs: 60_000,
    signal: new AbortController().signal,
    append: lake.append,
    onPage: () => {},
    night: new Night(),
  };
  const record = (symbol: string, windows: readonly Window[]): TickRecord => ({
    runId: 'run',
    symbol,
    requestedWindow: { from: 0, to: 0 },
    observedAt: hand.nowMs,
    origin: 'poll',
    rank: 1,
    ticks: { t: new Float64Array(), p: new Float64Array() },
    rejected: [],
    covered: [],
    withdrawn: windows,
  });
  return {
    symbols: symbols.map((symbol) => ({ symbol, ticks: lake.times.get(symbol)?.size ?? 0 })),
    endMs,
    random: drawn.share,
    getCoverage: (symbol) => lake.coverageOf(symbol).toSorted((a, b) => a.from - b.from),
    loadTickTimes: async (symbol, { from, to }) =>
      Float64Array.from([...(lake.times.get(symbol) ?? [])].filter((t) => from <= t && t < to)).sort(),
    requestPage: (symbol, window) => requestWindow(cover, symbol, window),
    withdraw: (symbol, windows) => lake.append(record(symbol, windows)),
    demote: (symbol, windows: readonly CoveredWindow[]) =>
      lake.append({ ...record(symbol, []), origin: windows[0]!.origin, ...createDemotion(windows) }),
    refetch: async (plans) => {
      await collectNight(lake, service, hand, plans, 'poll', {}, true);
    },
    nowMs: () => hand.nowMs,
    countRequests: () => service.requests,
  };
}
