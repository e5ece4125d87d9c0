import type { CompletenessInput, Gap } from '../../archive/completeness/completeness.ts';
import { computeLifetime } from '../../archive/completeness/symbol-lifetime.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { intersect, intersectTwo, isEmpty, minuteMs, subtract, union, type Window } from '../../base/window.ts';

/** Coverage by group and time step. */
export interface CoverageFacts extends Window {
  readonly stepMs: number;
  readonly groupedBy: GroupingKey;
  /** Sorted by number of symbols, largest first. */
  readonly rows: readonly HeatmapRow[];
}

interface CoverageRules {
  readonly stepMs: number;
  readonly groupsMax: number;
  /** Configured symbols; empty: the symbols of the market lists. */
  readonly named: ReadonlySet<string>;
  readonly nowMs: number;
  /** See LifetimeRules. */
  readonly lookbackMs: number;
  /** Start of the known time, epoch ms: nothing is expected before it. */
  readonly knownFrom: number;
}

/**
 * Computes the coverage of symbol lifetimes in a window. `coverage` is without lost windows, as in CompletenessInput. What is
 * in a damaged file is not covered. Excludes the future, for suspended symbols the time after their last response, and the
 * time in which a symbol was not to be collected.
 */
export function computeCoverageFacts(
  { symbols, coverage, damage }: Pick<CompletenessInput, 'symbols' | 'coverage' | 'damage'>,
  span: Window,
  { stepMs, groupsMax, named: shownGroups, nowMs, knownFrom, lookbackMs }: CoverageRules,
): CoverageFacts {
  const liveSymbols = symbols.flatMap((facts) => {
    const fetched = coverage.get(facts.symbol) ?? [];
    const covered = union(fetched.filter(({ from, to }) => from < span.to && to > span.from));
    const isPolled = shownGroups.size === 0 ? facts.listed : shownGroups.has(facts.symbol);
    if (covered.length === 0 && facts.ticks === 0 && !isPolled) return [];
    const to = facts.suspendedAt === null ? nowMs : (covered.at(-1)?.to ?? Number.NEGATIVE_INFINITY);
    const lifetime = intersectTwo(computeLifetime(facts, covered, { lookbackMs }), {
      from: Math.max(span.from, knownFrom),
      to: Math.min(span.to, to),
    });
    // Most symbols of an archive of years ended before the window.
    if (isEmpty(lifetime)) return [];
    // Nothing is expected while a symbol is not collected.
    const damaged = union(damage?.getWindows(facts.symbol) ?? []);
    const intact = damaged.length === 0 ? covered : subtract(covered, damaged);
    return subtract([lifetime], facts.unselected ?? []).map((part) => ({
      ...{ facts, lifetime: part },
      ...{ covered: intact, damaged },
    }));
  });
  const groups = groupSymbols(
    liveSymbols.map(({ facts }) => facts),
    groupsMax,
  );
  const grouped = liveSymbols.map(
    ({ facts, ...windows }): GroupedCoverage => ({ group: groups.getGroupName(facts), ...windows }),
  );
  return { ...span, stepMs, groupedBy: groups.by, rows: computeHeatmapRows(grouped, span, stepMs) };
}

/** Coverage of one group per time step. */
export interface HeatmapRow {
  readonly group: string;
  /** Number of symbols that were live in the window. */
  readonly symbols: number;
  /** Sum of symbol lifetimes in each step, and its covered part, in milliseconds. */
  readonly lifetimeMs: readonly number[];
  readonly coveredMs: readonly number[];
  /** The part of the lifetimes whose ticks are in damaged files, in milliseconds. */
  readonly damagedMs: readonly number[];
}

/** Coverage of one symbol by sorted, disjoint windows. */
interface GroupedCoverage {
  readonly group: string;
  readonly lifetime: Window;
  readonly covered: readonly Window[];
  /** Not covered. */
  readonly damaged: readonly Window[];
}

/** Sums coverage by group and step. The window is a whole number of steps. Times in epoch ms. */
export function computeHeatmapRows(symbols: Iterable<GroupedCoverage>, span: Window, stepMs: number): HeatmapRow[] {
  const steps = Math.round((span.to - span.from) / stepMs);
  const groups = new Map<string, { symbols: number; lived: StepTotals; covered: StepTotals; damaged: StepTotals }>();
  for (const { group, lifetime, covered, damaged } of symbols) {
    const liveWindow = intersectTwo(lifetime, span);
    if (isEmpty(liveWindow)) continue;
    let sums = groups.get(group);
    if (sums === undefined) {
      sums = {
        symbols: 0,
        lived: createStepTotals(span.from, stepMs, steps),
        covered: createStepTotals(span.from, stepMs, steps),
        damaged: createStepTotals(span.from, stepMs, steps),
      };
      groups.set(group, sums);
    }
    sums.symbols++;
    sums.lived.add(liveWindow);
    for (const window of intersect([liveWindow], covered)) sums.covered.add(window);
    for (const window of intersect([liveWindow], damaged)) sums.damaged.add(window);
  }
  return [...groups]
    .map(([group, { symbols: count, lived: liveSymbols, covered, damaged }]) => ({
      group,
      symbols: count,
      lifetimeMs: liveSymbols.sums(),
      coveredMs: covered.sums(),
      damagedMs: damaged.sums(),
    }))
    .sort((a, b) => toRank(b) - toRank(a) || (a.group < b.group ? -1 : 1));
}

