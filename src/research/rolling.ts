/**
 * Mean and standard deviation of the prices in a window that ends with a tick and leaves its own start out, for ticks in
 * their order. Values come in and go out of a sum, which is taken anew now and then so that errors cannot pile up.
 */
export interface Rolling {
  /** Goes on to a tick, which must not come before the last one. */
  to(i: number): void;
  /** Whether there is a tick at the window's start or before it: else the window is only begun. */
  isFull(): boolean;
  mean(): number;
  /** Of the whole population; exactly 0 where all prices are the same. */
  deviation(): number;
}

/** The least share of what was summed up that a variance may be: less of it is rounding to too great a part. */
const precise = 1e-6;

export function rolling(t: Float64Array, p: Float64Array, windowMs: number): Rolling {
  // The window holds ticks low to high - 1.
  let [low, high] = [0, 0];
  // Sums of what prices differ from one of them, so that little is lost where they are near each other.
  let [pivot, sum, squares] = [0, 0, 0];
  // The greatest that `squares` was since it was taken anew: what it is off by rounding is a share of that.
  let peak = 0;
  let removed = 0;
  // Where the prices that are equal to the last one begin.
  let sameFrom = 0;

  const add = (i: number): void => {
    const d = p[i]! - pivot;
    sum += d;
    squares += d * d;
  };
  const anew = (): void => {
    let total = 0;
    for (let i = low; i < high; i++) total += p[i]! - p[low]!;
    pivot = p[low]! + total / (high - low);
    [sum, squares, removed] = [0, 0, 0];
    for (let i = low; i < high; i++) add(i);
    peak = squares;
  };
  return {
    to(i) {
      if (i < high) return;
      const start = t[i]! - windowMs;
      const before = low;
      // What came between two calls may be longer than the window.
      while (t[low]! <= start) low++;
      for (let k = high; k <= i; k++) if (k > 0 && p[k] !== p[k - 1]) sameFrom = k;
      const came = i + 1 - high;
      const went = low - before;
      if (before === high || low >= high || removed + went > 4 * (i + 1 - low) + 1024) {
        high = i + 1;
        anew();
        return;
      }
      for (let k = before; k < low; k++) {
        const d = p[k]! - pivot;
        sum -= d;
        squares -= d * d;
      }
      removed += went;
      high += came;
      for (let k = high - came; k < high; k++) add(k);
      if (squares > peak) peak = squares;
    },
    isFull: () => low > 0,
    mean: () => (sameFrom <= low ? p[low]! : pivot + sum / (high - low)),
    deviation() {
      if (sameFrom <= low) return 0;
      const n = high - low;
      // After a jump a small deviation would be lost beside what went before.
      if (!(squares - (sum * sum) / n > precise * peak)) anew();
      return Math.sqrt(Math.max(0, (squares - (sum * sum) / n) / n));
    },
  };
}
