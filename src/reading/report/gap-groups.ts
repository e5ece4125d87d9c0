import type { Gap } from '../gaps.ts';

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
