/** Minimum variance relative to the peak of the sum of squares. Below it, rounding errors are too large. */
const relativePrecision = 1e-6;

/**
 * Indexes of the sums of a window: of differences from a pivot near the mean, to limit cancellation; and the peak of the sum
 * of squares since they were recomputed, which bounds the rounding error.
 */
const [pivotAt, sumAt, squaresAt, peakAt] = [0, 1, 2, 3] as const;

/** Number of ticks that leave a window of `size` ticks before its sums are recomputed. */
const getRemovedMax = (size: number): number => 4 * size + 1024;

/** Computes the sums of the ticks [low, high). */
function computeSums(p: Float64Array, low: number, high: number, sums: Float64Array): void {
  let total = 0;
  for (let i = low; i < high; i++) total += p[i]! - p[low]!;
  const pivot = p[low]! + total / (high - low);
  let [sum, squares] = [0, 0];
  for (let i = low; i < high; i++) {
    const d = p[i]! - pivot;
    sum += d;
    squares += d * d;
  }
  sums[pivotAt] = pivot;
  sums[sumAt] = sum;
  sums[squaresAt] = squares;
  sums[peakAt] = squares;
}

/**
 * Mean and standard deviation of the prices in a window (t - windowMs, t], for ascending ticks. Uses running sums, which are
 * recomputed regularly to bound rounding errors.
 */
export function createRollingWindow(t: Float64Array, p: Float64Array, windowMs: number) {
  // The window contains the ticks [low, high).
  let [low, high] = [0, 0];
  // Kept in a typed array, because assigning a double in a closure allocates.
  const sums = new Float64Array(4);
  let removed = 0;
  // First of the latest ticks with equal prices.
  let sameFrom = 0;

  const recompute = (): void => {
    computeSums(p, low, high, sums);
    removed = 0;
  };
  /** Sum of squared differences from the mean. */
  const spread = (n: number): number => sums[squaresAt]! - (sums[sumAt]! * sums[sumAt]!) / n;

  return {
    /** Moves the window to a tick. Ticks must be ascending. */
    advanceTo(i: number): void {
      if (i < high) return;
      const [start, before, next] = [t[i]! - windowMs, low, high];
      // The ticks between two calls can span more than the window.
      while (t[low]! <= start) low++;
      high = i + 1;
      for (let k = next; k <= i; k++) if (k > 0 && p[k] !== p[k - 1]) sameFrom = k;
      removed += low - before;
      if (before === next || low >= next || removed > getRemovedMax(high - low)) {
        recompute();
        return;
      }
      const pivot = sums[pivotAt]!;
      let [sum, squares] = [sums[sumAt]!, sums[squaresAt]!];
      for (let k = before; k < low; k++) {
        const d = p[k]! - pivot;
        sum -= d;
        squares -= d * d;
      }
      for (let k = next; k < high; k++) {
        const d = p[k]! - pivot;
        sum += d;
        squares += d * d;
      }
      sums[sumAt] = sum;
      sums[squaresAt] = squares;
      if (squares > sums[peakAt]!) sums[peakAt] = squares;
    },
    /** Whether there is a tick at or before the start of the window. */
    isFull: (): boolean => low > 0,
    getMean: (): number => (sameFrom <= low ? p[low]! : sums[pivotAt]! + sums[sumAt]! / (high - low)),
    /** Population standard deviation; exactly 0 if all prices are equal. */
    getDeviation(): number {
      if (sameFrom <= low) return 0;
      const n = high - low;
      // After a jump, a small deviation would be lost to rounding.
      if (!(spread(n) > relativePrecision * sums[peakAt]!)) recompute();
      return Math.sqrt(Math.max(0, spread(n) / n));
    },
  };
}

export type RollingMeasure = 'moving_average' | 'z_score';

/**
 * A measure of the window at every tick; NaN if there is no tick at or before its start, and for a z-score without deviation.
 * Computes the same numbers as a rolling window that is advanced tick by tick, to the last bit: the same operations in the
 * same order, but without a call for each of them, which takes a third of the time.
 */
export function computeRollingColumn(
  t: Float64Array,
  p: Float64Array,
  windowMs: number,
  measure: RollingMeasure,
): Float64Array {
  const column = new Float64Array(p.length);
  const sums = new Float64Array(4);
  let [pivot, sum, squares, peak] = [0, 0, 0, 0];
  let [low, removed, sameFrom] = [0, 0, 0];
  let previous = p[0]!;
  for (let i = 0; i < column.length; i++) {
    const start = t[i]! - windowMs;
    const before = low;
    // Sums that turn out to be stale are replaced below.
    for (; t[low]! <= start; low++) {
      const d = p[low]! - pivot;
      sum -= d;
      squares -= d * d;
    }
    removed += low - before;
    const price = p[i]!;
    // Not a branch, because half of the prices repeat the previous one and it could not be predicted.
    sameFrom += (i - sameFrom) * Number(price !== previous);
    previous = price;
    const n = i + 1 - low;
    const d = p[i]! - pivot;
    sum += d;
    squares += d * d;
    if (squares > peak) peak = squares;
    let spread = squares - (sum * sum) / n;
    if (
      before === i ||
      low >= i ||
      removed > getRemovedMax(n) ||
      // As in `getDeviation`.
      (measure === 'z_score' && low > 0 && sameFrom > low && !(spread > relativePrecision * peak))
    ) {
      computeSums(p, low, i + 1, sums);
      [pivot, sum, squares, peak, removed] = [sums[pivotAt]!, sums[sumAt]!, sums[squaresAt]!, sums[peakAt]!, 0];
      spread = squares - (sum * sum) / n;
    }
    if (low === 0) column[i] = Number.NaN;
    else if (sameFrom <= low) column[i] = measure === 'moving_average' ? p[low]! : Number.NaN;
    else if (measure === 'moving_average') column[i] = pivot + sum / n;
    else {
      const deviation = Math.sqrt(Math.max(0, spread / n));
      column[i] = deviation > 0 ? (p[i]! - (pivot + sum / n)) / deviation : Number.NaN;
    }
  }
  return column;
}
