/** The first index of sorted values whose value is not before `moment`; their length where all are. */
export function findFirstAtOrAfter(sorted: Float64Array, moment: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The first index from `from` to `to` of sorted values whose value is not before `moment`; `to` where all are. The nearer
 * it is to `from`, the sooner it is found: for walks that go on from where they are.
 */
export function seek(sorted: Float64Array, from: number, to: number, moment: number): number {
  let step = 1;
  let low = from;
  while (low + step <= to && sorted[low + step - 1]! < moment) {
    low += step;
    step *= 2;
  }
  let high = Math.min(to, low + step - 1);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}
