import type { Clock } from '../../../src/base/ports.ts';

/** Time that passes only when everybody waits: what is due next happens next, and nothing happens meanwhile. */
export interface Timeline {
  /** Epoch ms. */
  nowMs(): number;
  /** Moves on to a moment at which nothing was due before. */
  moveTo(nowMs: number): void;
  /** A clock whose sleeps are events; `isOver` tells when its owner is dead, who sleeps no more. */
  clock(isOver: () => boolean): Clock;
  /** Does `work` after `ms`; the function returned takes it back. */
  after(ms: number, work: () => void): () => void;
  /** Lets time pass until `work` has come to its end. `onStep` is called after every event. */
  run<T>(work: Promise<T>, onStep: () => void): Promise<T>;
}

interface Event {
  readonly atMs: number;
  readonly work: () => void;
}

/** Events that one run may take: more is a run that goes round in a circle. */
const eventsMax = 500_000;

/** Fine enough for anybody's pace, and such that every moment is one of its own: rounded sleeps would never end. */
const grainMs = 1 / 1024;

const realImmediate = setImmediate;

/** @param turnMs how long one who gives way to others waits for his next turn, in ms */
export function startTimeline(startMs: number, turnMs: () => number): Timeline {
  /** Since the start, in ms; a multiple of `grainMs`. */
  let now = 0;
  // In order; what is due at one moment happens in the order in which it was asked for.
  const events: Event[] = [];

  function after(ms: number, work: () => void): () => void {
    const event = { atMs: Math.ceil((now + Math.max(0, ms)) / grainMs) * grainMs, work };
    let at = events.length;
    while (at > 0 && events[at - 1]!.atMs > event.atMs) at--;
    events.splice(at, 0, event);
    return () => {
      const found = events.indexOf(event);
      if (found >= 0) events.splice(found, 1);
    };
  }

  const clock = (isOver: () => boolean): Clock => ({
    nowMs: () => startMs + Math.floor(now),
    monotonicMs: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        signal?.throwIfAborted();
        // What a dead process does next reaches nothing any more: it is to find that out soon.
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
      if (events.length > 0) throw new Error(`${events.length} events are still to come`);
      now = Math.max(now, nowMs - startMs);
    },
    clock,
    after,
    async run(work, onStep) {
      let over = false;
      work.then(
        () => {
          over = true;
        },
        () => {
          over = true;
        },
      );
      const immediate = globalThis.setImmediate;
      // Whoever gives way to others does so for a while of this time: what takes long is not over in an instant.
      globalThis.setImmediate = ((given: (...args: unknown[]) => void, ...args: unknown[]) => {
        after(turnMs(), () => given(...args));
      }) as unknown as typeof setImmediate;
      try {
        await settled();
        for (let steps = 0; !over; steps++) {
          if (steps > eventsMax) throw new Error(`a run that goes on for ${eventsMax} events`);
          const next = events.shift();
          if (next === undefined) throw new Error('everybody waits, and for nothing');
          now = next.atMs;
          next.work();
          await settled();
          onStep();
        }
        // What was left behind, a deadline of a request that is over, is over too.
        events.length = 0;
      } finally {
        globalThis.setImmediate = immediate;
      }
      return await work;
    },
  };
}

/** Resolves when nobody can go on: promises are through, and files that are being read are. */
async function settled(): Promise<void> {
  do await new Promise<void>((resolve) => realImmediate(resolve));
  while (process.getActiveResourcesInfo().some((name) => /^FSReq|^CloseReq$/.test(name)));
}
