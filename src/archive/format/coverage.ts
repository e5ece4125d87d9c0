import { compareUtf8 } from '../../base/symbol-name.ts';
import {
  covers,
  floorToDay,
  intersect,
  intersectTwo,
  isEmpty,
  subtract,
  union,
  type Window,
} from '../../base/window.ts';
import type { Origin } from '../../contract/raw-page.ts';

/**
 * Why a window counts as covered: the response stated the ends at which it was cut, a second request agreed with the
 * first, the user declared it, or nothing speaks against it.
 */
export const evidenceKinds = ['stated', 'confirmed', 'declared', 'inferred'] as const;
export type Evidence = (typeof evidenceKinds)[number];

/** A covered window of one symbol. `fetchedAt`: when its response was generated, epoch ms. */
export interface CoveredWindow extends Window {
  readonly fetchedAt: number;
  readonly origin: Origin;
  readonly evidence: Evidence;
}

/** Whether a window counts towards a complete day. An inferred one is provisional. */
export const isProven = ({ evidence }: { readonly evidence: Evidence }): boolean => evidence !== 'inferred';

const hasSameEvidence = (a: CoveredWindow, b: CoveredWindow): boolean =>
  a.origin === b.origin && a.evidence === b.evidence;

/** Proven windows come before inferred ones, then the later response; the rest only makes the order total. */
function takesPrecedence(a: CoveredWindow, b: CoveredWindow): boolean {
  if (isProven(a) !== isProven(b)) return isProven(a);
  if (a.fetchedAt !== b.fetchedAt) return a.fetchedAt > b.fetchedAt;
  return a.origin !== b.origin ? a.origin > b.origin : a.evidence > b.evidence;
}

/**
 * Lays windows over each other, one window for each moment, as coverage is published: a proven window before an inferred
 * one, and of two that are alike the later response. The result is sorted and disjoint; neighbours of one response are
 * joined. The input may be in any order; an upstream that names many gaps may produce many windows.
 */
export function overlayCoverage(windows: readonly CoveredWindow[]): CoveredWindow[] {
  const latestFirst = joinResponses(windows).sort((a, b) => (takesPrecedence(a, b) ? -1 : 1));
  const out: CoveredWindow[] = [];
  for (const next of latestFirst) {
    // What later answers leave of it goes between them.
    let { from } = next;
    for (let at = findFirstEndingAfter(out, from); from < next.to; at++) {
      const to = Math.min(next.to, out[at]?.from ?? next.to);
      if (from < to) out.splice(at++, 0, { ...next, from, to });
      from = out[at]?.to ?? next.to;
    }
  }
  return out;
}

/** Of sorted, disjoint stretches the index of the first that ends after a moment; by bisection. */
function findFirstEndingAfter(sorted: readonly Window[], t: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]!.to <= t) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The same in two layers, as the state keeps it: the proven windows, and the inferred ones. One window for each moment
 * would lose knowledge: a proven window that was answered before its day had settled must not hide the later inferred
 * answer, which settles it provisionally. An inferred moment is dropped only if a proven window answered it as late.
 * Sorted by start; windows overlap only across the two layers.
 */
export function overlayLayers(windows: readonly CoveredWindow[]): CoveredWindow[] {
  const proven = overlayCoverage(windows.filter(isProven));
  const inferred = overlayCoverage(windows.filter((w) => !isProven(w)));
  if (inferred.length === 0 || proven.length === 0) return proven.length === 0 ? inferred : proven;
  const left: CoveredWindow[] = [];
  for (const w of inferred) {
    let { from } = w;
    for (let at = findFirstEndingAfter(proven, from); at < proven.length && proven[at]!.from < w.to; at++) {
      const over = proven[at]!;
      if (over.fetchedAt < w.fetchedAt) continue;
      if (from < over.from) left.push({ ...w, from, to: over.from });
      from = Math.max(from, over.to);
    }
    if (from < w.to) left.push({ ...w, from });
  }
  return [...proven, ...left].sort(compareLayered);
}

