import type { Clock } from '../../../src/base/ports.ts';

/** Simulated time that passes only when everything waits: the next due event happens next, with nothing in between. */
export interface Timeline {
  /** Epoch ms. */
  nowMs(): number;
  /** Advances to a time before the next due event. */
  moveTo(nowMs: number): void;
  /** A clock whose sleeps are events; `isOver` returns whether its owner is dead and no longer sleeps. */
  clock(isOver: () => boolean): Clock;
  /** Calls `work` after `ms`; the returned function cancels it. */
  after(ms: number, work: () => void): () => void;
  /** Lets time pass until `work` has settled. Calls `onStep` after every event. */
  run<T>(work: Promise<T>, onStep: () => void): Promise<T>;
}

interface Event {
  readonly atMs: number;
  readonly work: () => void;
}

/** Maximum events of one run: more means an endless loop. */
const eventsMax = 500_000;

/** Fine enough for any rate, and such that all times are multiples of it: rounded sleeps would never end. */
const grainMs = 1 / 1024;

const realImmediate = setImmediate;

/** @param turnMs how long a task that yields waits for its next turn, in ms */
export function startTimeline(startMs: number, turnMs: () => number): Timeline {
  /** Since the start, in ms; a multiple of `grainMs`. */
  let now = 0;
  // Sorted by time; events at the same time happen in the order of their scheduling.
  const events: Event[] = [];

  function after(ms: number, work: () => void): () => void {
    const event = { atMs: Math.ceil((now + Math.max(0, ms)) / grainMs) * grainMs, work };
    let at = events.length;
    while (at > 0 && events[at - 1]!.atMs > event.atMs) at--;
    events.splice(at, 0, event);
    return () => {
      const index = events.indexOf(event);
      if (index >= 0) events.splice(index, 1);
    };
  }

  const clock = (isOver: () => boolean): Clock => ({
    nowMs: () => startMs + Math.floor(now),
    monotonicMs: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        signal?.throwIfAborted();
        // A dead process no longer has any effect: it should notice soon.
        const take = after(isOver() ? 0 : ms, () => {
          signal?.removeEventListener('abort', stop);
          resolve();
        });
        const stop = (): void => {
          take();
          reject(signal!.reason);
        };
        signal?.addEventListener('abort', stop, { once: true });
      }),
  });

  return {
    nowMs: () => startMs + Math.floor(now),
    moveTo(nowMs) {
      if (events.length > 0) throw new Error(`${events.length} events are still pending`);
      now = Math.max(now, nowMs - startMs);
    },
    clock,
    after,
    async run(work, onStep) {
      let isOver = false;
      work.then(
        () => {
          isOver = true;
        },
        () => {
          isOver = true;
        },
      );
      const immediate = globalThis.setImmediate;
      // Yielding takes simulated time, so that long work takes longer than an instant.
      globalThis.setImmediate = ((given: (...args: unknown[]) => void, ...args: unknown[]) => {
        after(turnMs(), () => given(...args));
      }) as unknown as typeof setImmediate;
      try {
        await waitUntilIdle();
        for (let steps = 0; !isOver; steps++) {
          if (steps > eventsMax) throw new Error(`a run of more than ${eventsMax} events`);
          const next = events.shift();
          if (next === undefined) throw new Error('everything waits, and no event is due');
          now = next.atMs;
          next.work();
          await waitUntilIdle();
          onStep();
        }
        // Remaining events, such as the deadline of a finished request, are dropped.
        events.length = 0;
      } finally {
        globalThis.setImmediate = immediate;
      }
      return await work;
    },
  };
}

/** Resolves when nothing can continue: promises have settled and file reads are done. */
async function waitUntilIdle(): Promise<void> {
  do await new Promise<void>((resolve) => realImmediate(resolve));
  while (process.getActiveResourcesInfo().some((name) => /^FSReq|^CloseReq$/.test(name)));
}
