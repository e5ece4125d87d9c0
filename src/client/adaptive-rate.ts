/**
 * Infers the rate that a service allows from its 429 responses: a search between the highest rate that worked (`good`) and
 * the lowest that was throttled (`bad`). A pure function. Without a 429, the configured rate is used.
 *
 * - Four 429s in a row, or four bursts of 429s, each within the requests of five seconds after the one before, lower the
 *   rate to what was accepted since the first burst. Fewer are chance.
 * - From there, higher rates are tried for the requests of two seconds each: half as much again, or midway to `bad` if that
 *   is less. The first 429 ends a trial.
 * - If no rate is left between the two, `bad` itself is tried after 30 s, since the limit may have risen. The wait doubles
 *   with each failure, up to 15 minutes.
 * - If the share of 429s is the same at a lower rate, the rate is not their cause: it is restored and kept for 15 minutes.
 *
 * Rates are requests per second. Times are epoch milliseconds, because the state is kept between runs.
 */
export interface InferredRate {
  /** The rate in force. If it is above `good`, it is on trial. */
  readonly rate: number;
  readonly good: number;
  /** Null if no rate is known to be too high. */
  readonly bad: number | null;
  /** Time of the next trial of `bad`, and the wait that ends then. Without `bad`, 429s are ignored until then. */
  readonly probeAtMs: number;
  readonly probeWaitMs: number;
  /** The rate and the share of 429s before the last reduction, until the lower rate has worked. */
  readonly cut: { readonly rate: number; readonly share: number } | null;
  /** First request at this rate. Responses to earlier ones say nothing about it. */
  readonly first: number;
  /** First request after the last 429. Responses to earlier ones belong to its burst. */
  readonly burstEnd: number;
  /** 429s without an accepted request between them. */
  readonly inARow: number;
  /** Bursts of 429s since the last rate change, accepted requests since the first of them, and since the last. */
  readonly bursts: number;
  readonly accepted: number;
  readonly acceptedSinceBurst: number;
  /** Time that the accepted requests took, and the time of the last response. A pause counts as a second at most. */
  readonly elapsedMs: number;
  readonly lastMs: number;
}

export interface RateObservation {
  /** Number of the request, and of the next request to start. */
  readonly request: number;
  readonly nextRequest: number;
  readonly isThrottled: boolean;
  readonly nowMs: number;
}

/** This many 429s in a row, or bursts, are not chance. */
const throttledMax = 4;
const burstSeconds = 5;
const trialSeconds = 2;
/** A trial of `bad` takes longer, because a token bucket may be full. */
const probeSeconds = 10;
const probeWaitMsMin = 30_000;
const probeWaitMsMax = 15 * 60_000;
/** A trial counts only if this share of the rate was used. */
const usedShareMin = 0.8;
const growthFactor = 1.5;
const rateMin = 1 / 60;
/** A reduced rate works if there is no 429 in this many times the requests that had one before. */
const quietFactor = 8;
/** If more than this share is throttled, the rate is always the cause. */
const chanceShareMax = 0.5;

const initialState: InferredRate = {
  rate: Number.NaN,
  good: Number.NaN,
  bad: null,
  probeAtMs: 0,
  probeWaitMs: probeWaitMsMin,
  cut: null,
  first: 0,
  burstEnd: 0,
  inARow: 0,
  bursts: 0,
  accepted: 0,
  acceptedSinceBurst: 0,
  elapsedMs: 0,
  lastMs: 0,
};

/** The rate in force, at most `configured`. */
export const getRateInForce = (inferred: InferredRate | null, configured: number): number =>
  Math.min(configured, inferred?.rate ?? configured);

/** Reads a stored state. Null, so that the configured rate applies, for anything that is not a complete one. */
export function parseInferredRate(text: string | null): InferredRate | null {
  const state = { ...initialState, ...(JSON.parse(text ?? 'null') as InferredRate | null) };
  const { bad, cut, ...numbers } = state;
  const values = [...Object.values(numbers), bad ?? 0, ...Object.values(cut ?? {})];
  return values.every(Number.isFinite) ? state : null;
}

/** Updates the inferred rate after a response. Null means that the configured rate applies. */
export function updateInferredRate(
  inferred: InferredRate | null,
  observation: RateObservation,
  configured: number,
): InferredRate | null {
  const { request, nextRequest, isThrottled, nowMs } = observation;
  if (inferred === null && !isThrottled) return null;
  const known = inferred ?? { ...initialState, rate: configured, good: configured, lastMs: nowMs };
  if (request < known.first) return known;
  const inARow = isThrottled ? known.inARow + 1 : 0;
  const isSameBurst = request < known.burstEnd;
  if (isSameBurst && !isThrottled) return { ...known, inARow };
  const rate = getRateInForce(known, configured);
  const pauseMs = Math.max(0, nowMs - known.lastMs);
  const elapsedMs = known.elapsedMs + Math.min(pauseMs, 1000 / Math.min(1, rate));
  const counted = { ...known, inARow, elapsedMs, lastMs: nowMs };
  if (isThrottled) {
    const burst = isSameBurst ? {} : { bursts: known.bursts + 1, acceptedSinceBurst: 0, burstEnd: nextRequest };
    return applyThrottled({ ...counted, ...burst }, rate, observation);
  }
  const accepted = { accepted: known.accepted + 1, acceptedSinceBurst: known.acceptedSinceBurst + 1 };
  return applyAccepted({ ...counted, ...accepted }, rate, observation, configured);
}

