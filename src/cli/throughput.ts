/** How fast something grows, of late: what was longer ago than some `memoryMs` hardly counts. */
export interface SpeedMeter {
  /** What it has come to by a moment; moments never go back. */
  record(nowMs: number, value: number): void;
  /** A second, at a moment; 0 before the first growth. A standstill counts as it goes on. */
  perSecond(nowMs: number): number;
}

/** An exponentially weighted mean over time: uneven steps count by how long they took. */
export function createSpeedMeter(startMs: number, memoryMs: number): SpeedMeter {
  let lastMs = startMs;
  let last = 0;
  let mean = 0;
  let weight = 0;
  const after = (nowMs: number, value: number) => {
    const ms = nowMs - lastMs;
    const kept = Math.exp(-ms / memoryMs);
    return { mean: mean * kept + ((value - last) / ms) * (1 - kept), weight: weight * kept + (1 - kept) };
  };
  return {
    record(nowMs, value) {
      // Several steps within a moment are counted with the next one.
      if (nowMs <= lastMs) return;
      ({ mean, weight } = after(nowMs, value));
      [lastMs, last] = [nowMs, value];
    },
    perSecond(nowMs) {
      const now = nowMs > lastMs ? after(nowMs, last) : { mean, weight };
      return now.weight === 0 ? 0 : (now.mean / now.weight) * 1000;
    },
  };
}

/** Nothing is said of the time left before so much of it has passed, in ms. */
const estimateDelayMs = 2_000;

/**
 * How long the rest will take, in ms; null while nobody can tell. Between the speed of all so far and that of late: work
 * is uneven, and either alone is led astray by it.
 */
export function estimateRemainingMs(
  { done, total }: { readonly done: number; readonly total: number },
  elapsedMs: number,
  latePerSecond: number,
): number | null {
  if (done <= 0 || done >= total || elapsedMs < estimateDelayMs) return null;
  const overall = done / (elapsedMs / 1000);
  return ((total - done) / ((overall + latePerSecond) / 2)) * 1000;
}
