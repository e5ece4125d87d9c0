// Module of a thread that adds numbers, and exits on invalid input.

export function sum(numbers: readonly number[]): number {
  if (numbers.length === 0) throw new RangeError('nothing to add');
  return numbers.reduce((a, b) => a + b);
}
