import type { WindowSide } from './server-behavior.ts';

/** How a second page relates to the first one from a tick of the first on, outward at one side. */
export type PageRelation = 'same' | 'further' | 'shorter' | 'contradicts';

/** How far from the end of a truncated page the next request begins, as a share of its ticks: the overlap shows whether both agree. */
const overlapShare = 0.02;

/** The last tick of a page at a side; `times` are distinct and ascending, with one at least. */
export const findOutermostTick = (times: Float64Array, side: WindowSide): number =>
  side === 'high' ? times.at(-1)! : times[0]!;

/** The median tick; of an even number of ticks the one that is further in. */
export function findMedianTick(times: Float64Array, side: WindowSide): number {
  const half = (times.length - 1) >> 1;
  return side === 'high' ? times[half]! : times[times.length - 1 - half]!;
}

/** A tick near the end of a page. */
export function findTickNearEnd(times: Float64Array, side: WindowSide): number {
  const inward = Math.floor(times.length * overlapShare);
  return side === 'high' ? times[times.length - 1 - inward]! : times[inward]!;
}

/**
 * Compares two pages from `begin`, a tick of the first, outward. `contradicts`: the second lacks that tick, or they
 * differ where they overlap; `further`: the second goes beyond the last tick of the first; `shorter`: it ends before.
 * Times are distinct and ascending, epoch ms.
 */
export function comparePagesAtSide(
  first: Float64Array,
  second: Float64Array,
  begin: number,
  side: WindowSide,
): PageRelation {
  const a = sliceOutward(first, begin, side);
  const b = sliceOutward(second, begin, side);
  const shared = Math.min(a.length, b.length);
  if (shared === 0) return 'contradicts';
  for (let i = 0; i < shared; i++) if (a[i] !== b[i]) return 'contradicts';
  if (a.length === b.length) return 'same';
  return b.length > a.length ? 'further' : 'shorter';
}

/**
 * Whether a second page that was asked for from `begin` on outward brought just the outer ticks of the first, and was cut
 * off at its inner end: so it was not at its outer one.
 */
export function isTruncatedInside(first: Float64Array, second: Float64Array, begin: number, side: WindowSide): boolean {
  const inner = side === 'high' ? second[0]! : second.at(-1)!;
  const isInner = side === 'high' ? inner > begin : inner < begin;
  if (second.length < 2 || !isInner) return false;
  const [a, b] = [sliceOutward(first, inner, side), sliceOutward(second, inner, side)];
  return a.length === b.length && a.every((t, i) => t === b[i]);
}

const sliceOutward = (times: Float64Array, begin: number, side: WindowSide): Float64Array =>
  side === 'high' ? times.filter((t) => t >= begin) : times.filter((t) => t <= begin).reverse();