function applyThrottled(inferred: InferredRate, rate: number, observation: RateObservation): InferredRate {
  const { good, bad, bursts, accepted, elapsedMs, probeWaitMs } = inferred;
  if (rate > good) {
    const isProbe = bad !== null && rate >= bad;
    const waitMs = isProbe ? Math.min(2 * probeWaitMs, probeWaitMsMax) : probeWaitMsMin;
    return setRate({ ...inferred, bad: rate }, good, waitMs, observation);
  }
  if (bad === null && isBefore(inferred.probeAtMs, observation)) return inferred;
  if (inferred.inARow >= throttledMax) return lowerRate(inferred, null, rate, observation);
  // Counts start with the first burst: a token bucket that was full before is empty now.
  if (bursts === 1) return { ...inferred, accepted: 0, elapsedMs: 0 };
  if (bursts < throttledMax || elapsedMs < 1000 * trialSeconds) return inferred;
  const share = bursts / (accepted + bursts);
  if (share >= chanceShareMax) return lowerRate(inferred, null, rate, observation);
  if (inferred.cut === null || share <= inferred.cut.share / 2)
    return lowerRate(inferred, { rate, share }, rate, observation);
  const { rate: restored } = inferred.cut;
  return setRate({ ...inferred, good: restored, bad: null, cut: null }, restored, probeWaitMsMax, observation);
}

/** Lowers the rate to what was accepted. If nothing was, to a quarter. */
function lowerRate(
  inferred: InferredRate,
  cut: InferredRate['cut'],
  rate: number,
  observation: RateObservation,
): InferredRate {
  const accepted = (1000 * inferred.accepted) / inferred.elapsedMs || rate / 4;
  const lower = Math.max(rateMin, Math.min(accepted, 0.95 * rate));
  const good = lower < 1 ? lower : Math.floor(lower);
  return setRate({ ...inferred, good, bad: rate, cut }, good, probeWaitMsMin, observation);
}

/** Changes the rate, resets the counts, and starts a wait. */
const setRate = (
  inferred: InferredRate,
  rate: number,
  probeWaitMs: number,
  { nextRequest, nowMs }: RateObservation,
): InferredRate => ({
  ...resetCounts(inferred, nowMs),
  rate,
  first: nextRequest,
  burstEnd: nextRequest,
  probeAtMs: nowMs + probeWaitMs,
  probeWaitMs,
});

const resetCounts = (inferred: InferredRate, nowMs: number): InferredRate => {
  return { ...inferred, bursts: 0, inARow: 0, accepted: 0, acceptedSinceBurst: 0, elapsedMs: 0, lastMs: nowMs };
};

function applyAccepted(
  inferred: InferredRate,
  rate: number,
  observation: RateObservation,
  configured: number,
): InferredRate | null {
  const { accepted, acceptedSinceBurst, bursts, elapsedMs, good, bad, cut } = inferred;
  const seconds = bursts > 0 ? burstSeconds : bad !== null && rate >= bad ? probeSeconds : trialSeconds;
  if (acceptedSinceBurst < Math.max(2, seconds * rate, cut === null ? 0 : quietFactor / cut.share)) return inferred;
  const isProven = bursts === 0 && accepted >= (usedShareMin * rate * elapsedMs) / 1000;
  const proven = isProven ? Math.max(good, rate) : good;
  // If a rate that was throttled works now, the limit has risen.
  const bound = bad !== null && bad > proven ? bad : null;
  if (proven >= configured && bound === null && !isBefore(inferred.probeAtMs, observation)) return null;
  const next = { ...resetCounts(inferred, observation.nowMs), good: proven, bad: bound, cut: null };
  if (!isProven || proven >= configured) return next;
  return { ...next, rate: Math.min(configured, chooseNextRate(next, observation)), first: observation.nextRequest };
}

/** The next rate to try, or the good one during a wait. Integers from 1 on, because the rate limiter rounds down. */
function chooseNextRate({ good, bad, probeAtMs }: InferredRate, observation: RateObservation): number {
  const aim = Math.min(growthFactor * good, bad === null ? Number.POSITIVE_INFINITY : (good + bad) / 2);
  const next = aim < 1 ? aim : Math.max(Math.floor(aim), Math.floor(good) + 1);
  if (bad === null || (next < bad && bad > 1.05 * good)) return next;
  return isBefore(probeAtMs, observation) ? good : bad;
}

/** If the clock was set back, a wait counts as over. */
const isBefore = (atMs: number, { nowMs }: RateObservation): boolean => nowMs < atMs && atMs - nowMs <= probeWaitMsMax;
