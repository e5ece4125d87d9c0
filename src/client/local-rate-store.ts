import {
  initialRateState,
  type RateState,
  type RateStateStore,
  type RequestStart,
  startsRetentionMs,
} from '../base/rate-state.ts';

/** A rate state for this process only. */
export function createLocalRateStore(): RateStateStore {
  let state: RateState = initialRateState;
  const starts = new Map<number, RequestStart & { readonly isLetThrough: boolean }>();
  return {
    runExclusive: (work) => work(),
    read: () => state,
    write(next) {
      state = next;
    },
    getStart: (request) => starts.get(request),
    addStart(request, atMs) {
      starts.set(request, { atMs, tookMs: null, isLetThrough: false });
      for (const [oldest, start] of starts) {
        if (start.atMs >= atMs - startsRetentionMs || oldest === request) break;
        starts.delete(oldest);
      }
    },
    endStart(request, tookMs, isLetThrough) {
      const start = starts.get(request);
      if (start !== undefined) starts.set(request, { ...start, tookMs, isLetThrough });
    },
    countAccepted(first, end, afterMs) {
      let count = 0;
      for (let request = end - 1; request >= first; request--) {
        const start = starts.get(request);
        if (start === undefined || start.atMs <= afterMs) break;
        if (start.isLetThrough) count++;
      }
      return count;
    },
    clear: () => starts.clear(),
  };
}
