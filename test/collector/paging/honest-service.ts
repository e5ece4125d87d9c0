/** A server that never omits a known tick, in every way of paging that the interface allows. */
import type { RejectedInput } from '../../../src/base/ticks.ts';
import { isWithin, type Window } from '../../../src/base/window.ts';
import type { TickPage, TicksQuery, Upstream } from '../../../src/client/upstream.ts';

/** One stored tick, visible from `seenFrom` on. If it is not usable, its element has no number. */
export interface Row {
  readonly t: number;
  readonly p: number;
  readonly seenFrom: number;
  readonly usable: boolean;
}

export interface PagingTraits {
  readonly cap: number;
  readonly side: 'earliest' | 'latest';
  readonly order: 'ascending' | 'newest first' | 'shuffled';
  readonly fromInclusive: boolean;
  readonly toInclusive: boolean;
  /** What `from` and `to` state: the request, the span of the ticks if truncated, always that span, or nothing. */
  readonly echo: 'requested' | 'tightened' | 'span' | 'none';
  /** How far its generated_at is behind our clock, in ms. Null: not stated. */
  readonly behindMs: number | null;
  /** Start of its history, stated in `from`. Null: unlimited. */
  readonly keptFrom: number | null;
  /** The longest window per response, in ms, and which end of a longer one is served. Null: unlimited. */
  readonly longest: { readonly ms: number; readonly end: 'first' | 'last' } | null;
  /** Windows that it states as gaps. */
  readonly gaps: readonly Window[];
  /** Latency of a response, in ms of our clock. */
  readonly latencyMs: number;
  /** Which part of the requested window it respects. It returns as many of all ticks as fit. */
  readonly respects: 'window' | 'end' | 'nothing';
}

export const plainTraits: PagingTraits = {
  cap: 100,
  side: 'earliest',
  order: 'ascending',
  fromInclusive: true,
  toInclusive: false,
  echo: 'requested',
  behindMs: 0,
  keptFrom: null,
  longest: null,
  gaps: [],
  latencyMs: 2,
  respects: 'window',
};

export interface ManualTime {
  nowMs: number;
}

export interface HonestService extends Pick<Upstream, 'ticks'> {
  requests(): number;
  /** When the first response was generated. Infinite before. */
  firstAnswerMs(): number;
}

/** More requests than any of these tests needs. */
const requestsMax = 20_000;

export function honestService(
  truth: ReadonlyMap<string, readonly Row[]>,
  ways: PagingTraits,
  hand: ManualTime,
): HonestService {
  let requests = 0;
  let firstAnswerMs = Number.POSITIVE_INFINITY;
  return {
    requests: () => requests,
    firstAnswerMs: () => firstAnswerMs,
    async ticks(query) {
      requests++;
      if (requests > requestsMax) throw new Error('too many requests');
      // Responses to several workers arrive out of order.
      for (let i = requests % 3; i > 0; i--) await Promise.resolve();
      hand.nowMs += ways.latencyMs;
      const asOfMs = hand.nowMs - (ways.behindMs ?? 0);
      const page = pageOf(truth.get(query.symbol) ?? [], query, ways, asOfMs);
      firstAnswerMs = Math.min(firstAnswerMs, asOfMs);
      await Promise.resolve();
      hand.nowMs += ways.latencyMs;
      return page;
    },
  };
}

/**
 * The ticks of a window that are visible at a time, which is the truth for a response of that time. Rows are in order of
 * time.
 */
export const visible = (rows: readonly Row[], { from, to }: Window, asOfMs: number): Row[] =>
  rows.slice(firstAt(rows, from), firstAt(rows, Math.min(to, asOfMs))).filter((row) => row.seenFrom <= asOfMs);

/** Index of the first row at or after `t`. */
function firstAt(rows: readonly Row[], t: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle]!.t < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

function pageOf(rows: readonly Row[], query: TicksQuery, ways: PagingTraits, asOfMs: number): TickPage {
  const servedWindow = computeServedWindow(query, ways);
  const from = ways.respects === 'window' ? servedWindow.from + (ways.fromInclusive ? 0 : 1) : Number.NEGATIVE_INFINITY;
  const to = ways.respects === 'nothing' ? Number.POSITIVE_INFINITY : servedWindow.to + (ways.toInclusive ? 1 : 0);
  const matching = visible(rows, { from, to }, asOfMs).filter((row) => !ways.gaps.some((gap) => isWithin(row.t, gap)));
  const rowsMax = Math.min(ways.cap, query.limit);
  const truncated = matching.length > rowsMax;
  const kept = ways.side === 'earliest' ? matching.slice(0, rowsMax) : matching.slice(-rowsMax);
  const usable = inOrder(kept, ways.order).filter((row) => row.usable);
  return {
    t: Float64Array.from(usable, (row) => row.t),
    p: Float64Array.from(usable, (row) => row.p),
    received: kept.length,
    rejected: kept
      .filter((row) => !row.usable)
      .map((row): RejectedInput => ({ reason: 'p is missing', raw: `{"t":${row.t}}` })),
    ...echoOf(servedWindow, kept, truncated, ways),
    generatedAt: ways.behindMs === null ? null : asOfMs,
    gaps: ways.gaps.filter((gap) => gap.to > from && gap.from < to),
  };
}

function computeServedWindow(query: Window, { keptFrom, longest }: PagingTraits): Window {
  let { from, to } = query;
  if (keptFrom !== null) from = Math.min(Math.max(from, keptFrom), Math.max(to, keptFrom));
  if (longest !== null && to - from > longest.ms) {
    if (longest.end === 'first') to = from + longest.ms;
    else from = to - longest.ms;
  }
  return { from, to };
}

function echoOf(
  servedWindow: Window,
  kept: readonly Row[],
  truncated: boolean,
  ways: PagingTraits,
): { from: number | null; to: number | null } {
  if (ways.echo === 'none') return { from: null, to: null };
  const first = kept[0];
  const last = kept.at(-1);
  if (ways.echo === 'requested' || first === undefined || last === undefined) return servedWindow;
  if (ways.echo === 'span') return { from: first.t, to: last.t };
  if (!truncated) return servedWindow;
  return ways.side === 'earliest' ? { from: servedWindow.from, to: last.t } : { from: first.t, to: servedWindow.to };
}

function inOrder(rows: readonly Row[], order: PagingTraits['order']): Row[] {
  if (order === 'ascending') return [...rows];
  if (order === 'newest first') return rows.toReversed();
  // Any fixed disorder will do: by the digits of a product.
  return rows.toSorted((a, b) => ((a.t * 7919 + a.p * 1e6) % 997) - ((b.t * 7919 + b.p * 1e6) % 997));
}
