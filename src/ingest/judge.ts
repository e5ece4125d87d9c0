import type { Rejected, TickColumns } from '../core/tick.ts';
import { timeEnd, timeMin } from '../core/time.ts';
import { type Window, within } from '../core/window.ts';
import type { Span } from './ask.ts';

export interface Judged {
  /** Usable ticks inside the asked window, in the order they came. */
  readonly ticks: TickColumns;
  /** Unusable ones, as received. */
  readonly rejected: readonly Rejected[];
  /** Usable ticks outside of the asked window: nobody asked for them, they come with their own window. */
  readonly outside: number;
  /** First and last usable tick, asked for or not; null where there is none. */
  readonly brought: Span | null;
}

/**
 * Sorts the ticks of an answer into usable, unusable and not asked for. Nothing is repaired by guessing: seconds in
 * place of milliseconds are a time outside the years 2000 to 2100. `futureMs` is the latest time believed, epoch ms.
 */
export function judge(
  page: TickColumns & { readonly rejected: readonly Rejected[] },
  asked: Window,
  futureMs: number,
): Judged {
  const { t, p } = page;
  const rejected = [...page.rejected];
  const keptT = new Float64Array(t.length);
  const keptP = new Float64Array(t.length);
  let kept = 0;
  let outside = 0;
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < t.length; i++) {
    const time = t[i]!;
    const reason = flaw(time, p[i]!, futureMs);
    if (reason !== undefined) {
      rejected.push({ reason, raw: JSON.stringify({ t: time, p: p[i] }) });
      continue;
    }
    if (time < first) first = time;
    if (time > last) last = time;
    if (within(time, asked)) {
      keptT[kept] = time;
      keptP[kept++] = p[i]!;
    } else outside++;
  }
  const brought = first > last ? null : { first, last };
  return { ticks: { t: keptT.subarray(0, kept), p: keptP.subarray(0, kept) }, rejected, outside, brought };
}

function flaw(t: number, p: number, futureMs: number): string | undefined {
  return timeFlaw(t, futureMs) ?? (Number.isFinite(p) ? undefined : 'p is not finite');
}

/** Why a moment cannot be the time of a tick or an order book; `futureMs` is the latest that is believed, epoch ms. */
export function timeFlaw(t: number, futureMs: number): string | undefined {
  if (!Number.isInteger(t)) return 't is not a whole number of milliseconds';
  if (t < timeMin || t >= timeEnd) return 't is outside the years 2000 to 2100';
  if (t > futureMs) return 't is in the future';
  return undefined;
}
