import { ProblemError } from './problem-details.ts';

/** Lets a few in at once; the others wait. */
export interface FairSemaphore {
  /**
   * Resolves once there is room, with what is to be called when it is free again (more than once does no harm).
   * @param bounded false for those that were let in before and come back: they are not turned away
   * @throws ProblemError (503, Retry-After) where too many wait; the signal's reason once it is aborted
   */
  acquire(signal: AbortSignal, bounded?: boolean): Promise<() => void>;
  /**
   * The same gate for one among several. A place that is free goes to whom has the fewest, among those to who waits for
   * longest; and where there are several places, nobody has all of them, so that what one holds for long holds up nobody
   * else.
   */
  forHolder(who: string): FairSemaphore;
  /** Those inside, and those waiting. */
  getCounts(): { readonly inside: number; readonly waiting: number };
}

/** Seconds after which one that was turned away may try again. */
const retryAfterSeconds = 5;

/** So many times what one may have waiting may wait of all together. */
const waitingFactor = 4;

/** Whoever is not told apart. */
const anonymousHolder = '';

/** Those of one that are inside, and the steps into it of those that wait. */
interface HolderState {
  running: number;
  readonly waiting: Set<() => void>;
}

/** @param createConcurrencyLimiter at least 1 @param waitingMax of one, at least 0 */
export function createFairSemaphore(atOnce: number, waitingMax: number): FairSemaphore {
  // Who had a place last stands last; who has nobody here is forgotten.
  const sides = new Map<string, HolderState>();
  const count = (of: (side: HolderState) => number): number =>
    [...sides.values()].reduce((sum, side) => sum + of(side), 0);
  const inside = (): number => count((side) => side.running);
  const waiting = (): number => count((side) => side.waiting.size);

  function sideOf(who: string): HolderState {
    const side = sides.get(who) ?? { running: 0, waiting: new Set() };
    sides.set(who, side);
    return side;
  }

  function tidy(who: string, { running, waiting }: HolderState): void {
    if (running === 0 && waiting.size === 0) sides.delete(who);
  }

  const hasRoom = (who: string, side: HolderState): boolean =>
    inside() < atOnce && side.running < (who === anonymousHolder ? atOnce : Math.max(1, atOnce - 1));

  function letIn(who: string, side: HolderState): () => void {
    side.running++;
    let isInside = true;
    return () => {
      if (!isInside) return;
      isInside = false;
      side.running--;
      sides.delete(who);
      sides.set(who, side);
      letNextIn();
      tidy(who, side);
    };
  }

  function letNextIn(): void {
    const [next] = [...sides]
      .filter(([who, side]) => side.waiting.size > 0 && hasRoom(who, side))
      .sort(([, a], [, b]) => a.running - b.running);
    // Who waits takes over the place: nobody who comes later slips in between.
    next?.[1].waiting.values().next().value?.();
  }

  async function enter(who: string, signal: AbortSignal, bounded: boolean): Promise<() => void> {
    signal.throwIfAborted();
    const side = sideOf(who);
    if (hasRoom(who, side)) return letIn(who, side);
    if (bounded && (side.waiting.size >= waitingMax || waiting() >= waitingMax * waitingFactor)) {
      tidy(who, side);
      throw new ProblemError(503, 'Too many queries are waiting here already. Try again in a moment.', {
        headers: { 'retry-after': String(retryAfterSeconds) },
      });
    }
    return await new Promise((resolve, reject) => {
      const stop = (): void => {
        side.waiting.delete(go);
        tidy(who, side);
        reject(signal.reason);
      };
      const go = (): void => {
        side.waiting.delete(go);
        signal.removeEventListener('abort', stop);
        resolve(letIn(who, side));
      };
      side.waiting.add(go);
      signal.addEventListener('abort', stop, { once: true });
    });
  }

  const gateOf = (who: string): FairSemaphore => ({
    acquire: (signal, bounded = true) => enter(who, signal, bounded),
    forHolder: gateOf,
    getCounts: () => ({ inside: inside(), waiting: waiting() }),
  });
  return gateOf(anonymousHolder);
}
