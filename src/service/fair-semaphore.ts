import { ProblemError } from './problem-details.ts';

/** Lets a few in at once; the others wait. */
export interface Gate {
  /**
   * Resolves once there is room, with what is to be called when it is free again (more than once does no harm).
   * @param bounded false for those that were let in before and come back: they are not turned away
   * @throws ProblemError (503, Retry-After) where too many wait; the signal's reason once it is aborted
   */
  enter(signal: AbortSignal, bounded?: boolean): Promise<() => void>;
  /**
   * The same gate for one among several. A place that is free goes to whom has the fewest, among those to who waits for
   * longest; and where there are several places, nobody has all of them, so that what one holds for long holds up nobody
   * else.
   */
  of(who: string): Gate;
  /** Those inside, and those waiting. */
  state(): { readonly inside: number; readonly waiting: number };
}

/** Seconds after which one that was turned away may try again. */
const retryAfterSeconds = 5;

/** So many times what one may have waiting may wait of all together. */
const waitingShare = 4;

/** Whoever is not told apart. */
const everybody = '';

/** Those of one that are inside, and the steps into it of those that wait. */
interface Side {
  inside: number;
  readonly waiting: Set<() => void>;
}

/** @param atOnce at least 1 @param waitingMax of one, at least 0 */
export function createGate(atOnce: number, waitingMax: number): Gate {
  // Who had a place last stands last; who has nobody here is forgotten.
  const sides = new Map<string, Side>();
  const count = (of: (side: Side) => number): number => [...sides.values()].reduce((sum, side) => sum + of(side), 0);
  const inside = (): number => count((side) => side.inside);
  const waiting = (): number => count((side) => side.waiting.size);

  function sideOf(who: string): Side {
    const side = sides.get(who) ?? { inside: 0, waiting: new Set() };
    sides.set(who, side);
    return side;
  }

  function tidy(who: string, { inside, waiting }: Side): void {
    if (inside === 0 && waiting.size === 0) sides.delete(who);
  }

  const hasRoom = (who: string, side: Side): boolean =>
    inside() < atOnce && side.inside < (who === everybody ? atOnce : Math.max(1, atOnce - 1));

  function letIn(who: string, side: Side): () => void {
    side.inside++;
    let isInside = true;
    return () => {
      if (!isInside) return;
      isInside = false;
      side.inside--;
      sides.delete(who);
      sides.set(who, side);
      letNextIn();
      tidy(who, side);
    };
  }

  function letNextIn(): void {
    const [next] = [...sides]
      .filter(([who, side]) => side.waiting.size > 0 && hasRoom(who, side))
      .sort(([, a], [, b]) => a.inside - b.inside);
    // Who waits takes over the place: nobody who comes later slips in between.
    next?.[1].waiting.values().next().value?.();
  }

  async function enter(who: string, signal: AbortSignal, bounded: boolean): Promise<() => void> {
    signal.throwIfAborted();
    const side = sideOf(who);
    if (hasRoom(who, side)) return letIn(who, side);
    if (bounded && (side.waiting.size >= waitingMax || waiting() >= waitingMax * waitingShare)) {
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

  const gateOf = (who: string): Gate => ({
    enter: (signal, bounded = true) => enter(who, signal, bounded),
    of: gateOf,
    state: () => ({ inside: inside(), waiting: waiting() }),
  });
  return gateOf(everybody);
}
