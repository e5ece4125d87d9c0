/**
 * What a service's refusals (429) tell of the rate it allows, as a pure function: nothing is known until the first one,
 * and without one the configured rate is used in full. Rates are requests a second; times epoch milliseconds, for what
 * was learned outlives the run.
 */
export interface InferredRate {
  /** The rate in force; above `good` it is being tried. */
  readonly rate: number;
  /** The greatest that is held to be let through. */
  readonly good: number;
  /** The least that was refused; null where none is known. */
  readonly bad: number | null;
  /** When the rate last changed or a request was last refused. */
  readonly sinceMs: number;
  /** When the next greater rate may be tried, and how long after that the next time if it is refused too. */
  readonly tryAtMs: number;
  readonly tryWaitMs: number;
  /** Requests before this one were started at another rate: their answers tell nothing of this one. */
  readonly first: number;
  /** Answers at this rate since `fromMs`, and refusals among them; old ones fade. */
  readonly answers: number;
  readonly refused: number;
  readonly fromMs: number;
  /** Requests between the last spells of refusals at this rate, and the first one after the last spell. */
  readonly runs: readonly number[];
  readonly after: number;
  /** Requests let through in the second before each of the last refusals at this rate. */
  readonly tops: readonly number[];
  /** Lowerings of which it is not yet clear whether they helped. */
  readonly fall: { readonly from: number; readonly share: number; readonly steps: number } | null;
  /** The rate before the last lowerings, to which it goes back should they turn out to be in vain by then. */
  readonly origin: { readonly rate: number; readonly untilMs: number } | null;
  /** Share of refusals that no lowering had changed, hence is not the rate's doing; believed until then. */
  readonly noise: { readonly share: number; readonly untilMs: number } | null;
}

export interface RateObservation {
  /** Its number, and that of the request to be started next. */
  readonly request: number;
  readonly nextRequest: number;
  readonly isThrottled: boolean;
  /** Requests let through that were started within the second before it. */
  readonly countLetThrough: () => number;
  readonly nowMs: number;
}

/** How long a rate that was never refused is tried before it counts as good, and before the one above is tried. */
const tryMs = 2_000;
/** The same for one that was refused before: a bucket may still be filled. */
const tryAgainMs = 15_000;
/** Between two tries of a refused rate; the first wait is longer where so few requests would not be worth one. */
const tryWaitMsMin = 30_000;
const tryWaitMsMax = 15 * 60_000;
const requestsPerTry = 100;
const responsesKept = 500;
const topsKept = 5;
/** So many refusals, and such a share of them, speak for themselves; where noise is known it takes more. */
const refusedAtOnce = 4;
const manyShare = 0.15;
const refusedInNoise = 20;
/** Runs that are alike, within this factor, over so many spells: a limit does that, chance hardly ever. */
const runsAlike = 6;
const alikeFactor = 2.5;
const rateMin = 1 / 60;
/** A mean over less time says little; and where few are refused it lowers the rate by no more than to these shares. */
const meanMsMin = 3_000;
const fallShares = [0.97, 0.9, 0.6];
/**
 * Lowerings in vain until they are taken back, more where the share of refusals fell by half and might be on its way; one
 * above `noiseShareMax` is never mere noise.
 */
const fallStepsMin = 3;
const fallStepsMax = 5;
const noiseShareMax = 0.5;
const noiseMs = 15 * 60_000;

/** The rate in force where `configured` is the greatest allowed. */
export const getRateInForce = (learned: InferredRate | null, configured: number): number =>
  Math.min(configured, learned?.rate ?? configured);

/** What is known after one more answer; null where the configured rate stands unquestioned. */
export function updateInferredRate(
  learned: InferredRate | null,
  answer: RateObservation,
  configured: number,
): InferredRate | null {
  if (learned === null && !answer.isThrottled) return null;
  const known = learned ?? createInferredRate(configured, answer);
  if (answer.request < known.first) return known;
  const fade = known.answers >= responsesKept ? 0.5 : 1;
  const fromMs = answer.nowMs - (answer.nowMs - known.fromMs) * fade;
  const counted = { ...known, fromMs, answers: known.answers * fade + 1, refused: known.refused * fade };
  return answer.isThrottled ? applyRefusal(counted, answer, configured) : applyResponse(counted, answer, configured);
}

function createInferredRate(configured: number, { countLetThrough, request, nowMs }: RateObservation): InferredRate {
  return {
    rate: configured,
    good: configured,
    bad: null,
    sinceMs: nowMs,
    tryAtMs: nowMs,
    tryWaitMs: tryWaitMsMin,
    first: 0,
    answers: countLetThrough(),
    refused: 0,
    fromMs: nowMs - 1000,
    runs: [],
    after: request,
    tops: [],
    fall: null,
    origin: null,
    noise: null,
  };
}

