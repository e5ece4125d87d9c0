/**
 * What a service's refusals (429) tell of the rate it allows, as a pure function: nothing is known until the first one,
 * and without one the configured rate is used in full. Rates are requests a second; times epoch milliseconds, for what
 * was learned outlives the run.
 */
export interface Learned {
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

export interface Answered {
  /** Its number, and that of the request to be started next. */
  readonly request: number;
  readonly next: number;
  readonly refused: boolean;
  /** Requests let through that were started within the second before it. */
  readonly letThrough: () => number;
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
const answersKept = 500;
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
export const rateInForce = (learned: Learned | null, configured: number): number =>
  Math.min(configured, learned?.rate ?? configured);

/** What is known after one more answer; null where the configured rate stands unquestioned. */
export function observe(learned: Learned | null, answer: Answered, configured: number): Learned | null {
  if (learned === null && !answer.refused) return null;
  const known = learned ?? unquestioned(configured, answer);
  if (answer.request < known.first) return known;
  const fade = known.answers >= answersKept ? 0.5 : 1;
  const fromMs = answer.nowMs - (answer.nowMs - known.fromMs) * fade;
  const counted = { ...known, fromMs, answers: known.answers * fade + 1, refused: known.refused * fade };
  return answer.refused ? afterRefusal(counted, answer, configured) : afterAnswer(counted, answer, configured);
}

function unquestioned(configured: number, { letThrough, request, nowMs }: Answered): Learned {
  return {
    rate: configured,
    good: configured,
    bad: null,
    sinceMs: nowMs,
    tryAtMs: nowMs,
    tryWaitMs: tryWaitMsMin,
    first: 0,
    answers: letThrough(),
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
const changed = (learned: Learned, rate: number, { next, nowMs }: Answered): Learned => ({
  ...learned,
  rate,
  sinceMs: nowMs,
  first: next,
  answers: 0,
  refused: 0,
  fromMs: nowMs,
  runs: [],
  after: next,
  tops: [],
});

function afterRefusal(before: Learned, answer: Answered, configured: number): Learned {
  const tops = [...before.tops, answer.letThrough()].slice(-topsKept);
  const { request, next } = answer;
  const run = request > before.after ? { runs: [...before.runs, request - before.after].slice(-runsAlike) } : {};
  const spell = request >= before.after ? { ...run, after: next } : {};
  const learned = { ...before, ...spell, refused: before.refused + 1, tops, sinceMs: answer.nowMs };
  const rate = rateInForce(learned, configured);
  if (rate > learned.good) return isNoise(learned, answer) ? learned : backToGood(learned, answer);
  return isBlamed(learned, answer) ? lowered({ ...learned, rate }, answer) : learned;
}

const shareOf = ({ refused, answers }: Learned): number => refused / answers;

const noiseOf = ({ noise }: Learned, { nowMs }: Answered): number =>
  noise !== null && nowMs < noise.untilMs ? noise.share : 0;

function isNoise(learned: Learned, answer: Answered): boolean {
  const noise = noiseOf(learned, answer);
  return noise > 0 && (learned.refused < 2 || shareOf(learned) <= 3 * noise);
}

/** Single refusals happen. Many at once, or spells of them at even distances, do not without a reason. */
function isBlamed(learned: Learned, answer: Answered): boolean {
  const { refused, runs, fall } = learned;
  const noise = noiseOf(learned, answer);
  if (noise > 0) return refused >= refusedInNoise && shareOf(learned) >= Math.min(noiseShareMax, 3 * noise);
  if (refused >= refusedAtOnce && shareOf(learned) >= manyShare) return true;
  const isAlike = Math.max(...runs) <= alikeFactor * Math.min(...runs);
  return fall === null ? runs.length >= runsAlike && isAlike : runs.length >= runsAlike / 2;
}

/** A greater rate was tried in vain. */
function backToGood(learned: Learned, answer: Answered): Learned {
  const { rate: bad, good, tryWaitMs } = learned;
  const waitMs = Math.max(tryWaitMs, (requestsPerTry / good) * 1000);
  const isClosed = nextAbove(good) >= bad;
  return {
    ...changed(learned, good, answer),
    bad,
    tryAtMs: answer.nowMs + (isClosed ? Math.min(waitMs, tryWaitMsMax) : tryMs),
    tryWaitMs: isClosed ? Math.min(2 * waitMs, tryWaitMsMax) : tryWaitMs,
  };
}

/** The good rate is good no more: down to what was let through, unless going down did not help before. */
function lowered(learned: Learned, answer: Answered): Learned {
  const { rate, noise, origin } = learned;
  const share = shareOf(learned);
  const from = origin === null || isOver(origin.untilMs, answer) ? rate : Math.max(rate, origin.rate);
  const fall = learned.fall ?? { from, share, steps: 0 };
  const worst = Math.max(fall.share, share);
  const steps = share > worst / 2 ? fallStepsMin : fallStepsMax;
  if (fall.steps >= steps && share < noiseShareMax) {
    const untilMs = answer.nowMs + noiseMs;
    return {
      ...changed(learned, fall.from, answer),
      good: fall.from,
      bad: null,
      fall: null,
      origin: null,
      noise: { share: Math.max(share, noise?.share ?? 0), untilMs },
    };
  }
  const through = letThroughRate(learned, answer);
  const good = Math.max(rateMin, through >= 1 ? Math.floor(through) : through);
  return {
    ...changed(learned, good, answer),
    good,
    bad: rate,
    tryAtMs: answer.nowMs + tryMs,
    tryWaitMs: tryWaitMsMin,
    fall: { ...fall, share: worst, steps: fall.steps + 1 },
    origin: { rate: fall.from, untilMs: answer.nowMs + tryWaitMsMax },
  };
}

/** What the service let through at a rate that it refuses; always less than that. */
function letThroughRate(learned: Learned, { nowMs }: Answered): number {
  const { rate, tops, answers, refused, fromMs, fall } = learned;
  const top = Math.max(...tops);
  if (top < 1) return Math.min(1, rate) / 2;
  // The mean sees through a bucket and through seconds that begin at fixed moments; but pauses lower it.
  const ms = nowMs - fromMs;
  const mean = ms < meanMsMin ? rate : ((answers - refused) / ms) * 1000;
  const least = shareOf(learned) < manyShare ? fallShares[Math.min(fall?.steps ?? 0, fallShares.length - 1)]! : 0;
  return Math.min(top, nextBelow(rate), Math.max(rate * least, Math.ceil(mean)));
}

function afterAnswer(before: Learned, answer: Answered, configured: number): Learned | null {
  const learned = { ...before, fall: before.fall !== null && hasHelped(before, before.fall) ? null : before.fall };
  const { rate, good, bad, refused, noise } = learned;
  if (rate > good) return isProven(learned, answer) ? risen({ ...learned, good: rate }, answer, configured) : learned;
  if (good < configured)
    return learned.fall === null && isDue(learned, answer) ? tried(learned, answer, configured) : learned;
  // At the configured rate nothing is left to be found out: once refusals have faded there is nothing to remember.
  const isForgotten = refused < 0.5 && bad === null && noiseOf(learned, answer) === 0;
  return isForgotten ? null : { ...learned, noise };
}

/** Enough answers without another refusal, or too many to wait for more of them. */
const hasHelped = (learned: Learned, fall: NonNullable<Learned['fall']>): boolean =>
  learned.answers >= answersKept ||
  (learned.answers >= answersOfHelp(learned, fall) && shareOf(learned) < fall.share / 8);

/** Below one a second many answers are many minutes, and few say enough where most were refused before. */
const answersOfHelp = ({ rate }: Learned, { share }: NonNullable<Learned['fall']>): number =>
  rate < 1 && share >= noiseShareMax ? 4 : Math.max(20, 12 / share);

/** Whether the rate was used, near enough in full, for long enough. */
function isProven({ rate, bad, sinceMs, answers }: Learned, answer: Answered): boolean {
  const ms = bad !== null && rate >= bad ? tryAgainMs : tryMs;
  return elapsed(sinceMs, answer) >= Math.max(ms, 2000 / rate) && isUsed(rate, answers, answer);
}

function isDue({ rate, sinceMs, answers, tryAtMs }: Learned, answer: Answered): boolean {
  const isLongAgo = elapsed(sinceMs, answer) >= Math.max(tryMs, 2000 / rate);
  return isLongAgo && isOver(tryAtMs, answer) && isUsed(rate, answers, answer);
}

/** A clock set back must not keep anything waiting for ever. */
const elapsed = (sinceMs: number, { nowMs }: Answered): number =>
  nowMs < sinceMs ? Number.POSITIVE_INFINITY : nowMs - sinceMs;

const isOver = (atMs: number, { nowMs }: Answered): boolean => nowMs >= atMs || atMs - nowMs > tryWaitMsMax;

/** Starts at less than two a second are further apart than the second that `letThrough` looks at. */
const isUsed = (rate: number, answers: number, { letThrough }: Answered): boolean =>
  answers >= Math.max(2, 1.5 * rate) && (rate < 2 || letThrough() >= Math.floor(0.8 * Math.floor(rate)));

/** The rate tried is good. One that had been refused before is so no more: the limit has risen. */
function risen(learned: Learned, answer: Answered, configured: number): Learned | null {
  const { bad, good, tryWaitMs } = learned;
  const isRefuted = bad !== null && good >= bad;
  const now = { ...learned, bad: isRefuted ? null : bad, tryWaitMs: isRefuted ? tryWaitMsMin : tryWaitMs };
  if (good >= configured) return noiseOf(now, answer) > 0 ? { ...now, bad: null } : null;
  return tried(now, answer, configured);
}

/** Tries a tenth more, but what was refused only step by step and when its time has come. */
function tried(learned: Learned, answer: Answered, configured: number): Learned {
  const { good, bad, tryAtMs } = learned;
  const least = nextAbove(good);
  if (bad !== null && least >= bad && !isOver(tryAtMs, answer))
    return { ...changed(learned, good, answer), first: learned.first };
  const ideal = good < 1 ? least : Math.max(least, Math.floor(good * 1.1));
  const next = bad === null || ideal < bad ? ideal : Math.max(least, nextBelow(bad));
  return changed(learned, Math.min(configured, next), answer);
}

const nextAbove = (rate: number): number => (rate < 1 ? Math.min(1, rate * 1.5) : Math.floor(rate) + 1);

const nextBelow = (rate: number): number => (rate > 1 ? Math.ceil(rate) - 1 : rate / 2);
