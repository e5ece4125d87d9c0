/** The maximum number of these times in any span of `spanMs`, its end excluded. */
export function countMaxWithin(moments: readonly number[], spanMs: number): number {
  const sorted = [...moments].sort((a, b) => a - b);
  let most = 0;
  let first = 0;
  for (const [index, moment] of sorted.entries()) {
    while (moment - sorted[first]! >= spanMs) first++;
    most = Math.max(most, index - first + 1);
  }
  return most;
}
