import type { Window } from '../core/window.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const sampleStepsMs = [minuteMs, 5 * minuteMs, 15 * minuteMs, hourMs, 6 * hourMs, dayMs] as const;

/** Samples of one curve, where a day a step is not too many already. */
const samplesMax = 1000;

/** Moments at which the value of a run is taken: what happened before each of them counts. */
export interface SampleTimes {
  /** Milliseconds between two of them, but for the first and the last. */
  readonly stepMs: number;
  /** Epoch milliseconds, ascending: every multiple of the step inside the run, and the run's end. */
  readonly t: Float64Array;
}

/** The finest step of minutes, hours or a day that gives at most 1,000 samples; of many years there are more, one a day. */
export function computeSampleTimes({ from, to }: Window): SampleTimes {
  const stepMs = sampleStepsMs.find((step) => (to - from) / step <= samplesMax) ?? dayMs;
  const first = (Math.floor(from / stepMs) + 1) * stepMs;
  const inside = Math.max(0, Math.ceil((to - first) / stepMs));
  const t = Float64Array.from({ length: inside + 1 }, (_, k) => (k === inside ? to : first + k * stepMs));
  return { stepMs, t };
}

/** Which of the samples are the ends of UTC days, and the last one. */
export const findDayEnds = ({ t }: SampleTimes): number[] =>
  [...t.keys()].filter((k) => t[k]! % dayMs === 0 || k === t.length - 1);
