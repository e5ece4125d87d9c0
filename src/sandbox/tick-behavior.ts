import type { Static } from 'typebox';
import { hourMs, type Window } from '../base/window.ts';
import { createChoice, createFlag, createInteger, createNullable, createNumber } from '../settings/setting-table.ts';

// How a server builds a response from its ticks: each trait is an option, and options can be combined freely. Pure: the
// sandbox and the randomly generated servers of the tests (test/collector/paging/adversary) use the same functions.

const latestMs = Date.UTC(2100, 0, 1);

/** Traits of a server's tick pages, with default and bounds. */
export const tickBehaviorTable = {
  /** Page cap, whatever limit is requested; with the unit `bytes` in units of 32 bytes of text. */
  cap: createInteger(5_000, 1, 1_000_000),
  capUnit: createChoice(['rows', 'bytes'], 'rows'),
  /** Maximum reduction of `cap` on a single page, as a fraction (0 to 1). */
  capVariation: createNumber(0, 0, 0.95),
  /** Whether symbols have individual caps, between a quarter of `cap` and all of it. */
  capBySymbol: createFlag(false),
  /** Number of requests for a symbol after which its cap drops to 60 %; null: never. */
  capDropsAfter: createNullable(createInteger(0, 0, 1_000_000)),
  /** Truncation side: which ticks a truncated page keeps. */
  truncate: createChoice(['earliest', 'latest', 'alternating'], 'earliest'),
  /** A window with more elements than this returns an evenly spaced sample of this size; null: no sampling. */
  sample: createNullable(createInteger(1, 1, 1_000_000)),
  /** The cap applies only to ticks older than this, in ms; newer ones are appended. Null: it applies to all. */
  uncappedAgeMs: createNullable(createInteger(1, 1, latestMs)),
  /** Part of the requested window that is respected: `end` ignores `from`, `hours` widens the window to whole UTC hours. */
  honors: createChoice(['window', 'end', 'hours', 'nothing'], 'window'),
  /** Whether a tick at `from`, or at `to`, belongs to the window. */
  fromInclusive: createFlag(true),
  toInclusive: createFlag(false),
  /** Share of responses that also contain the last tick before the window. */
  carryInShare: createNumber(0, 0, 1),
  /** Mean number of repetitions of each tick; they count toward `count` and the cap, like all of the following. */
  repeatShare: createNumber(0, 0, 10),
  /** Share of ticks that are unusable in every response: the price is text. */
  unusableShare: createNumber(0, 0, 1),
  /** Mean number of elements per tick that are not ticks. */
  invalidShare: createNumber(0, 0, 10),
  /** Number of ticks in one millisecond, at different prices, at about every 100th tick; null: one. */
  burstTicks: createNullable(createInteger(2, 2, 100_000)),
  /** Order of the elements in a page. */
  order: createChoice(['ascending', 'newest-first', 'shuffled'], 'ascending'),
  /**
   * Ends that a response states.
   * - `clamped`: as requested, limited to the time between the retention limit and now · `echo`: as requested
   * - `tightened`: like `clamped`, but on the truncated side the time of the last tick on the page
   * - `cut`: if the page is truncated, its first and last tick; `cut-from`, `cut-to`: one of them
   * - `span`: its first and last tick, always · `none`: no ends
   */
  echoWindow: createChoice(['clamped', 'echo', 'tightened', 'cut', 'cut-from', 'cut-to', 'span', 'none'], 'clamped'),
  /** Time by which `generated_at` is earlier than the response, ms; null: not stated. */
  generatedAtLagMs: { anyOf: [createInteger(0, 0, latestMs), { type: 'null' }], default: 0 },
  /** `generated_at` is rounded down to a multiple of this many ms; 0: not rounded. */
  generatedAtResolutionMs: createInteger(0, 0, latestMs),
} as const;

export type TickBehavior = OptionValues<typeof tickBehaviorTable>;

/** The values of a table of options. */
export type OptionValues<T> = {
  readonly [K in keyof T]: T[K] extends { readonly isValid: unknown; readonly default: infer V }
    ? V
    : T[K] extends { readonly items: { readonly enum: readonly (infer N)[] } }
      ? readonly N[]
      : Static<T[K] & object>;
};

export const readDefaults = <T extends Readonly<Record<string, { readonly default: unknown }>>>(table: T) =>
  Object.fromEntries(Object.entries(table).map(([name, option]) => [name, option.default])) as OptionValues<T>;

export const defaultTickBehavior: TickBehavior = readDefaults(tickBehaviorTable);

interface BehaviorRow {
  /** Epoch ms. */
  readonly t: number;
  readonly p: number;
}

