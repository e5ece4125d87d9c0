import { intersect, type Window } from '../../base/window.ts';
import { type SymbolPlan, toFetchPlans } from './plan.ts';
import { type KnownPages, splitToReach, truncatedShare } from './server-behavior.ts';

/** A plan, and what is known of its symbol. */
export interface PlanDensity {
  readonly plan: SymbolPlan;
  /** Expected ticks per ms; null if nothing is known of it. */
  readonly ticksPerMs: number | null;
  /** Where ticks are expected. Outside of it the service returns none. */
  readonly lifetime: Window;
}

/** The server as earlier runs saw it. */
interface ServerModel {
  readonly known: Partial<KnownPages>;
  /** Maximum number of ticks per request. */
  readonly pageLimit: number;
  /** Whether every window is compared with narrower ones, because the server has left ticks out. */
  readonly omitsTicks: boolean;
  /** Whether what answers do not reach is requested again in pieces. */
  readonly hasPieces?: boolean;
  /** Whether each symbol's coverage is requested too. */
  readonly isMirror?: boolean;
}

interface RequestEstimate {
  readonly requests: number;
  /** The requests of each plan, not rounded. */
  readonly byPlan: readonly number[];
  readonly ticks: number;
  /** Plans of symbols of which nothing is known. Each of their windows counts as one without ticks. */
  readonly unknownPlans: number;
}

/**
 * Estimates the requests that fetch these plans, without retries, and the ticks that they keep.
 * @param nowMs nothing later is requested, epoch ms
 */
export function estimateRequests(
  densities: readonly PlanDensity[],
  model: ServerModel,
  nowMs = Number.POSITIVE_INFINITY,
): RequestEstimate {
  const byPlan: number[] = [];
  let [ticks, unknownPlans, carry] = [0, 0, 0];
  for (const { plan, ticksPerMs, lifetime } of densities) {
    if (ticksPerMs === null) unknownPlans++;
    const expectTicks = (windows: readonly Window[]): number =>
      intersect(windows, [lifetime]).reduce((sum, { from, to }) => sum + (to - from) * (ticksPerMs ?? 0), 0);
    ticks += expectTicks(plan.windows);
    let requests = Number(model.isMirror === true);
    for (const { options, ...window } of toFetchPlans(plan, nowMs)) {
      // The remainder is carried over, so that many quiet windows have as many ticks as expected.
      const expected = expectTicks([window]) + carry;
      const count = Math.floor(expected);
      carry = expected - count;
      requests += countRequests(model, count, options.knownTick !== null);
      const reachMs = (model.hasPieces && model.known.reachMs) || Number.POSITIVE_INFINITY;
      const pieces = splitToReach({ reachMs }, window).length;
      if (pieces > 1) requests += pieces;
    }
    byPlan.push(requests);
  }
  const requests = Math.round(byPlan.reduce((sum, one) => sum + one, 0));
  return { requests, byPlan, ticks: Math.floor(ticks), unknownPlans };
}

/** Overlap of a page with the next one, as a share of its ticks. */
const overlapShare = 0.024;

/**
 * One request for each page, and one for each end that may be truncated: not for the start of a window that begins at a known tick,
 * nor for the end of a page that is smaller than truncated pages are.
 */
function countRequests({ known, pageLimit, omitsTicks }: ServerModel, count: number, isFromKnown: boolean): number {
  if (count < 1) return 1;
  const { truncatedPages = 0, largestWhole = 0, side = null } = known;
  const isCapKnown = truncatedPages > 0;
  const [min, max] = [known.truncatedMin, known.truncatedMax].map((n) =>
    Math.min(isCapKnown ? n! : pageLimit, pageLimit),
  );
  const pages = Math.ceil(count / (((min! + max!) / 2) * (1 - overlapShare)));
  const isSmall = count < (isCapKnown ? truncatedShare * min! : largestWhole + 1);
  const ends = isFromKnown ? Number(!isSmall) + Number(pages > 1 && side === 'latest') : 2;
  return pages + ends + Number(omitsTicks);
}

/**
 * The expected ticks per ms of a symbol: its published ticks over the time that was fetched, or over the time between its
 * first and last tick if it is known from files only. Null if nothing of it was fetched.
 */
export function computeTickDensity(
  ticks: number,
  { firstTick, lastTick }: { readonly firstTick: number | null; readonly lastTick: number | null },
  coverage: readonly Window[],
  lifetime: Window,
): number | null {
  const fetchedMs = intersect(coverage, [lifetime]).reduce((sum, { from, to }) => sum + to - from, 0);
  if (fetchedMs > 0) return ticks / fetchedMs;
  const activeMs = firstTick === null || lastTick === null ? 0 : lastTick - firstTick;
  return activeMs > 0 ? ticks / activeMs : null;
}
