import { findInferred } from '../../archive/journal/coverage-store.ts';
import type { Database } from '../../archive/journal/database.ts';
import { readAllSymbols } from '../../archive/journal/symbols.ts';
import { dayMs } from '../../base/window.ts';
import { confirmRequestsPerWindow, estimateRequests } from '../paging/plan.ts';

/** The windows with inferred evidence, and the requests that confirm them. */
export interface RecheckCost {
  readonly windows: number;
  readonly symbols: number;
  /** From the start of the first window to the end of the last, epoch ms. */
  readonly from: number;
  readonly to: number;
  /** Requests of `backfill --recheck inferred`: for the pages and for their confirmation. */
  readonly expected_requests: number;
}

/** Estimates the requests to recheck all inferred windows. @param pageLimit ticks per request */
export function estimateRecheckCost(db: Database, pageLimit: number): RecheckCost {
  const inferred = findInferred(db, { from: -8.64e15, to: 8.64e15 });
  const facts = new Map(readAllSymbols(db).map((known) => [known.symbol, known]));
  let [windows, requests] = [0, 0];
  let [from, to] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const [symbol, list] of inferred) {
    windows += list.length;
    const known = facts.get(symbol);
    const pages =
      known === undefined ? list.length : estimateRequests({ symbol, windows: list, isFirst: false }, known, pageLimit);
    requests += pages + confirmRequestsPerWindow * list.length;
    from = Math.min(from, list[0]!.from);
    to = Math.max(to, list.at(-1)!.to);
  }
  if (windows === 0) [from, to] = [0, dayMs];
  return { windows, symbols: inferred.size, from, to, expected_requests: requests };
}
