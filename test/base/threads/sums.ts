// Module of a thread that adds numbers, exits on invalid input, and says how low its priority is.

import { readlinkSync } from 'node:fs';
import { getPriority } from 'node:os';
import { basename } from 'node:path';
import { lowerInBackground } from '../../../src/base/worker-threads.ts';

lowerInBackground();

export const readOwnPriority = (): number => getPriority(Number(basename(readlinkSync('/proc/thread-self'))));

export function sum(numbers: readonly number[]): number {
  if (numbers.length === 0) throw new RangeError('nothing to add');
  return numbers.reduce((a, b) => a + b);
}
