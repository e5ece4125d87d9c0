import { compareUtf8 } from './compare-utf8.ts';
import { type CoveredWindow, subtractWindow } from './coverage.ts';
import { covers, intersect, subtract, type Window } from './window.ts';

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
