import { dayMs, findFirstEndingAfter, intersect, subtract, type Window } from '../../base/window.ts';
import type { GapWindow } from '../../contract/completeness-counts.ts';
import type { DayReason, DayReasonName } from '../../contract/day-reasons.ts';

/** What is known of a symbol; see SymbolCompleteness. */
interface JudgedSymbol {
  readonly covered: readonly Window[];
  readonly proven: readonly Window[];
  /** On a day that is not over, coverage is expected only up to this time. */
  readonly expectedTo: number;
  splitGaps(windows: readonly Window[]): readonly GapWindow[];
}

/** Counts why a day is not complete, while its state is computed from the same windows. */
export interface ReasonTally {
  /** Adds a reason that concerns the day as a whole. `detail`: one clause. */
  addDay(reason: DayReasonName, detail?: string): void;
  /**
   * Adds the reasons why one symbol is not covered by proven windows.
   * @param expected its windows within the day that should be covered in the end
   * @param judgedTo the end of the day or, before that, the current time. Then nothing can be proven to the end, and nothing is
   *   due after the symbol's `expectedTo`.
   */
  addSymbol(symbol: JudgedSymbol, expected: readonly Window[], judgedTo: number): void;
  /** Does the same for a symbol that is expected from `from` to `to`, if it is known that all of this has one reason. */
  addWindow(reason: DayReasonName, from: number, to: number): void;
  list(): DayReason[];
}

/** Starts the counts of a day; `day` is its UTC midnight, epoch ms. */
export function createReasonTally(day: number): ReasonTally {
  const wholeDay = { from: day, to: day + dayMs };
  const bySymbols = new Map<DayReasonName, { symbols: number; from: number; to: number }>();
  const ofDay = new Map<DayReasonName, string | undefined>();
  /** Adds a symbol whose windows with this reason begin at `from` and end at `to`. */
  const addWindow = (reason: DayReasonName, from: number, to: number): void => {
    const known = bySymbols.get(reason);
    if (known === undefined) {
      bySymbols.set(reason, { symbols: 1, from, to });
      return;
    }
    known.symbols++;
    known.from = Math.min(known.from, from);
    known.to = Math.max(known.to, to);
  };
  /** The windows are sorted and disjoint. */
  const add = (reason: DayReasonName, windows: readonly Window[]): void => {
    if (windows.length > 0) addWindow(reason, windows[0]!.from, windows.at(-1)!.to);
  };
  return {
    addDay: (reason, detail) => void ofDay.set(reason, detail),
    addWindow,
    addSymbol({ covered, proven, splitGaps, expectedTo }, expected, judgedTo) {
      const isOver = judgedTo >= wholeDay.to;
      const due = isOver ? expected : intersect(expected, [{ from: day, to: Math.min(judgedTo, expectedTo) }]);
      const answered = intersect(selectNear(covered, wholeDay), due);
      const gaps = splitGaps(subtract(due, answered));
      for (const [reason, windows] of Map.groupBy(gaps, (gap) => gap.reason)) add(reason, windows);
      if (isOver) add('inferred', subtract(answered, selectNear(proven, wholeDay)));
    },
    list: () => [
      ...[...ofDay]
        .filter(([reason]) => !bySymbols.has(reason))
        .map(([reason, detail]) => ({ reason, symbols: 0, ...wholeDay, ...(detail !== undefined && { detail }) })),
      ...[...bySymbols].map(([reason, counts]) => ({ reason, ...counts })),
    ],
  };
}

/** Those of the sorted, disjoint windows that overlap `w`. Uses binary search, since there are many days. */
function selectNear(sorted: readonly Window[], w: Window): readonly Window[] {
  const first = findFirstEndingAfter(sorted, w.from);
  let end = first;
  while (end < sorted.length && sorted[end]!.from < w.to) end++;
  return sorted.slice(first, end);
}
