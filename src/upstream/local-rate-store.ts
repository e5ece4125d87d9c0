import { newPace, type Pace, type PaceMemory, type Start, startsKeptMs } from '../core/rate-state.ts';

/** A pace that this process keeps by itself. */
export function createOwnMemory(): PaceMemory {
  let pace: Pace = newPace;
  const starts = new Map<number, Start & { readonly isLetThrough: boolean }>();
  return {
    alone: (work) => work(),
    read: () => pace,
    write(next) {
      pace = next;
    },
    start: (request) => starts.get(request),
    addStart(request, atMs) {
      starts.set(request, { atMs, tookMs: null, isLetThrough: false });
      for (const [oldest, start] of starts) {
        if (start.atMs >= atMs - startsKeptMs || oldest === request) break;
        starts.delete(oldest);
      }
    },
    endStart(request, tookMs, isLetThrough) {
      const start = starts.get(request);
      if (start !== undefined) starts.set(request, { ...start, tookMs, isLetThrough });
    },
    letThrough(first, end, afterMs) {
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
