import { computePartNumber } from '../../base/symbol-name.ts';
import { formatDay } from '../../base/time.ts';
import type { Manifest } from './manifest.ts';

/** The manifest's fields with the number of part files of each UTC day, of the datasets that are split by symbol. */
export type PartCounts = Pick<Manifest, 'parts' | 'day_parts'>;

/** The number of parts of a day. `date`: as in the path of its files. It divides `parts`. */
export const getPartCount = ({ parts, day_parts }: PartCounts, date: string): number => day_parts?.[date] ?? parts;

/** The part of a symbol on a UTC day; `day` is its midnight in epoch ms. */
export const findDayPart = (counts: PartCounts, symbol: string, day: number): number =>
  computePartNumber(symbol, getPartCount(counts, formatDay(day)));

/** The most parts of an archive that one part of a small day can hold, so that a wrong estimate has a bounded cost. */
const joinedPartsMax = 16;

/**
 * Chooses the number of parts of a day before its first publish: the smallest divisor of `parts` with which no part is
 * expected to have more than `partRows` rows. It never changes, because readers may glob while a publish renames files.
 * @param rows expected rows of the day, of all datasets; null if unknown
 * @param partRows 0 to use all parts
 */
export function choosePartCount(parts: number, rows: number | null, partRows: number): number {
  if (rows === null || partRows === 0) return parts;
  for (let count = Math.ceil(parts / joinedPartsMax); count < parts; count++)
    if (parts % count === 0 && rows <= count * partRows) return count;
  return parts;
}
