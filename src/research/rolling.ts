/**
 * Mean and standard deviation of the prices in a window that ends with a tick and leaves its own start out, for ticks in
 * their order. Values come in and go out of a sum, which is taken anew now and then so that errors cannot pile up.
 */
export interface RollingWindow {
  /** Goes on to a tick, which must not come before the last one. */
  advanceTo(i: number): void;
  /** Whether there is a tick at the window's start or before it: else the window is only begun. */
  isFull(): boolean;
  getMean(): number;
  /** Of the whole population; exactly 0 where all prices are the same. */
  getDeviation(): number;
}

/** The least share of what was summed up that a variance may be: less of it is rounding to too great a part. */
const relativePrecision = 1e-6;

export function createRollingWindow(t: Float64Array, p: Float64Array, windowMs: number): RollingWindow {
  // The window holds ticks low to high - 1.
  let [low, high] = [0, 0];
  // Sums of what prices differ from one of them, so that little is lost where they are near each other; and the greatest
  // that `squares` was since they were taken anew: what they are off by rounding is a share of that. In an array, as a
  // double of a closure is a new object each time that it is set.
  const sums = new Float64Array(4);
  const [pivotAt, sumAt, squaresAt, peakAt] = [0, 1, 2, 3] as const;
  let removed = 0;
  // Where the prices that are equal to the last one begin.
  let sameFrom = 0;

  const anew = (): void => {
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
    removed = 0;
  };
  /** Sum of the squares of what prices differ from their mean. */
  const spread = (n: number): number => sums[squaresAt]! - (sums[sumAt]! * sums[sumAt]!) / n;

  return {
    advanceTo(i) {
      if (i < high) return;
      const [start, before, next] = [t[i]! - windowMs, low, high];
      // What came between two calls may be longer than the window.
      while (t[low]! <= start) low++;
      high = i + 1;
      for (let k = next; k <= i; k++) if (k > 0 && p[k] !== p[k - 1]) sameFrom = k;
      removed += low - before;
      if (before === next || low >= next || removed > 4 * (high - low) + 1024) {
        anew();
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
    isFull: () => low > 0,
    getMean: () => (sameFrom <= low ? p[low]! : sums[pivotAt]! + sums[sumAt]! / (high - low)),
    getDeviation() {
      if (sameFrom <= low) return 0;
      const n = high - low;
      // After a jump a small deviation would be lost beside what went before.
      if (!(spread(n) > relativePrecision * sums[peakAt]!)) anew();
      return Math.sqrt(Math.max(0, spread(n) / n));
    },
  };
}