const compareLayered = (a: CoveredWindow, b: CoveredWindow): number =>
  a.from - b.from || Number(isProven(b)) - Number(isProven(a));

/** Lays new windows over layers that `overlayLayers` made; looks only at what they touch. */
export function overlayLayersOnto(sorted: readonly CoveredWindow[], added: readonly CoveredWindow[]): CoveredWindow[] {
  const fresh = added.filter((w) => !isEmpty(w));
  if (fresh.length === 0) return [...sorted];
  const from = fresh.reduce((min, w) => Math.min(min, w.from), Number.POSITIVE_INFINITY);
  const to = fresh.reduce((max, w) => Math.max(max, w.to), Number.NEGATIVE_INFINITY);
  const isFar = (w: CoveredWindow): boolean => w.to < from || w.from > to;
  const near = sorted.filter((w) => !isFar(w));
  return [...sorted.filter(isFar), ...overlayLayers([...near, ...fresh])].sort(compareLayered);
}

/** Joins the windows of each response: a long window comes cut by days. */
function joinResponses(windows: readonly CoveredWindow[]): CoveredWindow[] {
  const byResponse = Map.groupBy(windows, ({ origin, fetchedAt, evidence }) => `${fetchedAt} ${origin} ${evidence}`);
  return [...byResponse.values()].flatMap((pieces) => {
    const { origin, fetchedAt, evidence } = pieces[0]!;
    return union(pieces).map((w) => ({ ...w, fetchedAt, origin, evidence }));
  });
}

/** Takes windows out of coverage. */
export const withdrawCoverage = (windows: readonly CoveredWindow[], withdrawn: readonly Window[]): CoveredWindow[] =>
  withdrawn.length === 0
    ? [...windows]
    : windows.flatMap((covered) => subtract([covered], withdrawn).map((left) => ({ ...covered, ...left })));

/** What of a stretch lies outside of `taken`. */
export function subtractWindow(piece: CoveredWindow, taken: Window): CoveredWindow[] {
  if (isEmpty(intersectTwo(piece, taken))) return [piece];
  const left = { ...piece, to: taken.from };
  const right = { ...piece, from: taken.to };
  return [left, right].filter((w) => !isEmpty(w));
}

/**
 * As published: adjoining windows of one origin and evidence become one, with the earliest `fetchedAt`, so that nothing
 * claims to have been answered later than it was. Never joins over midnight.
 */
export const joinForPublishing = (sorted: readonly CoveredWindow[]): CoveredWindow[] =>
  joinNeighbors(sorted, (a, b) => hasSameEvidence(a, b) && floorToDay(a.from) === floorToDay(b.from), Math.min);

/**
 * Joins neighbours of one origin and evidence that are final and end before `fetchedBeforeMs`, so that what is kept of a symbol
 * does not grow with every night. `fetchedAt` is the latest: the whole was answered `settleMs` after its end, as each
 * piece was. Inferred windows among them are dropped if a final proven window holds them: they settle nothing more.
 * Takes and returns the layers of `overlayLayers`.
 */
export function joinFinalWindows(
  sorted: readonly CoveredWindow[],
  settleMs: number,
  beforeMs: number,
): CoveredWindow[] {
  const isFinal = (s: CoveredWindow): boolean => s.to <= beforeMs && s.fetchedAt >= s.to + settleMs;
  const joined = (layer: readonly CoveredWindow[]): CoveredWindow[] =>
    joinNeighbors(layer, (a, b) => hasSameEvidence(a, b) && isFinal(a) && isFinal(b), Math.max);
  const proven = joined(sorted.filter(isProven));
  const inferred = sorted.filter((w) => !isProven(w));
  if (inferred.length === 0 || proven.length === 0) return proven.length === 0 ? joined(inferred) : proven;
  const final = proven.filter(isFinal);
  const left = joined(inferred.filter((w) => !isFinal(w) || !covers(final, w)));
  return [...proven, ...left].sort(compareLayered);
}

