import type { Gap } from '../../archive/completeness/completeness.ts';
import { computeLifetime } from '../../archive/completeness/symbol-lifetime.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { readCoverageIn } from '../../archive/journal/coverage.ts';
import type { Database } from '../../archive/journal/database.ts';
import { readLostTicksIn } from '../../archive/journal/gap-records.ts';
import { intersect, intersectTwo, isEmpty, subtract, union, type Window } from '../../base/window.ts';

/** Coverage by group and step of time. */
export interface CoverageFacts extends Window {
  readonly stepMs: number;
  readonly groupedBy: GroupingKey;
  /** The group of the most symbols first. */
  readonly rows: readonly HeatmapRow[];
}

interface SymbolCoverage {
  readonly facts: SymbolFacts;
  readonly lifetime: Window;
  readonly covered: readonly Window[];
}

interface CoverageRules {
  readonly stepMs: number;
  readonly groupsMax: number;
  /** Symbols that are polled whatever the lists say; none: those of the lists. */
  readonly named: ReadonlySet<string>;
  readonly nowMs: number;
  /** See LifetimeRules. */
  readonly lookbackMs: number;
  /** The first moment of which anything is known. */
  readonly knownFrom: number;
}

/**
 * How much of the lives of symbols is covered in a span. Nothing is expected of what is still to come, nor of one that
 * is suspended after its last answer.
 */
export function computeCoverageFacts(
  db: Database,
  symbols: readonly SymbolFacts[],
  span: Window,
  { stepMs, groupsMax, named, nowMs, knownFrom, lookbackMs }: CoverageRules,
): CoverageFacts {
  const [coverage, lost] = [readCoverageIn(db, span), readLostTicksIn(db, span)];
  const lived = symbols.flatMap((facts): SymbolCoverage[] => {
    const answers = coverage.get(facts.symbol) ?? [];
    const covered = lost.has(facts.symbol) ? subtract(answers, lost.get(facts.symbol)!) : union(answers);
    const isAsked = named.size === 0 ? facts.listed : named.has(facts.symbol);
    if (covered.length === 0 && facts.ticks === 0 && !isAsked) return [];
    const to = facts.suspendedAt === null ? nowMs : (covered.at(-1)?.to ?? Number.NEGATIVE_INFINITY);
    const life = intersectTwo(computeLifetime(facts, covered, { lookbackMs }), {
      from: Math.max(span.from, knownFrom),
      to: Math.min(span.to, to),
    });
    return isEmpty(life) ? [] : [{ facts, lifetime: life, covered }];
  });
  const groups = groupSymbols(
    lived.map(({ facts }) => facts),
    groupsMax,
  );
  const grouped = lived.map(
    ({ facts, lifetime, covered }): GroupedCoverage => ({ group: groups.getGroupName(facts), lifetime, covered }),
  );
  return { ...span, stepMs, groupedBy: groups.by, rows: computeHeatmapRows(grouped, span, stepMs) };
}

/** How much of the lives of a group's symbols is covered, step by step. */
export interface HeatmapRow {
  readonly group: string;
  /** Symbols that lived in the span. */
  readonly symbols: number;
  /** Milliseconds that its symbols lived in each step, and those of them that are covered. */
  readonly lifetimeMs: readonly number[];
  readonly coveredMs: readonly number[];
}

/** One symbol: sorted, disjoint windows are covered of it. */
export interface GroupedCoverage {
  readonly group: string;
  readonly lifetime: Window;
  readonly covered: readonly Window[];
}

/** Sums up symbols by group over the steps of a span, which is a whole number of them. Times are epoch milliseconds. */
export function computeHeatmapRows(symbols: Iterable<GroupedCoverage>, span: Window, stepMs: number): HeatmapRow[] {
  const steps = Math.round((span.to - span.from) / stepMs);
  const groups = new Map<string, { symbols: number; lived: StepTotals; covered: StepTotals }>();
  for (const { group, lifetime, covered } of symbols) {
    const living = intersectTwo(lifetime, span);
    if (isEmpty(living)) continue;
    let sums = groups.get(group);
    if (sums === undefined) {
      sums = {
        symbols: 0,
        lived: createStepTotals(span.from, stepMs, steps),
        covered: createStepTotals(span.from, stepMs, steps),
      };
      groups.set(group, sums);
    }
    sums.symbols++;
    sums.lived.add(living);
    for (const window of intersect([living], covered)) sums.covered.add(window);
  }
  return [...groups]
    .map(([group, { symbols: count, lived, covered }]) => ({
      group,
      symbols: count,
      lifetimeMs: lived.sums(),
      coveredMs: covered.sums(),
    }))
    .sort((a, b) => toRank(b) - toRank(a) || (a.group < b.group ? -1 : 1));
}

/** The rest comes last, however many they are. */
const toRank = ({ group, symbols }: HeatmapRow): number => (group === otherGroupsName ? -1 : symbols);

interface StepTotals {
  add(window: Window): void;
  sums(): number[];
}

