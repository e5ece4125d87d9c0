import { intersect, union, type Window } from '../../base/window.ts';
import type { SymbolPlan } from '../paging/plan.ts';

/**
 * Measures how much of these plans is done: half by the symbols, half by the time of their windows that has been fetched.
 * A symbol that takes many pages moves it with each page. Every symbol counts too, however short its windows are, because
 * it takes some requests: by time alone, a run that starts with young symbols seems to be far slower than it is.
 */
export function measureCoveredShare(plans: readonly SymbolPlan[]) {
  const windows = new Map(plans.map((plan) => [plan.symbol, plan.windows]));
  const covered = new Map<string, Window[]>();
  const symbolCount = windows.size;
  const totalMs = plans.reduce((sum, plan) => sum + sumWidths(plan.windows), 0);
  let doneMs = 0;
  let shown = 0;
  return {
    /** Notes windows that a response covered. Windows outside the plan and repeated ones count nothing. */
    noteCovered(symbol: string, found: readonly Window[]) {
      const planned = windows.get(symbol);
      if (planned === undefined || found.length === 0) return;
      covered.set(symbol, union([...(covered.get(symbol) ?? []), ...intersect(planned, union(found))]));
    },
    /** Notes that a symbol is finished, whether or not all of its windows are covered. */
    noteDone(symbol: string) {
      const planned = windows.get(symbol);
      if (planned === undefined) return;
      doneMs += sumWidths(planned);
      windows.delete(symbol);
      covered.delete(symbol);
    },
    /** From 0 to 1, never falling. 1 if nothing is planned. */
    share(): number {
      if (totalMs === 0) return 1;
      // Only the symbols that are being fetched are in the map.
      let coveredMs = doneMs;
      let symbols = symbolCount - windows.size;
      for (const [symbol, found] of covered) {
        const ms = sumWidths(found);
        coveredMs += ms;
        symbols += ms === 0 ? 0 : ms / sumWidths(windows.get(symbol)!);
      }
      // A withdrawn window is fetched again.
      shown = Math.max(shown, Math.min(1, (coveredMs / totalMs + symbols / symbolCount) / 2));
      return shown;
    },
  };
}

const sumWidths = (windows: readonly Window[]): number => windows.reduce((sum, { from, to }) => sum + to - from, 0);
