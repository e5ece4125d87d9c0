import type { Clock } from '../../../src/base/ports.ts';
import { systemClock } from '../../../src/base/system.ts';

interface SteppedClock extends Clock {
  /** Advances both times. */
  forward(ms: number): void;
}

/** A clock that is stopped at `startMs` until it is advanced; sleeping takes real time. */
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
