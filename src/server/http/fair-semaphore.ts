import { ProblemError } from './problem-details.ts';

/** Releases a permit; may be called more than once. */
type Permit = (() => void) & Disposable;

/** Limits concurrency; requests beyond the limit wait. */
export interface FairSemaphore {
  /**
   * Waits for a permit.
   * @param bounded false for requests that already held a permit: they are never rejected
   * @throws ProblemError (503, Retry-After) if too many wait; the signal's reason once it is aborted
   */
  acquire(signal: AbortSignal, bounded?: boolean): Promise<Permit>;
  /**
   * A view of the semaphore for one holder. A free permit goes to the waiting holder with the fewest permits, and among
   * equals to the least recently served one. If there are several permits, no holder can have all of them, so that
   * long requests of one holder do not block the others.
   */
  forHolder(holder: string): FairSemaphore;
  /** Number of permits in use, and number of waiting requests. */
  getCounts(): { readonly inside: number; readonly waiting: number };
}

/** Value of Retry-After, in seconds, for rejected requests. */
const retryAfterSeconds = 5;

/** Limit on waiting requests of all holders, as a multiple of the limit per holder. */
const waitingFactor = 4;

/** The holder of requests without one. */
const anonymousHolder = '';

/** One holder: its permits in use, and the callbacks of its waiting requests. */
interface HolderState {
  running: number;
  readonly waiting: Set<() => void>;
}

/** @param permits at least 1 @param waitingMax waiting requests per holder, at least 0 */
export function createFairSemaphore(permits: number, waitingMax: number): FairSemaphore {
  // Ordered by last release, oldest first; holders without permits or waiting requests are removed.
  const holders = new Map<string, HolderState>();
  const count = (of: (state: HolderState) => number): number =>
    [...holders.values()].reduce((sum, state) => sum + of(state), 0);
  const inside = (): number => count((state) => state.running);
  const waiting = (): number => count((state) => state.waiting.size);

  function getState(holder: string): HolderState {
    const state = holders.get(holder) ?? { running: 0, waiting: new Set() };
    holders.set(holder, state);
    return state;
  }

  function removeIfIdle(holder: string, { running, waiting }: HolderState): void {
    if (running === 0 && waiting.size === 0) holders.delete(holder);
  }

  const hasRoom = (holder: string, state: HolderState): boolean =>
    inside() < permits && state.running < (holder === anonymousHolder ? permits : Math.max(1, permits - 1));

  function grant(holder: string, state: HolderState): Permit {
    state.running++;
    let isInside = true;
    const release = (): void => {
      if (!isInside) return;
      isInside = false;
      state.running--;
      holders.delete(holder);
      holders.set(holder, state);
      grantNext();
      removeIfIdle(holder, state);
    };
    return Object.assign(release, { [Symbol.dispose]: release });
  }

  function grantNext(): void {
    const [next] = [...holders]
      .filter(([holder, state]) => state.waiting.size > 0 && hasRoom(holder, state))
      .sort(([, a], [, b]) => a.running - b.running);
    // Pass the permit on synchronously, so that no later request gets it.
    next?.[1].waiting.values().next().value?.();
  }

  async function acquirePermit(holder: string, signal: AbortSignal, bounded: boolean): Promise<Permit> {
    signal.throwIfAborted();
    const state = getState(holder);
    if (hasRoom(holder, state)) return grant(holder, state);
    if (bounded && (state.waiting.size >= waitingMax || waiting() >= waitingMax * waitingFactor)) {
      removeIfIdle(holder, state);
      throw new ProblemError(503, 'Too many queries are waiting. Try again in a moment.', {
        code: 'busy',
        headers: { 'retry-after': String(retryAfterSeconds) },
      });
    }
    return await new Promise((resolve, reject) => {
      const stop = (): void => {
        state.waiting.delete(go);
        removeIfIdle(holder, state);
        reject(signal.reason);
      };
      const go = (): void => {
        state.waiting.delete(go);
        signal.removeEventListener('abort', stop);
        resolve(grant(holder, state));
      };
      state.waiting.add(go);
      signal.addEventListener('abort', stop, { once: true });
    });
  }

  const createFor = (holder: string): FairSemaphore => ({
    acquire: (signal, bounded = true) => acquirePermit(holder, signal, bounded),
    forHolder: createFor,
    getCounts: () => ({ inside: inside(), waiting: waiting() }),
  });
  return createFor(anonymousHolder);
}
