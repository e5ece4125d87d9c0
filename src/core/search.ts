/** The first index of sorted values whose value is not before `moment`; their length where all are. */
export function firstAtOrAfter(sorted: Float64Array, moment: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}
