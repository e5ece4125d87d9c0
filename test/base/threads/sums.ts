// The entry of a thread that adds, and dies of what it cannot.

export function sum(numbers: readonly number[]): number {
  if (numbers.length === 0) throw new RangeError('nothing to add');
  return numbers.reduce((a, b) => a + b);
}