/** Spreads windows over steps: whole steps by where they begin and end, so that a long window costs no more than a short one. */
function createStepTotals(from: number, stepMs: number, steps: number): StepTotals {
  const part = new Float64Array(steps + 1);
  const whole = new Float64Array(steps + 2);
  return {
    add(window) {
      const [first, last] = [window.from, window.to].map((t) => Math.floor((t - from) / stepMs)) as [number, number];
      if (first === last) {
        part[first]! += window.to - window.from;
        return;
      }
      part[first]! += from + (first + 1) * stepMs - window.from;
      part[last]! += window.to - (from + last * stepMs);
      whole[first + 1]!++;
      whole[last]!--;
    },
    sums() {
      let open = 0;
      return Array.from({ length: steps }, (_, i) => {
        open += whole[i]!;
        return part[i]! + open * stepMs;
      });
    },
  };
}

/** What symbols are grouped by: the first of these that tells them apart. */
export type GroupingKey = 'category' | 'source' | 'prefix';

export interface SymbolGrouping {
  readonly by: GroupingKey;
  /** The name of a symbol's group. */
  getGroupName(facts: SymbolFacts): string;
}

/** The rest, where there are more groups than are shown. */
export const otherGroupsName = 'all others';

const unknownGroupName = 'unknown';

/** A group of symbols that has no more than these tells nothing apart. */
const groupsMin = 2;

/**
 * Groups symbols so that there are at most `groupsMax`, those of the most symbols under their own name: by category where
 * half of them have one and there are several, else by source, else by what their tickers begin with.
 */
export function groupSymbols(symbols: readonly SymbolFacts[], groupsMax: number): SymbolGrouping {
  const by = (['category', 'source'] as const).find((name) => {
    const known = symbols.flatMap((facts) => facts[name] ?? []);
    return known.length * 2 >= symbols.length && new Set(known).size >= groupsMin;
  });
  const keyOf = (facts: SymbolFacts): string =>
    by === undefined ? toPrefix(facts.symbol) : (facts[by]?.trim() ?? '') || unknownGroupName;
  const counts = new Map<string, number>();
  for (const facts of symbols) counts.set(keyOf(facts), (counts.get(keyOf(facts)) ?? 0) + 1);
  const order = [...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1)).map(([name]) => name);
  const named = new Set(order.length <= groupsMax ? order : order.slice(0, groupsMax - 1));
  return {
    by: by ?? 'prefix',
    getGroupName(facts) {
      const key = keyOf(facts);
      return named.has(key) ? key : otherGroupsName;
    },
  };
}

/** `KXBTC` of `KXBTC-26NOV23-T90`: up to the first character that is no letter; all of it where that is none. */
const toPrefix = (symbol: string): string => /^\p{L}+/u.exec(symbol)?.[0] ?? symbol.slice(0, 1);

/** Gaps of several symbols at one time, as an outage makes them. */
export interface GapGroup {
  readonly from: number;
  readonly to: number;
  readonly count: number;
  /** The first of them. */
  readonly symbols: readonly string[];
  /** Milliseconds of all of them together. */
  readonly missingMs: number;
  readonly reason: Gap['reason'];
}

export interface GapFacts {
  readonly windows: number;
  readonly symbols: number;
  readonly lost: number;
  readonly missingMs: number;
  /** Those that reach beyond a moment: what came of late. */
  readonly recent: { readonly windows: number; readonly symbols: number };
  /** Groups there are, and the greatest of them, at most so many. */
  readonly groups: number;
  readonly greatest: readonly GapGroup[];
  readonly oldest: GapGroup | null;
  /** From the start of the first gap to the end of the last; null where there is none. */
  readonly span: { readonly from: number; readonly to: number } | null;
}

const symbolsListedMax = 3;
/** Ends that are as near as that are one: symbols are asked one after another. */
const groupedWithinMs = 15 * 60_000;

/** Puts gaps together that begin and end within the same quarter hours. `recentFrom`: epoch ms. */
export function computeGapFacts(gaps: readonly Gap[], groupsMax: number, recentFrom: number): GapFacts {
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
  const least = (of: (group: GapGroup) => number): number =>
    all.reduce((found, group) => Math.min(found, of(group)), Number.POSITIVE_INFINITY);
  const recent = gaps.filter(({ to }) => to > recentFrom);
  return {
    windows: gaps.length,
    symbols: new Set(gaps.map(({ symbol }) => symbol)).size,
    lost: gaps.filter(({ reason }) => reason === 'lost').length,
    missingMs: gaps.reduce((sum, { from, to }) => sum + to - from, 0),
    recent: { windows: recent.length, symbols: new Set(recent.map(({ symbol }) => symbol)).size },
    groups: all.length,
    greatest: all.slice(0, groupsMax),
    oldest: all.reduce<GapGroup | null>((old, group) => (old === null || group.from < old.from ? group : old), null),
    span: all.length === 0 ? null : { from: least(({ from }) => from), to: -least(({ to }) => -to) },
  };
}