/** Another rate, whose answers are counted anew. */
const changeRate = (learned: InferredRate, rate: number, { nextRequest, nowMs }: RateObservation): InferredRate => ({
  ...learned,
  rate,
  sinceMs: nowMs,
  first: nextRequest,
  answers: 0,
  refused: 0,
  fromMs: nowMs,
  runs: [],
  after: nextRequest,
  tops: [],
});

function applyRefusal(before: InferredRate, answer: RateObservation, configured: number): InferredRate {
  const tops = [...before.tops, answer.countLetThrough()].slice(-topsKept);
  const { request, nextRequest } = answer;
  const run = request > before.after ? { runs: [...before.runs, request - before.after].slice(-runsAlike) } : {};
  const spell = request >= before.after ? { ...run, after: nextRequest } : {};
  const learned = { ...before, ...spell, refused: before.refused + 1, tops, sinceMs: answer.nowMs };
  const rate = getRateInForce(learned, configured);
  if (rate > learned.good) return isNoise(learned, answer) ? learned : revertToGoodRate(learned, answer);
  return isRateBlamed(learned, answer) ? lowerRate({ ...learned, rate }, answer) : learned;
}

const computeRefusedShare = ({ refused, answers }: InferredRate): number => refused / answers;

const getNoiseShare = ({ noise }: InferredRate, { nowMs }: RateObservation): number =>
  noise !== null && nowMs < noise.untilMs ? noise.share : 0;

function isNoise(learned: InferredRate, answer: RateObservation): boolean {
  const noise = getNoiseShare(learned, answer);
  return noise > 0 && (learned.refused < 2 || computeRefusedShare(learned) <= 3 * noise);
}

/** Single refusals happen. Many at once, or spells of them at even distances, do not without a reason. */
function isRateBlamed(learned: InferredRate, answer: RateObservation): boolean {
  const { refused, runs, fall } = learned;
  const noise = getNoiseShare(learned, answer);
  if (noise > 0) return refused >= refusedInNoise && computeRefusedShare(learned) >= Math.min(noiseShareMax, 3 * noise);
  if (refused >= refusedAtOnce && computeRefusedShare(learned) >= manyShare) return true;
  const isAlike = Math.max(...runs) <= alikeFactor * Math.min(...runs);
  return fall === null ? runs.length >= runsAlike && isAlike : runs.length >= runsAlike / 2;
}

/** A greater rate was tried in vain. */
function revertToGoodRate(learned: InferredRate, answer: RateObservation): InferredRate {
  const { rate: bad, good, tryWaitMs } = learned;
  const waitMs = Math.max(tryWaitMs, (requestsPerTry / good) * 1000);
  const isClosed = computeNextAbove(good) >= bad;
  return {
    ...changeRate(learned, good, answer),
    bad,
    tryAtMs: answer.nowMs + (isClosed ? Math.min(waitMs, tryWaitMsMax) : tryMs),
    tryWaitMs: isClosed ? Math.min(2 * waitMs, tryWaitMsMax) : tryWaitMs,
  };
}

/** The good rate is good no more: down to what was let through, unless going down did not help before. */
function lowerRate(learned: InferredRate, answer: RateObservation): InferredRate {
  const { rate, noise, origin } = learned;
  const share = computeRefusedShare(learned);
  const from = origin === null || hasPassed(origin.untilMs, answer) ? rate : Math.max(rate, origin.rate);
  const fall = learned.fall ?? { from, share, steps: 0 };
  const worst = Math.max(fall.share, share);
  const steps = share > worst / 2 ? fallStepsMin : fallStepsMax;
  if (fall.steps >= steps && share < noiseShareMax) {
    const untilMs = answer.nowMs + noiseMs;
    return {
      ...changeRate(learned, fall.from, answer),
      good: fall.from,
      bad: null,
      fall: null,
      origin: null,
      noise: { share: Math.max(share, noise?.share ?? 0), untilMs },
    };
  }
  const through = computeLetThroughRate(learned, answer);
  const good = Math.max(rateMin, through >= 1 ? Math.floor(through) : through);
  return {
    ...changeRate(learned, good, answer),
    good,
    bad: rate,
    tryAtMs: answer.nowMs + tryMs,
    tryWaitMs: tryWaitMsMin,
    fall: { ...fall, share: worst, steps: fall.steps + 1 },
    origin: { rate: fall.from, untilMs: answer.nowMs + tryWaitMsMax },
  };
}

/** What the service let through at a rate that it refuses; always less than that. */
function computeLetThroughRate(learned: InferredRate, { nowMs }: RateObservation): number {
  const { rate, tops, answers, refused, fromMs, fall } = learned;
  const top = Math.max(...tops);
  if (top < 1) return Math.min(1, rate) / 2;
  // The mean sees through a bucket and through seconds that begin at fixed moments; but pauses lower it.
  const ms = nowMs - fromMs;
  const mean = ms < meanMsMin ? rate : ((answers - refused) / ms) * 1000;
  const least =
    computeRefusedShare(learned) < manyShare ? fallShares[Math.min(fall?.steps ?? 0, fallShares.length - 1)]! : 0;
  return Math.min(top, computeNextBelow(rate), Math.max(rate * least, Math.ceil(mean)));
}

