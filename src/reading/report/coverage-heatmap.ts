import { intersect, intersectTwo, isEmpty, type Window } from '../../core/window.ts';
import { otherGroupsName } from './market-groups.ts';

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
