/** Runs one drawn server against one archive. Returns the errors as text, with the seed; empty if there are none. */
import type { SymbolFacts } from '../../../../src/archive/format/market.ts';
import { subtract, union } from '../../../../src/base/window.ts';
import { addTail, beginAtAnchor, findUnprovenStart, type SymbolPlan } from '../../../../src/collector/paging/plan.ts';
import { getKnownPages, type KnownPages } from '../../../../src/collector/paging/server-behavior.ts';
import { drawTraits, drawTruth, hourMs, type Kind, start } from './draw.ts';
import { type MemoryArchive, openMemoryArchive } from './lake.ts';
import { collectNight, findFalseClaims, findMissedTicks, findUnaccounted } from './night.ts';
import { createSeededRandom } from './random.ts';
import { createAdversary } from './server.ts';

const day = { from: start, to: start + 24 * hourMs };

function draw(seed: number, kind: Kind) {
  const random = createSeededRandom(seed);
  const traits = drawTraits(random, kind);
  const truth = drawTruth(random, 1 + random.int(5));
  const hand = { nowMs: day.to + hourMs };
  const service = createAdversary(truth, traits, hand, createSeededRandom(seed + 700_000_000));
  return { traits, truth, hand, service, name: `seed ${seed} ${JSON.stringify(traits)}` };
}

/** Errors after one backfill of a day. */
export async function backfillOnce(seed: number, kind: Kind): Promise<string[]> {
  const { traits, truth, hand, service, name } = draw(seed, kind);
  const startedMs = hand.nowMs;
  const lake = openMemoryArchive();
  const plans = [...truth.keys()].map((symbol) => ({ symbol, windows: [day], isFirst: false }));
  const night = await collectNight(lake, service, hand, plans, 'backfill');
  const visibleMs = startedMs - Math.max(...traits.lagsMs) - 2000;
  const wrong = [
    ...findFalseClaims(lake, service, truth, traits),
    ...plans.flatMap((plan) =>
      findUnaccounted(lake, night, plan, visibleMs).map((w) => `${plan.symbol}: forgotten [${w.from}, ${w.to})`),
    ),
    ...findMissedTicks(lake, night, plans, truth, traits, visibleMs),
  ];
  return wrong.map((message) => `${name}: ${message}`);
}

/** Errors after each of several polls, a few hours apart. */
export async function continueOnce(seed: number, kind: Kind): Promise<string[]> {
  const { traits, truth, hand, service, name } = draw(seed, kind);
  const lake = openMemoryArchive();
  const overlapMs = [hourMs / 6, 2 * hourMs, 6 * hourMs][seed % 3]!;
  let known: Partial<KnownPages> = {};
  for (const hours of [5, 9, 13, 19, 25, 26]) {
    hand.nowMs = start + hours * hourMs;
    const plans = [...truth.keys()].map((symbol) => planPoll(lake, symbol, hand.nowMs, overlapMs));
    const night = await collectNight(lake, service, hand, plans, 'poll', known);
    known = getKnownPages(night.behavior) ?? known;
    const wrong = findFalseClaims(lake, service, truth, traits);
    if (wrong.length > 0) return wrong.map((message) => `${name}, polled at ${hours} h: ${message}`);
  }
  // Then windows are fetched again from the last tick before them, as nights do with holes.
  if (seed % 3 !== 0) return [];
  const random = createSeededRandom(seed + 300_000_000);
  const plans = [...truth.keys()].map((symbol): SymbolPlan => {
    const from = start + random.int(24 * hourMs);
    const before = [...(lake.times.get(symbol) ?? [])].filter((t) => t <= from);
    const knownTick = before.length === 0 ? null : Math.max(...before);
    const windows = [{ from: knownTick ?? from, to: from + 1 + random.int(6 * hourMs) }];
    return { symbol, windows, isFirst: false, tail: { lastTick: null, knownTick } };
  });
  await collectNight(lake, service, hand, plans, 'backfill', known, seed % 2 === 0);
  return findFalseClaims(lake, service, truth, traits).map((message) => `${name}, fetched again: ${message}`);
}

/** Plans a poll: from the last tick before what is not proven, at least from the cursor with the overlap, and the gaps before. */
export function planPoll(lake: MemoryArchive, symbol: string, nowMs: number, overlapMs = hourMs / 6): SymbolPlan {
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
