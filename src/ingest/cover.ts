import type { Clock } from '../core/clock.ts';
import type { Covered, Origin } from '../core/coverage.ts';
import { UpstreamError } from '../core/errors.ts';
import { ranks } from '../core/merge.ts';
import type { TicksMeaning } from '../core/raw-page.ts';
import { intersect, union, type Window } from '../core/window.ts';
import type { TickRecord } from '../state/journal.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { Answer, Ask } from './ask.ts';
import { hear } from './hear.ts';
import { joinLost, type Lost, lagOf, named, noneUsable, saysNothing, unanswered } from './lacking.ts';
import { canProbe, isFull, type Learned, mustWait, probeWindow, requestWindow, sideOfProbe } from './learned.ts';
import { isIdle, isNeedless, turnOf, turnOfNeedless } from './paging.ts';
import { cutToLength, type Heard, instead, isAboutSize, learnSize, withoutOlder } from './refusal.ts';

/** What covering windows needs from outside. */
export interface CoverContext {
  readonly upstream: Pick<Upstream, 'ticks'>;
  readonly clock: Clock;
  readonly runId: string;
  readonly origin: Origin;
  readonly learned: Learned;
  /** Ticks asked for in one request. */
  readonly pageLimit: number;
  readonly futureSkewMs: number;
  readonly signal: AbortSignal;
  /** Makes an answer durable; resolves when it may go on. */
  append(record: TickRecord): Promise<void>;
  onPage(ticks: number): void;
}

/** An answer that waits for the end of the run, since a fuller one of another symbol would prove it complete. */
export interface Waiting {
  readonly symbol: string;
  readonly ask: Ask;
  readonly answer: Answer;
}

export interface CoverOutcome {
  readonly waiting: readonly Waiting[];
  /** Windows that the service does not bring, with the reason. */
  readonly lost: readonly Lost[];
}

/** Answers that may bring hardly anything, with none between them that does, before a window is given up. */
const idleAnswersMax = 20;

/** Asks until the windows are covered, or the service brings no more of them. Rejects with UpstreamError. */
export async function cover(context: CoverContext, symbol: string, windows: readonly Window[]): Promise<CoverOutcome> {
  const outcomes: CoverOutcome[] = [];
  const heard: Heard = { answers: 0, refusal: null };
  for (const w of windows) {
    outcomes.push(await work(context, symbol, [{ from: w.from, to: w.to, kind: 'whole' }], mustWait, heard));
  }
  // Refused whatever was asked: that is about the symbol.
  if (heard.answers === 0 && heard.refusal !== null) throw heard.refusal;
  return joined(outcomes);
}

/** Settles an answer that waited: complete where a fuller one came, else by asking on. Leaves nothing waiting. */
export async function settle(context: CoverContext, { symbol, ask, answer }: Waiting): Promise<CoverOutcome> {
  const { learned } = context;
  if (isFull(learned, answer.count)) await learnSide(context, symbol, answer);
  const turn = turnOf(learned, ask, answer);
  await claim(context, symbol, ask, turn.claim, answer.observedAt);
  const rest = await work(context, symbol, [...turn.next], () => false, { answers: 1, refusal: null });
  return joined([{ waiting: [], lost: turn.stuck.map(unanswered(learned)) }, rest]);
}

/** Works off the asks and those that come of them. `waits` decides which full answers are left for later. */
async function work(
  context: CoverContext,
  symbol: string,
  asks: Ask[],
  waits: (learned: Learned, count: number) => boolean,
  heard: Heard,
): Promise<CoverOutcome> {
  const { learned } = context;
  const waiting: Waiting[] = [];
  const lost: Lost[] = [];
  let idle = 0;
  while (asks.length > 0) {
    const ask = asks.shift()!;
    if (ask.parent !== undefined && isNeedless(learned, ask)) {
      const turn = turnOfNeedless(learned, ask, ask.parent);
      await claim(context, symbol, ask, turn.claim, ask.parent.observedAt);
      asks.unshift(...turn.next);
      lost.push(...turn.stuck.map(unanswered(learned)));
      continue;
    }
    const cut = cutToLength(learned, ask);
    if (cut !== undefined) {
      asks.unshift(...cut);
      continue;
    }
    const limit = Math.min(context.pageLimit, learned.limit);
    const asked = await askFor(context, symbol, ask, limit);
    if (asked === null) {
      lost.push(unanswered(learned)(ask));
      continue;
    }
    if (asked instanceof UpstreamError) {
      heard.refusal ??= asked;
      const parts = ask.kind === 'whole' ? await instead(context, symbol, ask, limit, heard) : null;
      if (parts === null) lost.push(...refused(learned, ask, asks, asked));
      else asks.unshift(...parts);
      continue;
    }
    heard.answers++;
    learnSize(learned, ask, limit);
    const { answer, record, gaps } = asked;
    for (const gap of gaps) lost.push(named(gap));
    if (saysNothing(record.rejected, answer.brought)) {
      await context.append(record);
      lost.push({ from: ask.from, to: ask.to, reason: noneUsable(record.rejected) });
      continue;
    }
    const lag = lagOf(ask, answer);
    if (lag !== null) lost.push(lag);
    const full = isFull(learned, answer.count);
    if (full && (ask.kind === 'whole' || ask.kind === 'earlier') && waits(learned, answer.count)) {
      await context.append(record);
      waiting.push({ symbol, ask, answer });
      continue;
    }
    if (full) await learnSide(context, symbol, answer);
    const turn = turnOf(learned, ask, answer);
    await context.append({ ...record, covered: stamped(turn.claim, answer.observedAt) });
    lost.push(...turn.stuck.map(unanswered(learned)));
    const idles = isIdle(learned, answer, turn);
    if (idles !== null) idle = idles ? idle + 1 : 0;
    if (idle <= idleAnswersMax) asks.unshift(...turn.next);
    else lost.push(...[...turn.next, ...asks.splice(0)].map(unanswered(learned)));
  }
  return { waiting, lost: joinLost(lost) };
}

