import { intersect, subtract, type Window } from './window.ts';

/**
 * Why a window of a symbol's lifetime is not covered:
 * - `damaged`: its ticks are in a file that is not as published, until a repair says what is left of them
 * - `lost`: its ticks were published once, and were lost
 * - `accepted`: somebody said that it stays a gap
 * - `expired`: the service goes back no further by now
 * - `suspended`: the service says that it does not know the symbol
 * - `failed`: it was asked for, in vain
 * - `never asked`: no request was for it, as far as is known
 */
export const gapReasons = ['damaged', 'lost', 'accepted', 'expired', 'suspended', 'failed', 'never asked'] as const;
export type GapReason = (typeof gapReasons)[number];

/** A window that has a reason to be a gap. */
export interface GapWindow extends Window {
  readonly reason: GapReason;
  /** In words: what the service answered, or why it was accepted. */
  readonly detail?: string;
  /** Since when that is known, epoch ms. */
  readonly since?: number;
  /** How many ticks a lost window had. */
  readonly ticks?: number;
}

/**
 * Cuts the gaps of one symbol, in order and disjoint, where their reasons change. Where several marks hold a window, the
 * one that says the most counts, in the order of `gapReasons`: what is lost, accepted or expired is nothing that the next
 * run brings.
 */
export function splitByReason(gaps: readonly Window[], marks: readonly GapWindow[]): GapWindow[] {
  const out: GapWindow[] = [];
  let rest = [...gaps];
  for (const mark of marks.toSorted((a, b) => gapReasons.indexOf(a.reason) - gapReasons.indexOf(b.reason))) {
    if (rest.length === 0) break;
    const taken = intersect(rest, [mark]);
    if (taken.length === 0) continue;
    for (const { from, to } of taken) out.push({ ...mark, from, to });
    rest = subtract(rest, [mark]);
  }
  for (const { from, to } of rest) out.push({ from, to, reason: 'never asked' });
  return out.sort((a, b) => a.from - b.from);
}

/** Whether a gap for that reason is told as a failure by one run only, and holds up neither watermark nor lag. */
export const isExceptedReason = (reason: GapReason): boolean =>
  reason === 'lost' || reason === 'accepted' || reason === 'expired';
