/**
 * Finds the first index in [from, to) at which a condition holds; `to` if there is none. Once the condition holds, it
 * must hold for all later indexes. The indexes may exceed 32 bits, but their difference may not.
 */
export function findFirstIndex(from: number, to: number, holds: (index: number) => boolean): number {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = low + ((high - low) >>> 1);
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Finds the first index in [from, to) of ascending values whose value is at or after `value`; `to` if there is none. */
export function findFirstAtOrAfter(sorted: Float64Array, value: number, from = 0, to = sorted.length): number {
  // Does not use `findFirstIndex`, because merges call this for each symbol and a callback costs time.
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (sorted[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Does the same as `findFirstAtOrAfter` by galloping search: the cost grows with the distance from `from`. */
export function seek(sorted: Float64Array, from: number, to: number, value: number): number {
  let step = 1;
  let low = from;
  while (low + step <= to && sorted[low + step - 1]! < value) {
    low += step;
    step *= 2;
  }
  return findFirstAtOrAfter(sorted, value, low, Math.min(to, low + step - 1));
}