interface ComposeRequest {
  /** As requested. */
  readonly window: Window;
  readonly limit: number;
  /** Number of the request, per symbol or per server. */
  readonly n: number;
  /** With `capBySymbol` the symbol's cap is `cap / (1 + rank)`. */
  readonly rank: number;
  readonly nowMs: number;
  /** Retention limit, epoch ms: no earlier tick is returned; -Infinity: no limit. */
  readonly oldestMs: number;
  /** Random numbers from [0, 1) that determine the response. */
  readonly draw: () => number;
}

/** A page before encoding. Null is an element that is not a tick. */
interface ComposedPage<T> {
  readonly elements: readonly (T | null)[];
  readonly isTruncated: boolean;
  readonly from: number | null;
  readonly to: number | null;
}

/** The half-open window whose ticks are returned. */
export function computeMatchedWindow({ from, to }: Window, behavior: TickBehavior): Window {
  const low = behavior.honors === 'hours' ? from - (from % hourMs) : from;
  const high = behavior.honors === 'hours' ? to - (to % hourMs) + hourMs : to;
  return {
    from:
      behavior.honors === 'nothing' || behavior.honors === 'end'
        ? Number.NEGATIVE_INFINITY
        : low + (behavior.fromInclusive ? 0 : 1),
    to: behavior.honors === 'nothing' ? Number.POSITIVE_INFINITY : high + (behavior.toInclusive ? 1 : 0),
  };
}

/** Whether a page depends on all ticks of its window instead of those at one end. */
export const needsWholeWindow = ({ sample, uncappedAgeMs }: TickBehavior): boolean =>
  sample !== null || uncappedAgeMs !== null;

/** The truncation side of the nth request. */
export function getKeptSide(n: number, { truncate }: TickBehavior): 'earliest' | 'latest' {
  if (truncate === 'alternating') return n % 2 === 0 ? 'earliest' : 'latest';
  return truncate;
}

/** A tick is unusable in every response that contains it. */
export const isUsable = ({ t, p }: BehaviorRow, { unusableShare }: Pick<TickBehavior, 'unusableShare'>): boolean =>
  unusableShare === 0 || ((Math.imul(t % 100_003, 7919) + p * 1_000_003) >>> 0) % 10_007 >= unusableShare * 10_007;

/** Epoch ms of `generated_at`; null if it is not stated. */
export function computeGeneratedAt(
  nowMs: number,
  { generatedAtLagMs, generatedAtResolutionMs }: TickBehavior,
): number | null {
  if (generatedAtLagMs === null) return null;
  const moment = nowMs - generatedAtLagMs;
  return generatedAtResolutionMs === 0 ? moment : moment - (moment % generatedAtResolutionMs);
}

/**
 * Builds one page from the ticks of the matched window, sorted by time.
 * @param before the last tick before that window, or none
 * @param capMin lower bound of the page cap
 */
export function composePage<T extends BehaviorRow>(
  before: readonly T[],
  matched: readonly T[],
  request: ComposeRequest,
  behavior: TickBehavior,
  capMin = 1,
): ComposedPage<T> {
  const { carryInShare } = behavior;
  const isCarried = carryInShare === 1 || (carryInShare > 0 && request.draw() < carryInShare);
  const rows = isCarried ? [...before, ...matched] : matched;
  const all = addRepeatsAndInvalid(addBursts(rows, behavior), request, behavior);
  const kept = selectKept(all, request, behavior, capMin);
  const isTruncated = kept.length < all.length;
  const ends = computeStatedEnds(kept, isTruncated, request, behavior);
  return { elements: orderElements(kept, request, behavior), isTruncated, ...ends };
}

/** The last tick of a burst is the original one, at the highest price. */
function addBursts<T extends BehaviorRow>(rows: readonly T[], { burstTicks }: TickBehavior): readonly T[] {
  if (burstTicks === null) return rows;
  return rows.flatMap((row) =>
    Math.imul(row.t % 100_003, 7919) % 100 === 0
      ? Array.from({ length: burstTicks }, (_, i) => ({ ...row, p: row.p - (burstTicks - 1 - i) / 1e6 }))
      : [row],
  );
}

function addRepeatsAndInvalid<T extends BehaviorRow>(
  rows: readonly T[],
  { draw }: ComposeRequest,
  { repeatShare, invalidShare }: TickBehavior,
): readonly (T | null)[] {
  if (repeatShare === 0 && invalidShare === 0) return rows;
  const timesOf = (share: number): number => (share === 0 ? 0 : Math.floor(share) + (draw() < share % 1 ? 1 : 0));
  const out: (T | null)[] = [];
  for (const row of rows) {
    out.push(row);
    for (let i = timesOf(repeatShare); i > 0; i--) out.push(row);
    for (let i = timesOf(invalidShare); i > 0; i--) out.push(null);
  }
  return out;
}

