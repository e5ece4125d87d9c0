import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';

/** `expect(actual).toEqual(expected)`, in a tenth of the time for values of many parts that are the same. */
export function expectSame(actual: unknown, expected: unknown, message?: string): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual, message).toEqual(expected);
}
