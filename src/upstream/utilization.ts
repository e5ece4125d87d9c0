/**
 * How much of the allowed rate was used while there was something to ask for: requests started, beside those that the
 * rate in force at each moment would have let start. Times are monotonic milliseconds, rates requests a second.
 */
export interface UtilizationMeter {
  /** What holds from `nowMs` on: the rate in force, how many requests are wanted, and until when the service holds all back. */
  note(nowMs: number, rate: number, wanted: number, resumeMs: number): void;
  /** A request started. */
  noteStart(): void;
  /** The share that was used up to the last note, 0 to 1. */
  computeShare(): number;
}

export function createUtilizationMeter(): UtilizationMeter {
  let last = { nowMs: 0, rate: 0, wanted: 0, resumeMs: Number.NEGATIVE_INFINITY };
  let allowed = 0;
  let starts = 0;
  return {
    note(nowMs, rate, wanted, resumeMs) {
      const fromMs = Math.max(last.nowMs, last.resumeMs);
      if (last.wanted > 0) allowed += (Math.max(0, nowMs - fromMs) / 1000) * last.rate;
      last = { nowMs, rate, wanted, resumeMs };
    },
    noteStart: () => void starts++,
    // The first one starts at once: in a span of n spacings there is room for n + 1.
    computeShare: () => (starts === 0 ? 0 : Math.min(1, starts / (allowed + 1))),
  };
}