/** The elements that fit on the page. */
function selectKept<T extends BehaviorRow>(
  all: readonly (T | null)[],
  request: ComposeRequest,
  behavior: TickBehavior,
  capMin: number,
): readonly (T | null)[] {
  const { uncappedAgeMs, sample } = behavior;
  if (uncappedAgeMs !== null) {
    const first = all.findIndex((row) => row !== null && row.t >= request.nowMs - uncappedAgeMs);
    const history = first < 0 ? all : all.slice(0, first);
    return [...selectContiguous(history, request, behavior, capMin), ...all.slice(history.length)];
  }
  if (sample !== null && all.length > sample) {
    const step = all.length / sample;
    return Array.from({ length: sample }, (_, i) => all[Math.floor(i * step)]!);
  }
  return selectContiguous(all, request, behavior, capMin);
}

/** The contiguous elements on the side that is kept. */
function selectContiguous<T extends BehaviorRow>(
  all: readonly (T | null)[],
  request: ComposeRequest,
  behavior: TickBehavior,
  capMin: number,
): readonly (T | null)[] {
  const cap = drawCap(request, behavior, capMin);
  const isEarliest = getKeptSide(request.n, behavior) === 'earliest';
  let [used, count] = [0, 0];
  for (; count < all.length && count < request.limit; count++) {
    used +=
      behavior.capUnit === 'rows' ? 1 : countBytes(all[isEarliest ? count : all.length - 1 - count]!) / capUnitBytes;
    // At least one element, because a service that sends none is useless.
    if (used > cap && count > 0) break;
  }
  return isEarliest ? all.slice(0, count) : all.slice(all.length - count);
}

const capUnitBytes = 32;
const countBytes = (row: BehaviorRow | null): number => (row === null ? 24 : `{"t":${row.t},"p":${row.p}}`.length);

/** The shortest tick with a millisecond time since 2001, as JSON. */
const tickBytesMin = '{"t":1000000000000,"p":0}'.length;

/** Ticks at one end of a window that determine a page of at most `limit` elements: one more than the page can hold. */
export const computePageRowsMax = ({ cap, capUnit }: TickBehavior, limit: number): number =>
  Math.min(limit, capUnit === 'rows' ? cap : Math.ceil((cap * capUnitBytes) / tickBytesMin)) + 1;

function drawCap(
  { n, rank, draw }: ComposeRequest,
  { cap, capBySymbol, capDropsAfter, capVariation }: TickBehavior,
  capMin: number,
): number {
  const bySymbol = capBySymbol ? 1 / (1 + rank) : 1;
  const later = capDropsAfter !== null && n > capDropsAfter ? 0.6 : 1;
  const capMax = Math.max(capMin, cap * bySymbol * later);
  return Math.max(capMin, Math.round(capMax * (1 - draw() * capVariation)));
}

function orderElements<T>(elements: readonly T[], { draw }: ComposeRequest, { order }: TickBehavior): readonly T[] {
  if (order === 'ascending') return elements;
  if (order === 'newest-first') return elements.toReversed();
  const out = [...elements];
  for (let i = out.length - 1; i > 0; i--) {
    const j = Math.floor(draw() * (i + 1));
    [out[i], out[j]] = [out[j]!, out[i]!];
  }
  return out;
}

function computeStatedEnds(
  kept: readonly (BehaviorRow | null)[],
  isTruncated: boolean,
  request: ComposeRequest,
  behavior: TickBehavior,
): { readonly from: number | null; readonly to: number | null } {
  const { from, to } = request.window;
  const [first, last] = [kept.find((row) => row !== null)?.t ?? from, kept.findLast((row) => row !== null)?.t ?? to];
  switch (behavior.echoWindow) {
    case 'none':
      return { from: null, to: null };
    case 'echo':
      return { from, to };
    case 'span':
      return { from: first, to: last };
    case 'cut':
      return isTruncated ? { from: first, to: last } : { from, to };
    case 'cut-from':
      return { from: isTruncated ? first : from, to };
    case 'cut-to':
      return { from, to: isTruncated ? last : to };
    default: {
      const clampedWindow = computeClampedWindow(request);
      if (!isTruncated || behavior.echoWindow === 'clamped') return clampedWindow;
      if (getKeptSide(request.n, behavior) === 'earliest')
        return { from: clampedWindow.from, to: last + (behavior.toInclusive ? 0 : 1) };
      return { from: first - (behavior.fromInclusive ? 0 : 1), to: clampedWindow.to };
    }
  }
}

/** The requested window, limited to the time between the retention limit and now; empty if nothing is left. */
export function computeClampedWindow({
  window,
  nowMs,
  oldestMs,
}: Pick<ComposeRequest, 'window' | 'nowMs' | 'oldestMs'>): Window {
  const to = Math.min(window.to, nowMs);
  return { from: Math.min(Math.max(window.from, oldestMs), to), to };
}
