import type { Clock } from '../../../src/base/ports.ts';
import { systemClock } from '../../../src/base/system.ts';

export interface SteppedClock extends Clock {
  /** Moves both of its sides on. */
  forward(ms: number): void;
}

/** A clock that stands at `startMs` until it is moved; sleeping is real. */
export function steppedClock(startMs: number): SteppedClock {
  let passed = 0;
  return {
    ...systemClock,
    nowMs: () => startMs + passed,
    monotonicMs: () => 1_000 + passed,
    forward(ms) {
      passed += ms;
    },
  };
}
