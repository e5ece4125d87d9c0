import { intersect, intersection, isEmpty, type Window } from '../../core/window.ts';
import { otherGroups } from './market-groups.ts';

/** How much of the lives of a group's symbols is covered, step by step. */
export interface HeatRow {
  readonly group: string;
  /** Symbols that lived in the span. */
  readonly symbols: number;
  /** Milliseconds that its symbols lived in each step, and those of them that are covered. */
  readonly livedMs: readonly number[];
  readonly coveredMs: readonly number[];
}

/** One symbol: sorted, disjoint windows are covered of it. */
export interface LivedSymbol {
  readonly group: string;
  readonly life: Window;
  readonly covered: readonly Window[];
}

/** Sums up symbols by group over the steps of a span, which is a whole number of them. Times are epoch milliseconds. */
export function heatRows(symbols: Iterable<LivedSymbol>, span: Window, stepMs: number): HeatRow[] {
  const steps = Math.round((span.to - span.from) / stepMs);
  const groups = new Map<string, { symbols: number; lived: Spread; covered: Spread }>();
  for (const { group, life, covered } of symbols) {
    const living = intersection(life, span);
    if (isEmpty(living)) continue;
    let sums = groups.get(group);
    if (sums === undefined) {
      sums = { symbols: 0, lived: spreadOver(span.from, stepMs, steps), covered: spreadOver(span.from, stepMs, steps) };
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
      livedMs: lived.sums(),
      coveredMs: covered.sums(),
    }))
    .sort((a, b) => rankOf(b) - rankOf(a) || (a.group < b.group ? -1 : 1));
}

/** The rest comes last, however many they are. */
const rankOf = ({ group, symbols }: HeatRow): number => (group === otherGroups ? -1 : symbols);

interface Spread {
  add(window: Window): void;
  sums(): number[];
}

/** Spreads windows over steps: whole steps by where they begin and end, so that a long window costs no more than a short one. */
function spreadOver(from: number, stepMs: number, steps: number): Spread {
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
