/** A service that is honest about a known truth, in every way of paging that the interface leaves open. */
import type { RejectedInput } from '../../../src/base/ticks.ts';
import { isWithin, type Window } from '../../../src/base/window.ts';
import type { TickPage, TicksQuery, Upstream } from '../../../src/client/upstream.ts';

/** One stored tick: it can be seen from `seenFrom` on; one that is not usable is an element without a number. */
export interface Row {
  readonly t: number;
  readonly p: number;
  readonly seenFrom: number;
  readonly usable: boolean;
}

export interface Ways {
  readonly cap: number;
  readonly side: 'earliest' | 'latest';
  readonly order: 'ascending' | 'newest first' | 'shuffled';
  readonly fromInclusive: boolean;
  readonly toInclusive: boolean;
  /** What `from` and `to` say: what was asked, the ticks' span where truncated, the ticks' span always, nothing. */
  readonly echo: 'asked' | 'tightened' | 'span' | 'none';
  /** How far its generated_at is behind our clock, in ms; null: it does not say. */
  readonly behindMs: number | null;
  /** Nothing before this moment is answered, and `from` says so; null: everything is. */
  readonly keptFrom: number | null;
  /** The longest window it answers at once, in ms, and which end of a longer one; null: any. */
  readonly longest: { readonly ms: number; readonly end: 'first' | 'last' } | null;
  /** What it says that it lacks. */
  readonly gaps: readonly Window[];
  /** How long an answer takes, in ms of our clock. */
  readonly latencyMs: number;
  /** What it heeds of the window asked for; of all it has, it answers with as much as fits. */
  readonly heeds: 'window' | 'end' | 'nothing';
}

export const plainWays: Ways = {
  cap: 100,
  side: 'earliest',
  order: 'ascending',
  fromInclusive: true,
  toInclusive: false,
  echo: 'asked',
  behindMs: 0,
  keptFrom: null,
  longest: null,
  gaps: [],
  latencyMs: 2,
  heeds: 'window',
};

export interface Hand {
  nowMs: number;
}

export interface HonestService extends Pick<Upstream, 'ticks'> {
  requests(): number;
  /** When the first answer was generated; infinite before. */
  firstAnswerMs(): number;
}

/** No run of these tests needs so many. */
const requestsMax = 20_000;

export function honestService(truth: ReadonlyMap<string, readonly Row[]>, ways: Ways, hand: Hand): HonestService {
  let requests = 0;
  let firstAnswerMs = Number.POSITIVE_INFINITY;
  return {
    requests: () => requests,
    firstAnswerMs: () => firstAnswerMs,
    async ticks(query) {
      requests++;
      if (requests > requestsMax) throw new Error('it goes round in circles');
      // Answers to several workers overtake each other.
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

/** What of a window is visible at a moment: the truth that an answer of that moment is measured by. Rows are in order of time. */
export const visible = (rows: readonly Row[], { from, to }: Window, asOfMs: number): Row[] =>
  rows.slice(firstAt(rows, from), firstAt(rows, Math.min(to, asOfMs))).filter((row) => row.seenFrom <= asOfMs);

/** The index of the first row that is not before `t`. */
function firstAt(rows: readonly Row[], t: number): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle]!.t < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

function pageOf(rows: readonly Row[], query: TicksQuery, ways: Ways, asOfMs: number): TickPage {
  const asked = answeredWindow(query, ways);
  const from = ways.heeds === 'window' ? asked.from + (ways.fromInclusive ? 0 : 1) : Number.NEGATIVE_INFINITY;
  const to = ways.heeds === 'nothing' ? Number.POSITIVE_INFINITY : asked.to + (ways.toInclusive ? 1 : 0);
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
    ...echoOf(asked, kept, truncated, ways),
    generatedAt: ways.behindMs === null ? null : asOfMs,
    gaps: ways.gaps.filter((gap) => gap.to > from && gap.from < to),
  };
}

function answeredWindow(query: Window, { keptFrom, longest }: Ways): Window {
  let { from, to } = query;
  if (keptFrom !== null) from = Math.min(Math.max(from, keptFrom), Math.max(to, keptFrom));
  if (longest !== null && to - from > longest.ms) {
    if (longest.end === 'first') to = from + longest.ms;
    else from = to - longest.ms;
  }
  return { from, to };
}

function echoOf(
  asked: Window,
  kept: readonly Row[],
  truncated: boolean,
  ways: Ways,
): { from: number | null; to: number | null } {
  if (ways.echo === 'none') return { from: null, to: null };
  const first = kept[0];
  const last = kept.at(-1);
  if (ways.echo === 'asked' || first === undefined || last === undefined) return asked;
  if (ways.echo === 'span') return { from: first.t, to: last.t };
  if (!truncated) return asked;
  return ways.side === 'earliest' ? { from: asked.from, to: last.t } : { from: first.t, to: asked.to };
}

function inOrder(rows: readonly Row[], order: Ways['order']): Row[] {
  if (order === 'ascending') return [...rows];
  if (order === 'newest first') return rows.toReversed();
  // Any fixed disorder does: by the digits of a product.
  return rows.toSorted((a, b) => ((a.t * 7919 + a.p * 1e6) % 997) - ((b.t * 7919 + b.p * 1e6) % 997));
}
