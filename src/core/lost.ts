import { type Covered, without } from './coverage.ts';
import { covers, intersection, isEmpty, type Window } from './window.ts';

/** A window whose coverage was taken back because its ticks were damaged; it lies within one UTC day. */
export interface LostWindow extends Window {
  readonly dataset: string;
  readonly symbol: string;
  /** How many ticks were published in it while it was whole. */
  readonly ticks: number;
}

/** A lost window, and how many of its ticks are there by now. */
export interface StillLost {
  readonly window: LostWindow;
  readonly held: number;
}

export interface Judged {
  /** What may be claimed of the answers: they keep their order, cut around what stays lost. */
  readonly claimed: readonly Covered[];
  readonly restored: readonly LostWindow[];
  /** Those that were answered wholly, and with fewer ticks than were once had. */
  readonly lacking: readonly StillLost[];
}

/**
 * Judges answers that came for a symbol with lost windows. A window is had again where they cover it wholly and at
 * least as many ticks are in it as once were; of any other, nothing is claimed: an upstream that has thinned its past
 * would make a quiet day of it. Nothing here depends on how the answers are cut, or in which order they came.
 * @param count how many ticks are in a window once these answers are merged
 */
export function judgeAnswers(
  answers: readonly Covered[],
  lost: readonly LostWindow[],
  count: (window: Window) => number,
): Judged {
  const restored: LostWindow[] = [];
  const lacking: StillLost[] = [];
  let claimed = [...answers];
  for (const window of lost) {
    if (!answers.some((answer) => !isEmpty(intersection(answer, window)))) continue;
    const held = count(window);
    const whole = covers(answers, window);
    if (whole && held >= window.ticks) {
      restored.push(window);
      continue;
    }
    if (whole) lacking.push({ window, held });
    claimed = claimed.flatMap((answer) => without(answer, window));
  }
  return { claimed, restored, lacking };
}
