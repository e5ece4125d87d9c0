/** Statistics over the runs of a benchmark. Pure. */

export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/**
 * The median; for an even count the mean of the middle two.
 * @throws RangeError if empty or if a value is not finite
 */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new RangeError('an empty list has no median');
  if (!values.every(Number.isFinite)) throw new RangeError(`no median of ${values.join(', ')}`);
  const sorted = values.toSorted((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

/** @throws RangeError like `median` */
export function spread(values: readonly number[]): Spread {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) };
}

/**
 * `over[i] / under[i]`. The two runs of a pair follow each other, so that a slow minute of the machine slows both. The
 * median of these ratios differs from the ratio of the medians.
 * @throws RangeError if the lengths differ or a ratio is not finite
 */
export function pairRatios(numerators: readonly number[], under: readonly number[]): Spread {
  if (numerators.length !== under.length)
    throw new RangeError(`${numerators.length} runs and ${under.length} runs cannot be paired`);
  return spread(numerators.map((value, i) => value / under[i]!));
}
