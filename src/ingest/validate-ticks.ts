import type { RejectedInput, TickColumns } from '../core/tick.ts';
import { timeEnd, timeMin } from '../core/time.ts';
import { isWithin, type Window } from '../core/window.ts';

export interface TickSpan {
  readonly first: number;
  readonly last: number;
}

export interface ValidatedTicks {
  /** Usable ticks inside the asked window, in the order they came. */
  readonly ticks: TickColumns;
  /** Unusable ones, as received. */
  readonly rejected: readonly RejectedInput[];
  /** Usable ticks outside of the asked window: nobody asked for them, they come with their own window. */
  readonly outsideCount: number;
  /** First and last usable tick, asked for or not; null where there is none. */
  readonly span: TickSpan | null;
}

/**
 * Sorts the ticks of an answer into usable, unusable and not asked for. Nothing is repaired by guessing: seconds in
 * place of milliseconds are a time outside the years 2000 to 2100. `futureMs` is the latest time believed, epoch ms.
 * Where every tick is usable and asked for, `ticks` holds the page's own columns.
 */
export function validateTicks(
  page: TickColumns & { readonly rejected: readonly RejectedInput[] },
  asked: Window,
  futureMs: number,
): ValidatedTicks {
  const { t, p } = page;
  const clean = measureCleanPrefix(page, asked, futureMs);
  let { first, last } = clean;
  const brought = (): TickSpan | null => (first > last ? null : { first, last });
  if (clean.length === t.length) return { ticks: { t, p }, rejected: page.rejected, outsideCount: 0, span: brought() };
  const rejected = [...page.rejected];
  const keptT = new Float64Array(t.length);
  const keptP = new Float64Array(t.length);
  let kept = clean.length;
  keptT.set(t.subarray(0, kept));
  keptP.set(p.subarray(0, kept));
  let outside = 0;
  for (let i = kept; i < t.length; i++) {
    const time = t[i]!;
    const reason = findTickFlaw(time, p[i]!, futureMs);
    if (reason !== undefined) {
      rejected.push({ reason, raw: JSON.stringify({ t: time, p: p[i] }) });
      continue;
    }
    if (time < first) first = time;
    if (time > last) last = time;
    if (isWithin(time, asked)) {
      keptT[kept] = time;
      keptP[kept++] = p[i]!;
    } else outside++;
  }
  const ticks = { t: keptT.subarray(0, kept), p: keptP.subarray(0, kept) };
  return { ticks, rejected, outsideCount: outside, span: brought() };
}

/** How many ticks come before the first that is unusable or not asked for, which is rare; and the least and greatest time of them. */
function measureCleanPrefix(
  { t, p }: TickColumns,
  asked: Window,
  futureMs: number,
): TickSpan & { readonly length: number } {
  const from = Math.max(asked.from, timeMin);
  const to = Math.min(asked.to, timeEnd);
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  let length = 0;
  for (; length < t.length; length++) {
    const time = t[length]!;
    const isUsable = Number.isInteger(time) && time <= futureMs && Number.isFinite(p[length]!);
    if (!(isUsable && from <= time && time < to)) break;
    if (time < first) first = time;
    if (time > last) last = time;
  }
  return { length, first, last };
}

function findTickFlaw(t: number, p: number, futureMs: number): string | undefined {
  return findTimeFlaw(t, futureMs) ?? (Number.isFinite(p) ? undefined : 'p is not finite');
}

/** Why a moment cannot be the time of a tick or an order book; `futureMs` is the latest that is believed, epoch ms. */
export function findTimeFlaw(t: number, futureMs: number): string | undefined {
  if (!Number.isInteger(t)) return 't is not a whole number of milliseconds';
  if (t < timeMin || t >= timeEnd) return 't is outside the years 2000 to 2100';
  if (t > futureMs) return 't is in the future';
  return undefined;
}
