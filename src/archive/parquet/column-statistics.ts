import { encodePlainNumbers, type PhysicalNumberType } from './encodings.ts';
import type { Statistics } from './metadata.ts';

// The statistics of column chunks, by which readers skip row groups.

export interface NumberBounds {
  readonly min: number;
  readonly max: number;
}

/** Computes the minimum and maximum, ignoring NaN. The minimum exceeds the maximum if there is no value. */
export function computeBounds(values: Float64Array): NumberBounds {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  // Two of each, because every step waits for the one before. A loop without branches takes half the time.
  let evenMin = min;
  let evenMax = max;
  const even = values.length - (values.length % 2);
  for (let i = 0; i < even; i += 2) {
    evenMin = Math.min(evenMin, values[i]!);
    evenMax = Math.max(evenMax, values[i]!);
    min = Math.min(min, values[i + 1]!);
    max = Math.max(max, values[i + 1]!);
  }
  if (even < values.length) {
    min = Math.min(min, values[even]!);
    max = Math.max(max, values[even]!);
  }
  min = Math.min(min, evenMin);
  max = Math.max(max, evenMax);
  return Number.isNaN(min) ? computeBounds(values.filter((value) => !Number.isNaN(value))) : { min, max };
}

export function encodeNumberStatistics(
  { min, max }: NumberBounds,
  physical: PhysicalNumberType,
  nulls: number,
): Statistics {
  if (min > max) return encodeStatistics(nulls);
  // -0 and 0 compare equal, so bounds at zero must include both.
  const bounds = Float64Array.of(min === 0 ? -0 : min, max === 0 ? 0 : max);
  const bytes = encodePlainNumbers(bounds, physical);
  const half = bytes.length / 2;
  return encodeStatistics(nulls, { min: bytes.slice(0, half), max: bytes.slice(half) });
}

/** Encodes the bounds of strings, in byte order. */
export function encodeStringStatistics(texts: readonly Uint8Array[], nulls: number): Statistics {
  if (texts.length === 0) return encodeStatistics(nulls);
  const min = texts.reduce((a, b) => (Buffer.compare(a, b) <= 0 ? a : b));
  const max = texts.reduce((a, b) => (Buffer.compare(a, b) >= 0 ? a : b));
  const isShort = Math.max(min.length, max.length) <= boundBytesMax;
  return encodeStatistics(nulls, isShort ? { min, max } : undefined);
}

/** Longer bounds would enlarge footers and let readers skip little more. */
const boundBytesMax = 256;

/** @param bounds the minimum and maximum in PLAIN encoding; undefined if there are none */
export const encodeStatistics = (
  nulls: number,
  bounds?: { readonly min: Uint8Array; readonly max: Uint8Array } | undefined,
): Statistics =>
  bounds === undefined
    ? { null_count: nulls }
    : {
        null_count: nulls,
        max_value: bounds.max,
        min_value: bounds.min,
        is_max_value_exact: true,
        is_min_value_exact: true,
      };
