/**
 * Infers the rate that a service allows from its 429 responses, as a pure function. Without a 429, the configured rate is
 * used. Rates are requests per second. Times are epoch milliseconds, because the inferred rate is kept between runs.
 */
export interface InferredRate {
  /** The rate in force. If it is above `good`, it is on trial. */
  readonly rate: number;
  /** The highest rate that is considered allowed. */
  readonly good: number;
  /** The lowest rate that was throttled. Null if none is known. */
  readonly bad: number | null;
  /** Time of the last rate change or 429. */
  readonly sinceMs: number;
  /** Time of the next trial of a higher rate, and the wait after it if it fails too. */
  readonly tryAtMs: number;
  readonly tryWaitMs: number;
  /** Number of the first request at this rate. Responses to earlier ones say nothing about it. */
  readonly first: number;
  /** Number of responses at this rate since `fromMs`, and of 429s among them. Old ones fade out. */
  readonly responses: number;
  readonly throttled: number;
  readonly fromMs: number;
  /** Numbers of requests between the last bursts of 429s at this rate, and the first request after the last burst. */
  readonly runs: readonly number[];
  readonly after: number;
  /** Number of requests accepted in the second before each of the last 429s at this rate. */
  readonly acceptedCounts: readonly number[];
  /** Reductions of the rate whose effect is not known yet. */
  readonly fall: { readonly from: number; readonly share: number; readonly steps: number } | null;
  /** The rate before the last reductions. It is restored if they turn out to have no effect before `untilMs`. */
  readonly origin: { readonly rate: number; readonly untilMs: number } | null;
  /** Share of 429s that did not change with the rate and so has another cause. Valid until `untilMs`. */
  readonly noise: { readonly share: number; readonly untilMs: number } | null;
}

export interface RateObservation {
  /** Number of the request, and of the next request to start. */
  readonly request: number;
  readonly nextRequest: number;
  readonly isThrottled: boolean;
  /** Counts accepted requests that started within the second before it. */
  readonly countAccepted: () => number;
  readonly nowMs: number;
}

/** Duration of a trial of a rate that was never throttled, and the wait before the next one, in ms. */
const tryMs = 2_000;
/** Duration of a trial of a rate that was throttled before, in ms: a token bucket may still have tokens. */
const tryAgainMs = 15_000;
/**
 * Wait between two trials of a throttled rate, in ms. The first wait is longer if it would span fewer than `requestsPerTry`
 * requests.
 */
const tryWaitMsMin = 30_000;
const tryWaitMsMax = 15 * 60_000;
const requestsPerTry = 100;
const responsesKept = 500;
const acceptedCountsKept = 5;
/** This many 429s, with this share of the responses, are conclusive. With known noise, more are required. */
const throttledAtOnce = 4;
const manyShare = 0.15;
const throttledInNoise = 20;
/** Number of bursts at even intervals (within this factor) that indicate a limit rather than chance. */
const runsAlike = 6;
const alikeFactor = 2.5;
const rateMin = 1 / 60;
/**
 * Minimum period to average over, in ms. If few requests are throttled, the mean lowers the rate to no less than these
 * shares of it.
 */
const meanMsMin = 3_000;
const fallShares = [0.97, 0.9, 0.6];
/**
 * Number of reductions without effect after which they are reverted. More are allowed if the share of 429s has halved.
 * A share above `noiseShareMax` is never noise.
 */
const fallStepsMin = 3;
const fallStepsMax = 5;
const noiseShareMax = 0.5;
const noiseMs = 15 * 60_000;

/** The rate in force, at most `configured`. */
export const getRateInForce = (inferred: InferredRate | null, configured: number): number =>
  Math.min(configured, inferred?.rate ?? configured);

