/**
 * Which elements of one response or file count, by index: of those of one time the last in ascending reading order. Elements that
 * run newest first are read backwards; of those in no order the greatest counts.
 */
export function findCounted(times: readonly number[], isGreater: (a: number, b: number) => boolean): Set<number> {
  const runs = (isOk: (before: number, t: number) => boolean): boolean =>
    times.every((t, i) => i === 0 || isOk(times[i - 1]!, t));
  const isAscending = runs((before, t) => before <= t);
  const isDescending = runs((before, t) => before >= t);
  const counted = new Map<number, number>();
  times.forEach((t, i) => {
    const held = counted.get(t);
    if (held === undefined || isAscending || (!isDescending && isGreater(i, held))) counted.set(t, i);
  });
  return new Set(counted.values());
}