function joinNeighbors(
  sorted: readonly CoveredWindow[],
  isJoined: (a: CoveredWindow, b: CoveredWindow) => boolean,
  pickTime: (a: number, b: number) => number,
): CoveredWindow[] {
  const out: CoveredWindow[] = [];
  for (const next of sorted) {
    const last = out.at(-1);
    if (last !== undefined && last.to === next.from && isJoined(last, next)) {
      out[out.length - 1] = { ...last, to: next.to, fetchedAt: pickTime(last.fetchedAt, next.fetchedAt) };
    } else out.push(next);
  }
  return out;
}

/** The final part: what was answered at least `settleMs` after it. Of windows in any order, in one layer or two. */
export function computeSettledWindows(windows: readonly CoveredWindow[], settleMs: number): Window[] {
  return windows.map((s) => ({ from: s.from, to: Math.min(s.to, s.fetchedAt - settleMs) })).filter((w) => !isEmpty(w));
}

/** A window whose coverage was taken back because its ticks were damaged; it lies within one UTC day. */
export interface LostWindow extends Window {
  readonly dataset: string;
  readonly symbol: string;
  /** How many ticks were published in it while it was whole. */
  readonly ticks: number;
}

/** The order in which lost windows are listed: dataset, symbol, time. */
export const compareLostWindows = (a: LostWindow, b: LostWindow): number =>
  compareUtf8(a.dataset, b.dataset) || compareUtf8(a.symbol, b.symbol) || a.from - b.from;

export interface LossAssessment {
  /** What may be claimed of the answers: they keep their order, cut around what stays lost. */
  readonly covered: readonly CoveredWindow[];
  readonly restored: readonly LostWindow[];
  /** Those that were answered wholly, and with fewer ticks than were once had. */
  readonly stillLost: readonly LostWindow[];
}

/**
 * Judges answers that came for a symbol with lost windows. A window is had again where they cover it wholly and at
 * least as many ticks are in it as once were; of any other, nothing is claimed: an upstream that has thinned its past
 * would make a quiet day of it. Nothing here depends on how the answers are cut, or in which order they came.
 * @param count how many ticks are in a window once these answers are merged
 */
export function assessLostWindows(
  answers: readonly CoveredWindow[],
  lost: readonly LostWindow[],
  count: (window: Window) => number,
): LossAssessment {
  const restored: LostWindow[] = [];
  const lacking: LostWindow[] = [];
  let claimed = [...answers];
  for (const window of lost) {
    const whole = covers(answers, window);
    if (whole && count(window) >= window.ticks) {
      restored.push(window);
      continue;
    }
    if (whole) lacking.push(window);
    claimed = claimed.flatMap((answer) => subtractWindow(answer, window));
  }
  return { covered: claimed, restored, stillLost: lacking };
}

/** Windows of one symbol cut where lost ones begin and end; `loss` is the lost window that a piece lies in. */
export function splitAtLostWindows<L extends Window>(
  windows: readonly Window[],
  lost: readonly L[],
): (Window & { readonly loss: L | null })[] {
  const rest = subtract(windows, lost).map((w) => ({ ...w, loss: null }));
  const pieces = lost.flatMap((loss) => intersect(windows, [loss]).map((w) => ({ ...w, loss })));
  return [...rest, ...pieces].sort((a, b) => a.from - b.from);
}

/** A window of one symbol's ticks that somebody accepted as a gap; times are epoch milliseconds. */
export interface AcceptedWindow extends Window {
  readonly symbol: string;
  /** Why, in the words of whoever accepted it. */
  readonly reason: string;
  readonly acceptedAt: number;
  /** When a run ended with 4 because of it; null while none did. */
  readonly reportedAt: number | null;
}