/** Reads a stored state. Null, so that the configured rate applies, if it is incomplete. */
export function parseInferredRate(text: string | null): InferredRate | null {
  const state = JSON.parse(text ?? 'null') as InferredRate | null;
  if (state === null || typeof state !== 'object') return null;
  const { rate, good, bad, sinceMs, tryAtMs, tryWaitMs, first, responses, throttled, fromMs, after } = state;
  const numbers = [rate, good, bad ?? 0, sinceMs, tryAtMs, tryWaitMs, first, responses, throttled, fromMs, after];
  const lists = [state.runs, state.acceptedCounts];
  const objects = [state.fall, state.origin, state.noise];
  const isComplete =
    [...numbers, ...lists.flat(), ...objects.flatMap((one) => Object.values(one ?? {}))].every(Number.isFinite) &&
    lists.every(Array.isArray) &&
    !objects.includes(undefined as never);
  return isComplete ? state : null;
}

/** Updates the inferred rate after a response. Null means that the configured rate applies. */
export function updateInferredRate(
  inferred: InferredRate | null,
  observation: RateObservation,
  configured: number,
): InferredRate | null {
  if (inferred === null && !observation.isThrottled) return null;
  const known = inferred ?? createInferredRate(configured, observation);
  if (observation.request < known.first) return known;
  const fade = known.responses >= responsesKept ? 0.5 : 1;
  const fromMs = observation.nowMs - (observation.nowMs - known.fromMs) * fade;
  const counted = { ...known, fromMs, responses: known.responses * fade + 1, throttled: known.throttled * fade };
  return observation.isThrottled
    ? applyThrottled(counted, observation, configured)
    : applyAccepted(counted, observation, configured);
}

function createInferredRate(configured: number, { countAccepted, request, nowMs }: RateObservation): InferredRate {
  return {
    rate: configured,
    good: configured,
    bad: null,
    sinceMs: nowMs,
    tryAtMs: nowMs,
    tryWaitMs: tryWaitMsMin,
    first: 0,
    responses: countAccepted(),
    throttled: 0,
    fromMs: nowMs - 1000,
    runs: [],
    after: request,
    acceptedCounts: [],
    fall: null,
    origin: null,
    noise: null,
  };
}

/** Changes the rate and resets its counts. */
const changeRate = (inferred: InferredRate, rate: number, { nextRequest, nowMs }: RateObservation): InferredRate => ({
  ...inferred,
  rate,
  sinceMs: nowMs,
  first: nextRequest,
  responses: 0,
  throttled: 0,
  fromMs: nowMs,
  runs: [],
  after: nextRequest,
  acceptedCounts: [],
});

function applyThrottled(before: InferredRate, observation: RateObservation, configured: number): InferredRate {
  const acceptedCounts = [...before.acceptedCounts, observation.countAccepted()].slice(-acceptedCountsKept);
  const { request, nextRequest } = observation;
  const run = request > before.after ? { runs: [...before.runs, request - before.after].slice(-runsAlike) } : {};
  const burst = request >= before.after ? { ...run, after: nextRequest } : {};
  const inferred = { ...before, ...burst, throttled: before.throttled + 1, acceptedCounts, sinceMs: observation.nowMs };
  const rate = getRateInForce(inferred, configured);
  if (rate > inferred.good) return isNoise(inferred, observation) ? inferred : revertToGoodRate(inferred, observation);
  return isRateBlamed(inferred, observation) ? lowerRate({ ...inferred, rate }, observation) : inferred;
}

const computeThrottledShare = ({ throttled, responses }: InferredRate): number => throttled / responses;

const getNoiseShare = ({ noise }: InferredRate, { nowMs }: RateObservation): number =>
  noise !== null && nowMs < noise.untilMs ? noise.share : 0;

function isNoise(inferred: InferredRate, observation: RateObservation): boolean {
  const noise = getNoiseShare(inferred, observation);
  return noise > 0 && (inferred.throttled < 2 || computeThrottledShare(inferred) <= 3 * noise);
}

