import { ProblemError } from './problem.ts';

/** Lets a few in at once; the others wait in the order in which they came. */
export interface Gate {
  /**
   * Resolves once there is room, with what is to be called when it is free again (more than once does no harm).
   * @param bounded false for those that were let in before and come back: they are not turned away
   * @throws ProblemError (503, Retry-After) where too many wait; the signal's reason once it is aborted
   */
  enter(signal: AbortSignal, bounded?: boolean): Promise<() => void>;
  /** Those inside, and those waiting. */
  state(): { readonly inside: number; readonly waiting: number };
}

/** Seconds after which one that was turned away may try again. */
const retryAfterSeconds = 5;

/** @param atOnce at least 1 @param waitingMax at least 0 */
export function createGate(atOnce: number, waitingMax: number): Gate {
  let inside = 0;
  const waiting = new Set<() => void>();

  function leaving(): () => void {
    let isInside = true;
    return () => {
      if (!isInside) return;
      isInside = false;
      const next = waiting.values().next();
      // Who waits takes over the place: nobody who comes later slips in between.
      if (next.done === true) inside--;
      else next.value();
    };
  }

  return {
    async enter(signal, bounded = true) {
      signal.throwIfAborted();
      if (inside < atOnce) {
        inside++;
        return leaving();
      }
      if (bounded && waiting.size >= waitingMax) {
        throw new ProblemError(503, 'Too many queries are waiting here already. Try again in a moment.', {
          headers: { 'retry-after': String(retryAfterSeconds) },
        });
      }
      return await new Promise((resolve, reject) => {
        const stop = (): void => {
          waiting.delete(go);
          reject(signal.reason);
        };
        const go = (): void => {
          waiting.delete(go);
          signal.removeEventListener('abort', stop);
          resolve(leaving());
        };
        waiting.add(go);
        signal.addEventListener('abort', stop, { once: true });
      });
    },
    state: () => ({ inside, waiting: waiting.size }),
  };
}
