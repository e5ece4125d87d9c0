/** Ticks of one symbol as columns of equal length: `t` in integer epoch milliseconds, `p` the price as received. */
export interface TickColumns {
  readonly t: Float64Array;
  readonly p: Float64Array;
}

/** Rejected input and the reason. `raw` is its JSON text as received. */
export interface RejectedInput {
  readonly reason: string;
  readonly raw: string;
}

export const emptyTicks: TickColumns = { t: new Float64Array(0), p: new Float64Array(0) };

/** Index of the first value of a sorted column, from `low` and before `high`, that is at least `x`; `high` if there is none. */
export function findFirstAtLeast(sorted: Float64Array, x: number, low = 0, high = sorted.length): number {
  let [first, end] = [low, high];
  while (first < end) {
    const middle = (first + end) >>> 1;
    if (sorted[middle]! < x) first = middle + 1;
    else end = middle;
  }
  return first;
}