/** Gives up what was refused, and of what is still to be asked what is older: a refusal of its age is learned. */
function refused(learned: Learned, ask: Ask, asks: Ask[], { reason }: UpstreamError): Lost[] {
  const { older, rest } = withoutOlder(asks, ask);
  if (older.length > 0) learned.oldestFrom = ask.to;
  asks.splice(0, asks.length, ...rest);
  return [ask, ...older].map(({ from, to }) => ({ from, to, reason }));
}

/**
 * Asks once; null where the service refuses what lies before its own start, the error where it may have refused how
 * much was asked for, or how old it is. The record holds the ticks and covers
 * nothing yet: what the answer speaks for is still to be decided.
 */
async function askFor(
  context: CoverContext,
  symbol: string,
  ask: Ask,
  limit: number,
): Promise<{ answer: Answer; record: TickRecord; gaps: Window[] } | UpstreamError | null> {
  const { learned, clock, signal } = context;
  const requested = requestWindow(ask, learned);
  const sentAt = clock.nowMs();
  const query = { symbol, ...requested, limit, askedAt: sentAt, meaning: meaningOf(context, ask) };
  const page = await context.upstream.ticks(query, signal).catch((error: unknown) => {
    if (ask.kind === 'earlier' && error instanceof UpstreamError && error.failure === 'refused') return null;
    if (isAboutSize(error)) return error;
    throw error;
  });
  if (page instanceof UpstreamError) return page;
  if (page === null) {
    learned.refusesEarlier = true;
    return null;
  }
  const futureMs = clock.nowMs() + context.futureSkewMs;
  const { answer, ticks, rejected } = hear(learned, ask, { requested, sentAt, futureMs }, page);
  context.onPage(ticks.t.length);
  if (ask.kind === 'earlier' && !answer.spoke) learned.refusesEarlier = true;
  const record = { ...recordOf(context, symbol, ask, answer.observedAt), ticks, rejected };
  return { answer, record, gaps: intersect(page.gaps, [ask]) };
}

/** What the request is for, so that its answer can be read again. */
function meaningOf({ origin }: CoverContext, { from, to, kind, parent }: Ask): TicksMeaning {
  const meaning = { origin, asked: { from, to }, kind };
  if (parent === undefined || parent.span === null) return meaning;
  const { count, span, observedAt } = parent;
  return { ...meaning, parent: { count, ...span, observedAt } };
}

const recordOf = (context: CoverContext, symbol: string, ask: Window, observedAt: number): TickRecord => ({
  runId: context.runId,
  symbol,
  asked: { from: ask.from, to: ask.to },
  observedAt,
  origin: context.origin,
  rank: ranks.poll,
  ticks: { t: new Float64Array(0), p: new Float64Array(0) },
  rejected: [],
  covered: [],
});

const stamped = (windows: readonly Window[], fetchedAt: number): Omit<Covered, 'origin'>[] =>
  union(windows).map((w) => ({ ...w, fetchedAt }));

/** Makes the coverage of an earlier answer durable. It comes after its ticks, so it never claims what is not there. */
async function claim(
  context: CoverContext,
  symbol: string,
  ask: Window,
  windows: readonly Window[],
  fetchedAt: number,
): Promise<void> {
  const covered = stamped(windows, fetchedAt);
  if (covered.length > 0) await context.append({ ...recordOf(context, symbol, ask, fetchedAt), covered });
}

/**
 * Learns which side the service keeps, by one request with limit 1 over the span of an answer. It saves every symbol
 * of the run a request in the wrong direction, so all of them wait for it.
 */
async function learnSide(context: CoverContext, symbol: string, { span }: Answer): Promise<void> {
  const { learned } = context;
  if (learned.side !== null || !canProbe(span)) return;
  if (learned.probe === null) {
    if (learned.probesLeft === 0) return;
    learned.probesLeft--;
    const asked = { from: span.first, to: span.last + 1 };
    const meaning = { origin: context.origin, asked, kind: 'probe' } as const;
    const query = { symbol, ...probeWindow(span), limit: 1, meaning };
    learned.probe = context.upstream
      .ticks(query, context.signal)
      .then(
        (page) => {
          learned.side ??= page.received === 1 ? sideOfProbe(span, page.t) : null;
        },
        (error: unknown) => {
          // A probe is no part of the work: without it both directions are asked, and fail by themselves.
          if (!(error instanceof UpstreamError)) throw error;
        },
      )
      .finally(() => {
        learned.probe = null;
      });
  }
  await learned.probe;
}

const joined = (outcomes: readonly CoverOutcome[]): CoverOutcome => ({
  waiting: outcomes.flatMap((outcome) => outcome.waiting),
  lost: joinLost(outcomes.flatMap((outcome) => outcome.lost)),
});