function applyResponse(before: InferredRate, answer: RateObservation, configured: number): InferredRate | null {
  const learned = {
    ...before,
    fall: before.fall !== null && hasLoweringHelped(before, before.fall) ? null : before.fall,
  };
  const { rate, good, bad, refused, noise } = learned;
  if (rate > good)
    return isProven(learned, answer) ? raiseRate({ ...learned, good: rate }, answer, configured) : learned;
  if (good < configured)
    return learned.fall === null && isTryDue(learned, answer) ? tryHigherRate(learned, answer, configured) : learned;
  // At the configured rate nothing is left to be found out: once refusals have faded there is nothing to remember.
  const isForgotten = refused < 0.5 && bad === null && getNoiseShare(learned, answer) === 0;
  return isForgotten ? null : { ...learned, noise };
}

/** Enough answers without another refusal, or too many to wait for more of them. */
const hasLoweringHelped = (learned: InferredRate, fall: NonNullable<InferredRate['fall']>): boolean =>
  learned.answers >= responsesKept ||
  (learned.answers >= computeResponsesNeeded(learned, fall) && computeRefusedShare(learned) < fall.share / 8);

/** Below one a second many answers are many minutes, and few say enough where most were refused before. */
const computeResponsesNeeded = ({ rate }: InferredRate, { share }: NonNullable<InferredRate['fall']>): number =>
  rate < 1 && share >= noiseShareMax ? 4 : Math.max(20, 12 / share);

/** Whether the rate was used, near enough in full, for long enough. */
function isProven({ rate, bad, sinceMs, answers }: InferredRate, answer: RateObservation): boolean {
  const ms = bad !== null && rate >= bad ? tryAgainMs : tryMs;
  return computeElapsedMs(sinceMs, answer) >= Math.max(ms, 2000 / rate) && isRateUsed(rate, answers, answer);
}

function isTryDue({ rate, sinceMs, answers, tryAtMs }: InferredRate, answer: RateObservation): boolean {
  const isLongAgo = computeElapsedMs(sinceMs, answer) >= Math.max(tryMs, 2000 / rate);
  return isLongAgo && hasPassed(tryAtMs, answer) && isRateUsed(rate, answers, answer);
}

/** A clock set back must not keep anything waiting for ever. */
const computeElapsedMs = (sinceMs: number, { nowMs }: RateObservation): number =>
  nowMs < sinceMs ? Number.POSITIVE_INFINITY : nowMs - sinceMs;

const hasPassed = (atMs: number, { nowMs }: RateObservation): boolean => nowMs >= atMs || atMs - nowMs > tryWaitMsMax;

/** Starts at less than two a second are further apart than the second that `letThrough` looks at. */
const isRateUsed = (rate: number, answers: number, { countLetThrough }: RateObservation): boolean =>
  answers >= Math.max(2, 1.5 * rate) && (rate < 2 || countLetThrough() >= Math.floor(0.8 * Math.floor(rate)));

/** The rate tried is good. One that had been refused before is so no more: the limit has risen. */
function raiseRate(learned: InferredRate, answer: RateObservation, configured: number): InferredRate | null {
  const { bad, good, tryWaitMs } = learned;
  const isRefuted = bad !== null && good >= bad;
  const now = { ...learned, bad: isRefuted ? null : bad, tryWaitMs: isRefuted ? tryWaitMsMin : tryWaitMs };
  if (good >= configured) return getNoiseShare(now, answer) > 0 ? { ...now, bad: null } : null;
  return tryHigherRate(now, answer, configured);
}

/** Tries a tenth more, but what was refused only step by step and when its time has come. */
function tryHigherRate(learned: InferredRate, answer: RateObservation, configured: number): InferredRate {
  const { good, bad, tryAtMs } = learned;
  const least = computeNextAbove(good);
  if (bad !== null && least >= bad && !hasPassed(tryAtMs, answer))
    return { ...changeRate(learned, good, answer), first: learned.first };
  const ideal = good < 1 ? least : Math.max(least, Math.floor(good * 1.1));
  const next = bad === null || ideal < bad ? ideal : Math.max(least, computeNextBelow(bad));
  return changeRate(learned, Math.min(configured, next), answer);
}

const computeNextAbove = (rate: number): number => (rate < 1 ? Math.min(1, rate * 1.5) : Math.floor(rate) + 1);

const computeNextBelow = (rate: number): number => (rate > 1 ? Math.ceil(rate) - 1 : rate / 2);
