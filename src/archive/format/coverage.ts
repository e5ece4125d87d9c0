import { compareUtf8 } from '../../base/symbol-name.ts';
import {
  covers,
  findFirstEndingAfter,
  floorToDay,
  intersect,
  intersectTwo,
  isEmpty,
  subtract,
  union,
  type Window,
} from '../../base/window.ts';
import type { evidenceKinds, Origin } from '../../contract/raw-page.ts';
import { countTicksInWindow } from './tick-columns.ts';

/** Why a window counts as covered. */
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

/**
 * Proven windows come before inferred ones, then later responses before earlier ones. The last line only makes the
 * order total.
 */
function takesPrecedence(a: CoveredWindow, b: CoveredWindow): boolean {
  if (isProven(a) !== isProven(b)) return isProven(a);
  if (a.fetchedAt !== b.fetchedAt) return a.fetchedAt > b.fetchedAt;
  return a.origin !== b.origin ? a.origin > b.origin : a.evidence > b.evidence;
}

/**
 * Overlays windows so that each moment has one window. Coverage is published in this form. A proven window has
 * precedence over an inferred one; otherwise the later response has precedence. The result is sorted and disjoint, and
 * adjacent windows of one response are joined. The input may be in any order. An upstream that states many gaps can
 * produce many windows, so this avoids a quadratic scan.
 */
export function overlayCoverage(windows: readonly CoveredWindow[]): CoveredWindow[] {
  const latestFirst = joinResponses(windows).sort((a, b) => (takesPrecedence(a, b) ? -1 : 1));
  const out: CoveredWindow[] = [];
  for (const next of latestFirst) {
    // Insert the remainder of this window between those that take precedence.
    let { from } = next;
    for (let at = findFirstEndingAfter(out, from); from < next.to; at++) {
      const to = Math.min(next.to, out[at]?.from ?? next.to);
      if (from < to) out.splice(at++, 0, { ...next, from, to });
      from = out[at]?.to ?? next.to;
    }
  }
  return out;
}

/** Joins the windows of each response; long windows are stored split by day. */
function joinResponses(windows: readonly CoveredWindow[]): CoveredWindow[] {
  const byResponse = Map.groupBy(windows, ({ origin, fetchedAt, evidence }) => `${fetchedAt} ${origin} ${evidence}`);
  return [...byResponse.values()].flatMap((responseWindows) => {
    const { origin, fetchedAt, evidence } = responseWindows[0]!;
    return union(responseWindows).map((w) => ({ ...w, fetchedAt, origin, evidence }));
  });
}

export const withdrawCoverage = (windows: readonly CoveredWindow[], withdrawn: readonly Window[]): CoveredWindow[] =>
  withdrawn.length === 0
    ? [...windows]
    : windows.flatMap((covered) => subtract([covered], withdrawn).map((remainder) => ({ ...covered, ...remainder })));

/** Returns the parts of `piece` outside `removed`. */
export function subtractWindow(piece: CoveredWindow, removed: Window): CoveredWindow[] {
  if (isEmpty(intersectTwo(piece, removed))) return [piece];
  const remainder = { ...piece, to: removed.from };
  const right = { ...piece, from: removed.to };
  return [remainder, right].filter((w) => !isEmpty(w));
}

/**
 * Joins adjacent windows with the same origin and evidence, as they are published. The result has the earliest
 * `fetchedAt`, so that no window appears to have been fetched later than it was. Windows are never joined across
 * midnight, and are cut where a listed withdrawal begins or ends: what was fetched after it keeps its time.
 * @param withdrawn the withdrawals of the symbol that the manifest lists
 * @param unites whether the windows are those of two archives. Those of different times stay apart then, so that a third
 * archive can withdraw one of them
 */
export function joinForPublishing(
  sorted: readonly CoveredWindow[],
  withdrawn: readonly Window[] = [],
  unites = false,
): CoveredWindow[] {
  const cuts = new Set(withdrawn.flatMap(({ from, to }) => [from, to]));
  const isJoined = (a: CoveredWindow, b: CoveredWindow): boolean =>
    hasSameEvidence(a, b) &&
    floorToDay(a.from) === floorToDay(b.from) &&
    !cuts.has(b.from) &&
    !(unites && a.fetchedAt !== b.fetchedAt);
  return joinNeighbors(cuts.size === 0 ? sorted : cutWindows(sorted, [...cuts]), isJoined);
}

const cutWindows = (windows: readonly CoveredWindow[], cuts: readonly number[]): CoveredWindow[] =>
  windows.flatMap((window) => {
    const inside = cuts.filter((at) => window.from < at && at < window.to).sort((a, b) => a - b);
    return [window.from, ...inside].map((from, i) => ({ ...window, from, to: inside[i] ?? window.to }));
  });