/** Sort key: the group of all others comes last. */
const toRank = ({ group, symbols }: HeatmapRow): number => (group === otherGroupsName ? -1 : symbols);

type StepTotals = ReturnType<typeof createStepTotals>;

/** Sums the time of windows per step. Of consecutive whole steps only the ends are stored, so long windows cost no more. */
function createStepTotals(from: number, stepMs: number, steps: number) {
  const partialMs = new Float64Array(steps + 1);
  const wholeSteps = new Float64Array(steps + 2);
  return {
    add(window: Window) {
      const [first, last] = [window.from, window.to].map((t) => Math.floor((t - from) / stepMs)) as [number, number];
      if (first === last) {
        partialMs[first]! += window.to - window.from;
        return;
      }
      partialMs[first]! += from + (first + 1) * stepMs - window.from;
      partialMs[last]! += window.to - (from + last * stepMs);
      wholeSteps[first + 1]!++;
      wholeSteps[last]!--;
    },
    sums(): number[] {
      let openWindows = 0;
      return Array.from({ length: steps }, (_, i) => {
        openWindows += wholeSteps[i]!;
        return partialMs[i]! + openWindows * stepMs;
      });
    },
  };
}

/** Key by which symbols are grouped: the first one that distinguishes them. */
type GroupingKey = 'category' | 'source' | 'prefix';

/** Name of the group of all symbols that are not in a listed group. */
export const otherGroupsName = 'all others';

const unknownGroupName = 'unknown';

/** Minimum number of groups for a key to be used. */
const groupsMin = 2;

/**
 * Groups symbols into at most `groupsMax` groups, the smallest of which are merged. Groups by category if at least half of
 * the symbols have one and there are several, otherwise by source, otherwise by ticker prefix.
 */
export function groupSymbols(symbols: readonly SymbolFacts[], groupsMax: number) {
  const by = (['category', 'source'] as const).find((name) => {
    const values = symbols.flatMap((facts) => facts[name] ?? []);
    return values.length * 2 >= symbols.length && new Set(values).size >= groupsMin;
  });
  const keyOf = (facts: SymbolFacts): string =>
    by === undefined ? toPrefix(facts.symbol) : (facts[by]?.trim() ?? '') || unknownGroupName;
  const counts = new Map<string, number>();
  for (const facts of symbols) counts.set(keyOf(facts), (counts.get(keyOf(facts)) ?? 0) + 1);
  const order = [...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1)).map(([name]) => name);
  const shownGroups = new Set(order.length <= groupsMax ? order : order.slice(0, groupsMax - 1));
  return {
    by: by ?? ('prefix' as const),
    /** The name of a symbol's group. */
    getGroupName(facts: SymbolFacts): string {
      const key = keyOf(facts);
      return shownGroups.has(key) ? key : otherGroupsName;
    },
  };
}

/** The first word: `KXBTC` of `KXBTC-26NOV23-T90`. The first character if that is a digit or there are no letters. */
const toPrefix = (symbol: string): string => /^[^\p{L}\p{N}]*(\p{L}+)/u.exec(symbol)?.[1] ?? [...symbol][0] ?? '';

/** Gaps of several symbols at the same time, e.g. after an outage. */
export interface GapGroup {
  readonly from: number;
  readonly to: number;
  readonly count: number;
  /** The first few symbols. */
  readonly symbols: readonly string[];
  /** Total length, in milliseconds. */
  readonly missingMs: number;
  readonly reason: Gap['reason'];
}

export interface GapFacts {
  readonly windows: number;
  readonly symbols: number;
  readonly missingMs: number;
  /** Number of groups, and the largest of them. */
  readonly groups: number;
  readonly greatest: readonly GapGroup[];
  readonly oldest: GapGroup | null;
}

const symbolsListedMax = 3;
/** Gaps that start and end in the same quarter hours form a group, because symbols are fetched one after the other. */
const groupedWithinMs = 15 * minuteMs;

/** Groups gaps that start and end in the same quarter hours. */
export function computeGapFacts(gaps: readonly Gap[], groupsMax: number): GapFacts {
  const groups = new Map<string, { -readonly [name in keyof GapGroup]: GapGroup[name] } & { symbols: string[] }>();
  for (const { symbol, from, to, reason } of gaps) {
    const key = [Math.floor(from / groupedWithinMs), Math.floor(to / groupedWithinMs), reason].join();
    const group = groups.get(key);
    if (group === undefined) {
      groups.set(key, { from, to, count: 1, symbols: [symbol], missingMs: to - from, reason });
      continue;
    }
    group.from = Math.min(group.from, from);
    group.to = Math.max(group.to, to);
    group.count++;
    group.missingMs += to - from;
    if (group.symbols.length < symbolsListedMax) group.symbols.push(symbol);
  }
  const all = [...groups.values()].sort((a, b) => b.missingMs - a.missingMs || a.from - b.from);
  return {
    windows: gaps.length,
    symbols: new Set(gaps.map(({ symbol }) => symbol)).size,
    missingMs: gaps.reduce((sum, { from, to }) => sum + to - from, 0),
    groups: all.length,
    greatest: all.slice(0, groupsMax),
    oldest: all.reduce<GapGroup | null>(
      (oldest, group) => (oldest === null || group.from < oldest.from ? group : oldest),
      null,
    ),
  };
}