/** Whether the rate is the cause: single 429s happen by chance, but many at once or bursts at even intervals do not. */
function isRateBlamed(inferred: InferredRate, observation: RateObservation): boolean {
  const { throttled, runs, fall } = inferred;
  const noise = getNoiseShare(inferred, observation);
  if (noise > 0)
    return throttled >= throttledInNoise && computeThrottledShare(inferred) >= Math.min(noiseShareMax, 3 * noise);
  if (throttled >= throttledAtOnce && computeThrottledShare(inferred) >= manyShare) return true;
  const isAlike = Math.max(...runs) <= alikeFactor * Math.min(...runs);
  return fall === null ? runs.length >= runsAlike && isAlike : runs.length >= runsAlike / 2;
}

/** Reverts to the good rate after a failed trial of a higher one. */
function revertToGoodRate(inferred: InferredRate, observation: RateObservation): InferredRate {
  const { rate: bad, good, tryWaitMs } = inferred;
  const waitMs = Math.max(tryWaitMs, (requestsPerTry / good) * 1000);
  const isClosed = computeNextAbove(good) >= bad;
  return {
    ...changeRate(inferred, good, observation),
    bad,
    tryAtMs: observation.nowMs + (isClosed ? Math.min(waitMs, tryWaitMsMax) : tryMs),
    tryWaitMs: isClosed ? Math.min(2 * waitMs, tryWaitMsMax) : tryWaitMs,
  };
}

/** Lowers a good rate that is throttled to the accepted rate. If earlier reductions had no effect, reverts them. */
function lowerRate(inferred: InferredRate, observation: RateObservation): InferredRate {
  const { rate, noise, origin } = inferred;
  const share = computeThrottledShare(inferred);
  const from = origin === null || hasPassed(origin.untilMs, observation) ? rate : Math.max(rate, origin.rate);
  const fall = inferred.fall ?? { from, share, steps: 0 };
  const worst = Math.max(fall.share, share);
  const steps = share > worst / 2 ? fallStepsMin : fallStepsMax;
  if (fall.steps >= steps && share < noiseShareMax) {
    const untilMs = observation.nowMs + noiseMs;
    return {
      ...changeRate(inferred, fall.from, observation),
      good: fall.from,
      bad: null,
      fall: null,
      origin: null,
      noise: { share: Math.max(share, noise?.share ?? 0), untilMs },
    };
  }
  const through = computeAcceptedRate(inferred, observation);
  const good = Math.max(rateMin, through >= 1 ? Math.floor(through) : through);
  return {
    ...changeRate(inferred, good, observation),
    good,
    bad: rate,
    tryAtMs: observation.nowMs + tryMs,
    tryWaitMs: tryWaitMsMin,
    fall: { ...fall, share: worst, steps: fall.steps + 1 },
    origin: { rate: fall.from, untilMs: observation.nowMs + tryWaitMsMax },
  };
}

/** The accepted rate while throttled, always below the current rate. */
function computeAcceptedRate(inferred: InferredRate, { nowMs }: RateObservation): number {
  const { rate, acceptedCounts, responses, throttled, fromMs, fall } = inferred;
  const acceptedMax = Math.max(...acceptedCounts);
  if (acceptedMax < 1) return Math.min(1, rate) / 2;
  // The mean is not affected by token buckets and fixed windows, but pauses lower it.
  const ms = nowMs - fromMs;
  const mean = ms < meanMsMin ? rate : ((responses - throttled) / ms) * 1000;
  const least =
    computeThrottledShare(inferred) < manyShare ? fallShares[Math.min(fall?.steps ?? 0, fallShares.length - 1)]! : 0;
  return Math.min(acceptedMax, computeNextBelow(rate), Math.max(rate * least, Math.ceil(mean)));
}

function applyAccepted(before: InferredRate, observation: RateObservation, configured: number): InferredRate | null {
  const inferred = {
    ...before,
    fall: before.fall !== null && hasLoweringHelped(before, before.fall) ? null : before.fall,
  };
  const { rate, good, bad, throttled, noise } = inferred;
  if (rate > good)
    return isProven(inferred, observation) ? raiseRate({ ...inferred, good: rate }, observation, configured) : inferred;
  if (good < configured)
    return inferred.fall === null && isTryDue(inferred, observation)
      ? tryHigherRate(inferred, observation, configured)
      : inferred;
  // At the configured rate, the state is dropped as soon as the 429s have faded out.
  const isForgotten = throttled < 0.5 && bad === null && getNoiseShare(inferred, observation) === 0;
  return isForgotten ? null : { ...inferred, noise };
}