/**
 * Joins adjacent proven windows with the same origin and evidence that end by `beforeMs`, so that the stored coverage of a
 * symbol does not grow every night. The result has the earliest `fetchedAt`. Inferred windows stay apart: where the upstream
 * was found to omit ticks, their times tell which of them were fetched again since. Takes and returns windows of
 * `overlayCoverage`.
 */
export const joinProvenWindows = (sorted: readonly CoveredWindow[], beforeMs: number): CoveredWindow[] =>
  joinNeighbors(sorted, (a, b) => hasSameEvidence(a, b) && isProven(a) && b.to <= beforeMs);

function joinNeighbors(
  sorted: readonly CoveredWindow[],
  isJoined: (a: CoveredWindow, b: CoveredWindow) => boolean,
): CoveredWindow[] {
  const out: CoveredWindow[] = [];
  for (const next of sorted) {
    const last = out.at(-1);
    if (last !== undefined && last.to === next.from && isJoined(last, next)) {
      out[out.length - 1] = { ...last, to: next.to, fetchedAt: Math.min(last.fetchedAt, next.fetchedAt) };
    } else out.push(next);
  }
  return out;
}

/** A window whose coverage was withdrawn because its ticks were damaged. It is within one UTC day. */
export interface LostWindow extends Window {
  readonly dataset: string;
  readonly symbol: string;
  /** Published ticks in the window before the loss. */
  readonly ticks: number;
}

/** The order in which lost windows are listed: dataset, symbol, time. */
export const compareLostWindows = (a: LostWindow, b: LostWindow): number =>
  compareUtf8(a.dataset, b.dataset) || compareUtf8(a.symbol, b.symbol) || a.from - b.from;

interface LossAssessment {
  /** Coverage of the responses without the windows that remain lost, in the order of the responses. */
  readonly covered: readonly CoveredWindow[];
  readonly restored: readonly LostWindow[];
  /** Windows that were fetched completely, but with fewer ticks than were published before. */
  readonly stillLost: readonly LostWindow[];
}

/**
 * Decides which lost windows new responses restore. A window is restored if the responses cover it completely and it
 * holds at least as many ticks as before the loss. No coverage is recorded for other lost windows: if the upstream has
 * downsampled its history, the day would look quiet. The result does not depend on how the responses are split or
 * ordered.
 * @param count the number of ticks in a window after these responses are merged
 */
export function assessLostWindows(
  responses: readonly CoveredWindow[],
  lost: readonly LostWindow[],
  count: (window: Window) => number,
): LossAssessment {
  const restored: LostWindow[] = [];
  const stillLost: LostWindow[] = [];
  let covered = [...responses];
  for (const window of lost) {
    const isCovered = covers(responses, window);
    if (isCovered && count(window) >= window.ticks) {
      restored.push(window);
      continue;
    }
    if (isCovered) stillLost.push(window);
    covered = covered.flatMap((response) => subtractWindow(response, window));
  }
  return { covered, restored, stillLost };
}

/**
 * Splits the windows of one symbol where lost windows begin and end. `loss` is the lost window that contains a piece.
 */
export function splitAtLostWindows<L extends Window>(
  windows: readonly Window[],
  lost: readonly L[],
): (Window & { readonly loss: L | null })[] {
  const rest = subtract(windows, lost).map((w) => ({ ...w, loss: null }));
  const responseWindows = lost.flatMap((loss) => intersect(windows, [loss]).map((w) => ({ ...w, loss })));
  return [...rest, ...responseWindows].sort((a, b) => a.from - b.from);
}

/** A window of one symbol's ticks that a user accepted as a gap. Times are epoch milliseconds. */
export interface AcceptedWindow extends Window {
  readonly symbol: string;
  /** The reason that the user gave. */
  readonly reason: string;
  readonly acceptedAt: number;
  /** When a run first ended with exit code 4 because of it; null before. */
  readonly reportedAt: number | null;
}

export interface PublishedCoverage extends CoveredWindow {
  /** Ticks in the window; for order books, the snapshots in the responses generated in it. */
  readonly ticks: number;
}

/** Adds the number of ticks to each window. `t` must be sorted. */
export const countCoverageTicks = (windows: readonly CoveredWindow[], t: Float64Array): PublishedCoverage[] =>
  windows.map((window) => ({ ...window, ticks: countTicksInWindow(t, window) }));

/** Coverage without the lost windows, with the ticks of the remaining windows recounted. */
export function subtractFromCoverage(
  covered: readonly PublishedCoverage[],
  lost: readonly Window[],
  t: Float64Array,
): PublishedCoverage[] {
  return covered.flatMap((coveredWindow) => {
    const pieces = subtract([coveredWindow], lost);
    if (pieces[0]?.from === coveredWindow.from && pieces[0].to === coveredWindow.to) return [coveredWindow];
    return pieces.map((piece) => ({ ...coveredWindow, ...piece, ticks: countTicksInWindow(t, piece) }));
  });
}
