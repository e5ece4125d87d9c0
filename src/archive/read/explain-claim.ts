import { isWithin, type Window } from '../../base/window.ts';
import type { Archive } from '../archive.ts';
import type { CompletenessRules } from '../completeness/completeness.ts';
import { type CoveredWindow, isProven } from '../format/coverage.ts';
import type { SymbolFacts } from '../format/market.ts';
import { readCurrentCoverageOf } from '../journal/coverage-store.ts';
import { readEmptyWindows } from '../journal/empty-responses.ts';
import { type GapList, listGaps } from './gaps.ts';

/** What the archive claims of one moment of a symbol, and by which responses. Times are epoch ms. */
export interface Explanation {
  readonly symbol: string;
  readonly at: number;
  readonly state: 'proven' | 'inferred' | 'gap' | 'not expected';
  /** What covers the moment: `fetched_at` is when the (earliest) response was generated. */
  readonly covered: readonly (Window & Pick<CoveredWindow, 'evidence' | 'origin'> & { readonly fetched_at: number })[];
  /** Empty responses of the last nights that speak for it, each within what others showed to be in reach. */
  readonly empty: readonly (Window & { readonly generated_at: number })[];
  readonly gap: GapList['gaps'][number] | null;
}

/** Explains one moment of a symbol: from the coverage, published or journaled, and the empty responses that are kept. */
export function explainClaim(
  archive: Archive,
  facts: SymbolFacts,
  at: number,
  rules: CompletenessRules,
  nowMs: number,
): Explanation {
  const { db } = archive.state;
  const { symbol } = facts;
  const covered = (readCurrentCoverageOf(db, [symbol]).get(symbol) ?? []).filter((window) => isWithin(at, window));
  const { gaps } = listGaps(archive, { from: at, to: at + 1, symbols: [facts] }, rules, nowMs);
  const uncovered = gaps.length === 0 ? 'not expected' : 'gap';
  return {
    symbol,
    at,
    state: covered.some(isProven) ? 'proven' : covered.length > 0 ? 'inferred' : uncovered,
    covered: covered.map(({ from, to, evidence, origin, fetchedAt }) => ({
      ...{ from, to, evidence, origin },
      fetched_at: fetchedAt,
    })),
    empty: readEmptyWindows(db, symbol)
      .filter((window) => isWithin(at, window))
      .map(({ from, to, observedAt }) => ({ from, to, generated_at: observedAt })),
    gap: gaps[0] ?? null,
  };
}