/** Whether there were enough responses with far fewer 429s, or too many to wait for more. */
const hasLoweringHelped = (inferred: InferredRate, fall: NonNullable<InferredRate['fall']>): boolean =>
  inferred.responses >= responsesKept ||
  (inferred.responses >= computeResponsesNeeded(inferred, fall) && computeThrottledShare(inferred) < fall.share / 8);

/** Below one request per second, many responses take minutes. A few are conclusive if most were throttled before. */
const computeResponsesNeeded = ({ rate }: InferredRate, { share }: NonNullable<InferredRate['fall']>): number =>
  rate < 1 && share >= noiseShareMax ? 4 : Math.max(20, 12 / share);

/** Whether the rate was used nearly in full for long enough. */
function isProven({ rate, bad, sinceMs, responses }: InferredRate, observation: RateObservation): boolean {
  const ms = bad !== null && rate >= bad ? tryAgainMs : tryMs;
  return (
    computeElapsedMs(sinceMs, observation) >= Math.max(ms, 2000 / rate) && isRateUsed(rate, responses, observation)
  );
}

function isTryDue({ rate, sinceMs, responses, tryAtMs }: InferredRate, observation: RateObservation): boolean {
  const isLongAgo = computeElapsedMs(sinceMs, observation) >= Math.max(tryMs, 2000 / rate);
  return isLongAgo && hasPassed(tryAtMs, observation) && isRateUsed(rate, responses, observation);
}

/** If the clock was set back, the wait counts as over. */
const computeElapsedMs = (sinceMs: number, { nowMs }: RateObservation): number =>
  nowMs < sinceMs ? Number.POSITIVE_INFINITY : nowMs - sinceMs;

const hasPassed = (atMs: number, { nowMs }: RateObservation): boolean => nowMs >= atMs || atMs - nowMs > tryWaitMsMax;

/** Below two requests per second, starts are further apart than the second that `countAccepted` covers. */
const isRateUsed = (rate: number, responses: number, { countAccepted }: RateObservation): boolean =>
  responses >= Math.max(2, 1.5 * rate) && (rate < 2 || countAccepted() >= Math.floor(0.8 * Math.floor(rate)));

/** Accepts a rate after a successful trial. If it had been throttled before, the limit has risen. */
function raiseRate(inferred: InferredRate, observation: RateObservation, configured: number): InferredRate | null {
  const { bad, good, tryWaitMs } = inferred;
  const isRefuted = bad !== null && good >= bad;
  const now = { ...inferred, bad: isRefuted ? null : bad, tryWaitMs: isRefuted ? tryWaitMsMin : tryWaitMs };
  if (good >= configured) return getNoiseShare(now, observation) > 0 ? { ...now, bad: null } : null;
  return tryHigherRate(now, observation, configured);
}

/** Tries a rate 10 % higher. A rate that was throttled is approached in single steps, and only when its wait is over. */
function tryHigherRate(inferred: InferredRate, observation: RateObservation, configured: number): InferredRate {
  const { good, bad, tryAtMs } = inferred;
  const least = computeNextAbove(good);
  if (bad !== null && least >= bad && !hasPassed(tryAtMs, observation))
    return { ...changeRate(inferred, good, observation), first: inferred.first };
  const ideal = good < 1 ? least : Math.max(least, Math.floor(good * 1.1));
  const next = bad === null || ideal < bad ? ideal : Math.max(least, computeNextBelow(bad));
  return changeRate(inferred, Math.min(configured, next), observation);
}

const computeNextAbove = (rate: number): number => (rate < 1 ? Math.min(1, rate * 1.5) : Math.floor(rate) + 1);

const computeNextBelow = (rate: number): number => (rate > 1 ? Math.ceil(rate) - 1 : rate / 2);
