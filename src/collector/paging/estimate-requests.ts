import { intersect, type Window } from '../../base/window.ts';
import { defaultFetchOptions, type FetchOptions, type FetchStep } from './fetch-steps.ts';
import { fetchWindow } from './fetch-window.ts';
import type { Observation } from './observation.ts';
import { type SymbolPlan, toFetchPlans } from './plan.ts';
import { createServerBehavior, type KnownPages, type ServerBehavior, toRequestedWindow } from './server-behavior.ts';

// Estimates what a plan costs by running the code that fetches windows against a model of the server: ticks at an even
// distance, and pages as earlier runs saw them. So confirmations and checks are counted as they will be sent.

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
  readonly hasContradicted: boolean;
}

interface RequestEstimate {
  readonly requests: number;
  /** The requests of each plan, not rounded. */
  readonly byPlan: readonly number[];
  readonly ticks: number;
  /** Plans of symbols of which nothing is known. Each of their windows counts as one without ticks. */
  readonly unknownPlans: number;
}

/** A window of more pages than this is modelled by its first part. */
const pagesModelledMax = 24;
/** Number of windows with about the same number of ticks that are modelled. The others cost as much on average. */
const windowsModelledMax = 240;

/** Estimates the requests that fetch these plans, with their confirmations and without retries. */
export function estimateRequests(densities: readonly PlanDensity[], model: ServerModel): RequestEstimate {
  const behavior = createServerBehavior(Number.NEGATIVE_INFINITY, model.known);
  behavior.contradictions = model.hasContradicted ? 1 : 0;
  const serve = createPageModel(model);
  const buckets = new Map<string, { windows: number; requests: number; ticks: number }>();
  const byPlan: number[] = [];
  let [ticks, unknownPlans, carry] = [0, 0, 0];
  for (const { plan, ticksPerMs, lifetime } of densities) {
    if (ticksPerMs === null) unknownPlans++;
    let requests = 0;
    for (const { options, ...window } of toFetchPlans(plan)) {
      const inhabited = intersect([window], [lifetime]).reduce((sum, { from, to }) => sum + to - from, 0);
      // The remainder is carried over, so that many quiet windows have as many ticks as expected.
      const expected = inhabited * (ticksPerMs ?? 0) + carry;
      const count = Math.floor(expected);
      carry = expected - count;
      ticks += count;
      const isFromKnown = options.knownTick !== null;
      const key = `${Math.round(3 * Math.log2(count + 1))} ${options.confirm} ${isFromKnown}`;
      const bucket = buckets.get(key) ?? { windows: 0, requests: 0, ticks: 0 };
      buckets.set(key, bucket);
      if (bucket.windows >= windowsModelledMax) {
        requests += scaleRequests(bucket, count, serve.pageTicks);
        continue;
      }
      const modelled = Math.min(count, Math.ceil(pagesModelledMax * serve.pageTicks));
      const share = count === 0 ? 1 : modelled / count;
      const part = { from: window.from, to: window.from + Math.ceil((window.to - window.from) * share) };
      const sent = countRequests(behavior, part, modelled, options, lifetime, serve);
      // The last request of each side is no page, but confirms one.
      const counted = share === 1 ? sent : sent + ((sent - 2) / modelled) * (count - modelled);
      bucket.windows++;
      bucket.requests += counted;
      bucket.ticks += count;
      requests += counted;
    }
    byPlan.push(requests);
  }
  const requests = Math.round(byPlan.reduce((sum, one) => sum + one, 0));
  return { requests, byPlan, ticks, unknownPlans };
}

/** The mean cost of the windows of a bucket; for windows of many pages, in proportion to their ticks. */
function scaleRequests(
  { windows, requests, ticks }: { windows: number; requests: number; ticks: number },
  count: number,
  pageTicks: number,
): number {
  const mean = requests / windows;
  return count < pageTicks ? mean : (mean * count * windows) / ticks;
}

/** A modelled server. */
type PageModel = ReturnType<typeof createPageModel>;

/** Pages vary as much as the truncated pages of earlier runs did. */
function createPageModel({ known, pageLimit }: ServerModel) {
  const { truncatedPages = 0, truncatedMin = pageLimit, truncatedMax = pageLimit, side = null } = known;
  const isKnown = truncatedPages > 0;
  const [min, max] = isKnown
    ? [Math.min(truncatedMin, pageLimit), Math.min(truncatedMax, pageLimit)]
    : [pageLimit, pageLimit];
  let pages = 0;
  return {
    /** Mean number of ticks of a truncated page. */
    pageTicks: (min + max) / 2,
    /** Maximum number of ticks per request. */
    pageLimit,
    /** Takes from the ticks of a request those that one page holds. */
    truncate(times: Float64Array): Float64Array {
      const cap = Math.max(1, Math.round(min + ((max - min) * ((pages++ * 7) % 13)) / 12));
      if (times.length <= cap) return times;
      return side === 'latest' ? times.subarray(times.length - cap) : times.subarray(0, cap);
    },
  };
}

/** Counts the requests for a window with `count` ticks at an even distance. */
function countRequests(
  behavior: ServerBehavior,
  window: Window,
  count: number,
  options: FetchOptions,
  lifetime: Window,
  serve: PageModel,
): number {
  const inhabited = intersect([window], [lifetime])[0] ?? window;
  const times = placeTicks(inhabited, count, options.knownTick);
  const steps = fetchWindow(behavior, window, { ...defaultFetchOptions, ...options, inferred: [] });
  let requests = 0;
  let observation: Observation | undefined;
  for (;;) {
    const { value, done } = steps.next(observation);
    observation = undefined;
    if (done === true) return requests;
    if (value.kind !== 'request') continue;
    requests++;
    observation = modelResponse(behavior, value, times, window.to + requests, serve);
  }
}

/** Ticks at an even distance, one per ms at most, and the known tick. Epoch ms, ascending. */
function placeTicks(window: Window, count: number, knownTick: number | null): Float64Array {
  const width = window.to - window.from;
  const placed = Math.max(0, Math.min(count, width));
  const times = new Float64Array(placed);
  for (let i = 0; i < placed; i++) times[i] = Math.floor(window.from + ((i + 0.5) * width) / placed);
  if (knownTick === null || times.includes(knownTick)) return times;
  return concatTime(times, knownTick);
}

function concatTime(times: Float64Array, t: number): Float64Array {
  const all = new Float64Array(times.length + 1);
  all.set(times);
  all[times.length] = t;
  return all.sort();
}

/** What the modelled server returns for a request, as the paging code would observe it. */
function modelResponse(
  behavior: ServerBehavior,
  { window, isExact }: Extract<FetchStep, { kind: 'request' }>,
  ticks: Float64Array,
  observedAt: number,
  serve: PageModel,
): Observation {
  const requested = toRequestedWindow(behavior, window, isExact);
  const page = serve.truncate(ticks.filter((t) => requested.from <= t && t <= requested.to));
  const times = page.filter((t) => window.from <= t && t < window.to);
  return {
    window: { from: window.from, to: window.to },
    requested,
    times,
    count: page.length,
    countAtFirst: 1,
    countAtLast: 1,
    countBefore: 0,
    countAfter: 0,
    first: page[0] ?? null,
    firstRequested: page[0] ?? null,
    last: page.at(-1) ?? null,
    received: page.length,
    isFull: page.length >= serve.pageLimit,
    rejected: 0,
    rejectedReason: '',
    observedAt,
    generatedAt: null,
    claimableWindow: { from: window.from, to: window.to },
    isTruncatedLow: false,
    isTruncatedHigh: false,
    gaps: [],
  };
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
