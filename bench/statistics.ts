/** What a benchmark's runs come to. Pure. */

export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/**
 * The value in the middle; of an even number the mean of the two there.
 * @throws RangeError for none, or where one is no finite number
 */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new RangeError('no median of nothing');
  if (!values.every(Number.isFinite)) throw new RangeError(`no median of ${values.join(', ')}`);
  const sorted = values.toSorted((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

/** @throws RangeError as `median` does */
export function spread(values: readonly number[]): Spread {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

/**
 * `over[i] / under[i]`: the two of a pair ran one after the other, so that a slow minute of the machine slowed both.
 * The median of these ratios is not the ratio of the medians.
 * @throws RangeError where the runs do not pair up, or a ratio is no finite number
 */
export function pairRatios(over: readonly number[], under: readonly number[]): Spread {
  if (over.length !== under.length) throw new RangeError(`${over.length} runs against ${under.length} make no pairs`);
  return spread(over.map((value, i) => value / under[i]!));
}
