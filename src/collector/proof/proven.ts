import { dayMs, hourMs, isEmpty, union, type Window } from '../../base/window.ts';
import type { Shown, Witnessed } from './shown.ts';

// Rules 2 to 4 of "when a window may be called completely collected": docs/PROOF.md. All functions are pure, and each
// condition only bounds how far from a shown tick the time is proven, so that the least bound decides.

/** An end of what a response showed: nothing was shown beyond its outermost tick, up to the end of `window`. */
export interface Edge {
  readonly symbol: string;
  /** `after`: from the last tick on; `before`: up to the first one. */
  readonly side: 'before' | 'after';
  /** The time without ticks, as far as the response may cover it. */
  readonly window: Window;
  readonly shown: Shown;
  /** Whether no row cap cut the response here: it has fewer ticks than any cap, or a second request brought nothing more. */
  readonly isUncapped: boolean;
  /** When the response was generated, epoch ms. */
  readonly observedAt: number;
}

/** How far each condition allows an edge to be proven, epoch ms; the window's end if it does not limit it. */
type Bounds = Readonly<Record<'rows' | 'reach' | 'bridge' | 'span' | 'files' | 'kept' | 'asked', number>>;

/**
 * Computes the bounds of an edge.
 * @param knownCount known ticks of the symbol
 * @param hasGrown whether one response showed the first known tick and one that came after earlier responses: a store of each
 * symbol's last rows had room then, and had dropped none
 */
export function boundEdge(
  { side, window, shown, isUncapped }: Edge,
  night: Witnessed,
  knownCount: number,
  hasGrown: boolean,
): Bounds {
  const { whole } = shown;
  const hasMoreFiles = night.hours > whole.hours && night.days > whole.days;
  if (side === 'after') {
    const k = shown.last!;
    return {
      rows: isUncapped ? window.to : window.from,
      reach: night.latest,
      bridge: Math.min(
        k + night.bridge.ms,
        (Math.floor(k / hourMs) + night.bridge.hours + 1) * hourMs,
        (Math.floor(k / dayMs) + night.bridge.days + 1) * dayMs,
      ),
      span: whole.first! + night.spanMs,
      files: hasMoreFiles ? window.to : window.from,
      kept: window.to,
      // Servers round the end of a request down, to a day at most, and its last millisecond, too.
      asked: Math.floor((shown.to - 1) / dayMs) * dayMs,
    };
  }
  const x = shown.first!;
  return {
    rows: isUncapped ? window.from : window.to,
    reach: night.earliest,
    bridge: Math.max(
      x - night.bridge.ms,
      (Math.floor(x / hourMs) - night.bridge.hours) * hourMs,
      (Math.floor(x / dayMs) - night.bridge.days) * dayMs,
    ),
    span: whole.last! - night.spanMs,
    files: hasMoreFiles ? window.from : window.to,
    // A store of each symbol's last rows makes any symbol look young.
    kept: hasGrown || night.mostTicks >= 2 * knownCount ? window.from : window.to,
    asked: window.from,
  };
}

/** The proven part of an edge's window, from the shown tick on: at least its millisecond, which only rows cut. Empty if there is none. */
export function proveEdge({ side, window: { from, to }, shown, isUncapped }: Edge, bounds: Bounds): Window {
  const all = Object.values(bounds);
  if (side === 'after')
    return { from, to: Math.min(to, Math.max(isUncapped ? shown.last! + 1 : from, Math.min(...all))) };
  return { from: Math.max(from, Math.min(isUncapped ? shown.first! : to, Math.max(...all))), to };
}

/**
 * What an empty response supports (rule 4), of which three nights prove it: the time that other responses showed to be in reach of
 * the server, and up to which it passes emptiness from either end of the request; an hour less, because a replica may be behind.
 * Null: nothing.
 * @param sent the window as it was sent
 */
export function findSupport({ from, to }: Window, sent: Window, observedAt: number, night: Witnessed): Window | null {
  const { before, after } = night;
  const window = {
    from: Math.max(
      from,
      night.earliest,
      (Math.floor(sent.to / hourMs) - after.hours) * hourMs,
      (Math.floor(sent.to / dayMs) - after.days) * dayMs,
    ),
    to: Math.min(
      to,
      observedAt - hourMs,
      Math.floor(to / dayMs) * dayMs,
      night.latest,
      (Math.ceil(sent.from / hourMs) + before.hours) * hourMs,
      (Math.ceil(sent.from / dayMs) + before.days) * dayMs,
    ),
  };
  return isEmpty(window) ? null : window;
}

/**
 * Whether what lacks proof is requested again tonight (rule 9): in three nights after the day in which it ended, and then after 2, 4,
 * 8 more.
 * @param sinceMs when it ended, or when its symbol was first seen if that is later, epoch ms
 */
export function isLookDue(sinceMs: number, nowMs: number): boolean {
  const nights = Math.floor(nowMs / dayMs) - Math.floor(sinceMs / dayMs) - 1;
  return nights <= nightsMin || Number.isInteger(Math.log2(nights - 1));
}

/** A night is a UTC day with a run. It counts if its first response is at least this long after that of the night before, in ms. */
const nightMsMin = 12 * hourMs;
/** So many of the last nights must support a window. */
const nightsMax = 8;
const nightsMin = 3;

/**
 * Finds what three nights of the last eight support: each shows nothing there, and what it shows was in reach.
 * @param supports windows by `findSupport` with the generation times of their responses, of one symbol
 */
export function findRepeated(supports: readonly (Window & { readonly observedAt: number })[]): Window[] {
  const newest = supports.reduce((max, { observedAt }) => Math.max(max, observedAt), 0);
  const byDay = Map.groupBy(
    supports.filter(({ observedAt }) => observedAt > newest - nightsMax * dayMs),
    ({ observedAt }) => Math.floor(observedAt / dayMs),
  );
  const nights: Window[][] = [];
  let last = Number.NEGATIVE_INFINITY;
  for (const day of [...byDay.keys()].sort((a, b) => a - b)) {
    const night = byDay.get(day)!;
    const at = night.reduce((min, { observedAt }) => Math.min(min, observedAt), Number.POSITIVE_INFINITY);
    if (at - last < nightMsMin) continue;
    last = at;
    nights.push(union(night));
  }
  const limits = [...new Set(nights.flat().flatMap(({ from, to }) => [from, to]))].sort((a, b) => a - b);
  const pieces = limits.slice(1).map((to, i) => ({ from: limits[i]!, to }));
  return union(
    pieces.filter(
      (piece) =>
        nights.filter((night) => night.some((w) => w.from <= piece.from && piece.to <= w.to)).length >= nightsMin,
    ),
  );
}
