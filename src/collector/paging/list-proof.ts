import type { ListCheck } from '../../archive/journal/list-checks.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { dayMs } from '../../base/window.ts';

/*
 * When a market list is known to be whole. A list that is cut off may look like any other: it is whole only if a request with
 * limit 1, a different question, states the same total, and the list of no source apart names a further market.
 */

/** How long an answer of the sources is valid. */
const sourceCheckMs = 7 * dayMs;

/**
 * Whether the sources are to be asked apart: at first, every week, and when a list names as many markets as before and others,
 * as a list does that has reached a cap. A list that names no source is asked for once more instead.
 * @param past undefined: never checked
 */
export function isSourceCheckDue(
  past: ListCheck | undefined,
  { markets, members }: Omit<ListCheck, 'at'>,
  nowMs: number,
): boolean {
  if (past === undefined || nowMs - past.at >= sourceCheckMs) return true;
  return past.markets === markets && past.members !== members;
}

/** The responses about one list. */
interface ListFacts {
  /** The total that the list states; null if none. */
  readonly total: number | null;
  /** The total that the request with limit 1 states; undefined if it failed. */
  readonly confirmed: number | null | undefined;
  /** Markets that only other requests named, among all markets. */
  readonly further: number;
  readonly markets: number;
  /** The list that could not be fetched to compare it, in words; null if none. */
  readonly unasked: string | null;
}

/** Why a list is not known to be whole, as one clause; null if it is. */
export function findListDoubt({ total, confirmed, further, markets, unasked }: ListFacts): string | null {
  // Together they are all that there are, or one was opened in between.
  const isFilled = further > 0 && markets === confirmed;
  if (further > 0 && !isFilled) return `other requests name ${formatCount(further, 'further market')}`;
  if (total === null) return 'the service states no total';
  if (confirmed === undefined) return 'the request that is to confirm its total failed';
  if (confirmed === null) return 'the service states no total with limit 1';
  if (confirmed !== total && !isFilled)
    return `the service states a total of ${total}, and of ${confirmed} with limit 1`;
  return unasked === null ? null : `${unasked} could not be fetched for comparison`;
}

/** Names the number of markets of a doubtful list, if it may be a cap: ` (25 markets as before)`. */
export function describeOddCount(markets: number, past: ListCheck | undefined): string {
  if (past?.markets === markets) return ` (${formatCount(markets, 'market')} as before)`;
  return markets > 0 && (markets % 10 === 0 || markets % 25 === 0) ? ` (${markets} markets, a round number)` : '';
}
