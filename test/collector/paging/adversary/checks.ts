/** Runs one drawn server against one archive. Returns the errors as text, with the seed; empty if there are none. */
import { type CoveredWindow, isProven, overlayCoverage } from '../../../../src/archive/format/coverage.ts';
import type { SymbolFacts } from '../../../../src/archive/format/market.ts';
import { subtract, union } from '../../../../src/base/window.ts';
import { addTail, beginAtTick, findUnsettledStart, type SymbolPlan } from '../../../../src/collector/paging/plan.ts';
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
  let oldestTick = Number.POSITIVE_INFINITY;
  let known: Partial<KnownPages> = {};
  for (const hours of [5, 9, 13, 19, 25, 26]) {
    hand.nowMs = start + hours * hourMs;
    // Some polls begin at the tick before what the last poll proved too soon, and some confirm their end at once.
    const settleMs = seed % 4 === 0 ? 0 : overlapMs;
    const confirm = hours === 26 || (seed + hours) % 7 === 0 ? 'now' : 'next';
    const plans = [...truth.keys()].map((symbol) =>
      planPoll(lake, symbol, hand.nowMs, overlapMs, { settleMs, confirm }),
    );
    const night = await collectNight(lake, service, hand, plans, 'poll', oldestTick, known);
    known = getKnownPages(night.behavior) ?? known;
    oldestTick = night.behavior.oldestTick;
    const wrong = findFalseClaims(lake, service, truth, traits);
    if (wrong.length > 0) return wrong.map((message) => `${name}, polled at ${hours} h: ${message}`);
  }
  // Then windows are fetched again from the last tick before them, as nights do with what no later poll proves.
  if (seed % 3 !== 0) return [];
  const random = createSeededRandom(seed + 300_000_000);
  const plans = [...truth.keys()].map((symbol): SymbolPlan => {
    const from = start + random.int(24 * hourMs);
    const before = [...(lake.times.get(symbol) ?? [])].filter((t) => t <= from);
    const knownTick = before.length === 0 ? null : Math.max(...before);
    const windows = [{ from: knownTick ?? from, to: from + 1 + random.int(6 * hourMs) }];
    return { symbol, windows, isFirst: false, tail: { lastTick: null, knownTick, inferred: [], confirm: 'now' } };
  });
  await collectNight(lake, service, hand, plans, 'backfill', oldestTick, known, seed % 2 === 0);
  return findFalseClaims(lake, service, truth, traits).map((message) => `${name}, fetched again: ${message}`);
}

/** Plans a poll: from the cursor, with the overlap, and the gaps before it; with `settleMs`, from an earlier tick. */
export function planPoll(
  lake: MemoryArchive,
  symbol: string,
  nowMs: number,
  overlapMs = hourMs / 6,
  { settleMs = 0, confirm = 'next' }: { readonly settleMs?: number; readonly confirm?: 'now' | 'next' } = {},
): SymbolPlan {
  const coverage = lake.coverageOf(symbol);
  const uncovered = subtract([{ from: start, to: nowMs }], coverage);
  const windows = uncovered.map((w) => (w.to === nowMs ? { ...w, from: Math.max(start, w.from - overlapMs) } : w));
  const lastTick = lake.lastTick(symbol);
  const plan = { symbol, windows: union(windows), isFirst: lastTick === null };
  const rules = { overlapMs, lookbackMs: 48 * hourMs, lingerMs: 0, settleMs };
  const facts = { lastTick } as SymbolFacts;
  const tail = inferredTail(coverage);
  const withTail = addTail(plan, facts, union(coverage), tail.length === 0 ? undefined : tail, rules, confirm);
  const unsettled = settleMs === 0 ? null : findUnsettledStart(withTail, coverage, settleMs);
  const earlier = [...(lake.times.get(symbol) ?? [])].filter((t) => unsettled !== null && t <= unsettled);
  return earlier.length === 0 ? withTail : beginAtTick(withTail, Math.max(...earlier), coverage);
}

/** The inferred windows that adjoin each other up to the end of coverage. */
function inferredTail(coverage: readonly CoveredWindow[]): CoveredWindow[] {
  const windows = overlayCoverage(coverage);
  let first = windows.length;
  while (
    first > 0 &&
    !isProven(windows[first - 1]!) &&
    (first === windows.length || windows[first - 1]!.to === windows[first]!.from)
  )
    first--;
  return windows.slice(first);
}
