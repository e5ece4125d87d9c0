import type { Clock } from '../core/clock.ts';
import type { Covered, Origin } from '../core/coverage.ts';
import { ranks } from '../core/merge.ts';
import { intersect, union, type Window } from '../core/window.ts';
import type { TickRecord } from '../state/journal.ts';
import type { TickPage, Upstream } from '../upstream/upstream.ts';
import { judge } from './judge.ts';
import {
  type Answer,
  type Ask,
  isFull,
  isNeedless,
  type Learned,
  learnCount,
  learnEdges,
  newTicks,
  readClaims,
  requestWindow,
  restOfPartial,
  sideOfProbe,
  spanOf,
  turnOfFull,
} from './paging.ts';

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
  readonly lost: readonly (Window & { readonly reason: string })[];
}

/** Answers in a row that may bring nothing new and claim hardly anything, before a window is given up. */
const idleAnswersMax = 20;

/** Asks until the windows are covered, or the service brings no more of them. Rejects with UpstreamError. */
export async function cover(context: CoverContext, symbol: string, windows: readonly Window[]): Promise<CoverOutcome> {
  const asks = windows.map((w): Ask => ({ ...w, kind: 'whole' }));
  return work(context, symbol, asks);
}

/** Settles an answer that waited: complete where a fuller one came, else by asking on. */
export async function settle(context: CoverContext, { symbol, ask, answer }: Waiting): Promise<CoverOutcome> {
  if (!isFull(context.learned, answer.count)) {
    await claim(context, symbol, ask, answer.answered, answer.observedAt);
    const { next, stuck } = restOfPartial(ask, answer);
    const outcome = await work(
      context,
      symbol,
      next.map((w): Ask => ({ ...w, kind: 'whole' })),
    );
    return { waiting: outcome.waiting, lost: [...outcome.lost, ...stuck.map(unanswered)] };
  }
  const turn = turnOfFull(context.learned, ask, answer);
  await claim(context, symbol, ask, turn.claim, answer.observedAt);
  const outcome = await work(context, symbol, [...turn.next], true);
  return { waiting: outcome.waiting, lost: [...outcome.lost, ...turn.stuck.map(unanswered)] };
}

const unanswered = (w: Window): Window & { reason: string } => ({
  from: w.from,
  to: w.to,
  reason: 'the service does not answer for this window',
});

const named = (w: Window): Window & { reason: string } => ({
  ...w,
  reason: 'the service says that it lacks this window',
});

async function work(context: CoverContext, symbol: string, asks: Ask[], last = false): Promise<CoverOutcome> {
  const { learned } = context;
  const waiting: Waiting[] = [];
  const lost: (Window & { reason: string })[] = [];
  let idle = 0;
  while (asks.length > 0) {
    const ask = asks.shift()!;
    if (isNeedless(learned, ask)) {
      await claim(context, symbol, ask, intersect(ask.answered ?? [], [ask]), ask.answeredAt!);
      continue;
    }
    const { answer, record, gaps } = await askFor(context, symbol, ask);
    lost.push(...gaps.map(named));
    if (ask.parent !== undefined) await learnSide(context, symbol, ask, answer, newTicks(ask, record.ticks));
    if (!isFull(learned, answer.count)) {
      await context.append({ ...record, covered: stamped(answer.answered, answer) });
      const { next, stuck } = restOfPartial(ask, answer);
      idle = next.length > 0 && answer.span === null ? idle + 1 : 0;
      if (idle > idleAnswersMax) stuck.push(...next.splice(0));
      asks.unshift(...next.map((w): Ask => ({ ...w, kind: 'whole' })));
      lost.push(...stuck.map(unanswered));
    } else if (!learned.capProved && !learned.capWaits && !last && ask.kind === 'whole') {
      learned.capWaits = true;
      await context.append(record);
      waiting.push({ symbol, ask, answer });
    } else {
      const turn = turnOfFull(learned, ask, answer);
      await context.append({ ...record, covered: stamped(turn.claim, answer) });
      asks.unshift(...turn.next);
      lost.push(...turn.stuck.map(unanswered));
    }
  }
  return { waiting, lost: trim(lost) };
}

const stamped = (windows: readonly Window[], answer: Answer): Omit<Covered, 'origin'>[] =>
  union(windows).map((w) => ({ ...w, fetchedAt: answer.observedAt }));

/** Joins what was lost piecemeal. */
function trim(lost: readonly (Window & { reason: string })[]): (Window & { reason: string })[] {
  return [...Map.groupBy(lost, (w) => w.reason)].flatMap(([reason, list]) =>
    union(list).map((w) => ({ ...w, reason })),
  );
}

/** Asks once. The record holds the ticks and covers nothing yet: what the answer speaks for is still to be decided. */
async function askFor(
  context: CoverContext,
  symbol: string,
  ask: Ask,
): Promise<{ answer: Answer; record: TickRecord; gaps: Window[] }> {
  const { learned, clock } = context;
  const requested = requestWindow(ask, learned);
  const page = await context.upstream.ticks({ symbol, ...requested, limit: context.pageLimit }, context.signal);
  const observedAt = page.generatedAt ?? clock.nowMs();
  learnEdges(learned, requested, page.t);
  learnCount(learned, page.received);
  const { ticks, rejected } = judge(page, ask, clock.nowMs() + context.futureSkewMs);
  context.onPage(ticks.t.length);
  const claims = readClaims(ask, page, observedAt, learned);
  const answer = { count: page.received, span: spanOf(ticks), observedAt, ...claims };
  const record = { ...recordOf(context, symbol, ask, observedAt), ticks, rejected };
  return { answer, record, gaps: intersect(page.gaps, [ask]) };
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

/** Makes the coverage of an earlier answer durable. It comes after its ticks, so it never claims what is not there. */
async function claim(
  context: CoverContext,
  symbol: string,
  ask: Window,
  windows: readonly Window[],
  fetchedAt: number,
): Promise<void> {
  const covered: Omit<Covered, 'origin'>[] = union(windows).map((w) => ({ ...w, fetchedAt }));
  if (covered.length > 0) await context.append({ ...recordOf(context, symbol, ask, fetchedAt), covered });
}

/**
 * Learns which side the service keeps. Much that was left out on one side proves it; a few ticks may just be late, and
 * none may mean that nothing was left out: then one request with limit 1 over the parent's span tells.
 */
async function learnSide(
  context: CoverContext,
  symbol: string,
  ask: Ask,
  answer: Answer,
  brought: number,
): Promise<void> {
  const { learned } = context;
  if (brought > 0 && ask.parent?.count === learned.cap) learned.capProved = true;
  if (learned.side !== null) return;
  if (brought > 1 && isFull(learned, answer.count)) {
    learned.side = ask.kind === 'high' ? 'earliest' : 'latest';
    return;
  }
  if (learned.probed || ask.parent === undefined) return;
  learned.probed = true;
  const { first, last } = ask.parent;
  const requested = { from: first, to: last + 1 };
  const page: TickPage = await context.upstream.ticks({ symbol, ...requested, limit: 1 }, context.signal);
  learned.side = sideOfProbe(ask.parent, page.t);
}
