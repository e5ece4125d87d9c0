import { UpstreamError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';

/** Whether anything answers at the upstream, as the requests of one collection find it. */
export interface CircuitBreaker {
  /** Requests answered, if only with a refusal. */
  countResponses(): number;
  /** The last request that reached nothing while no other was answered; null where one has been since. */
  getUnreachableError(): UpstreamError | null;
  /** Whether the service has done nothing but fail for so long that asking for more would only keep the run from its end. */
  isOpen(): boolean;
  /** Makes a request and notes whether it was answered. */
  trackRequest<T>(request: () => Promise<T>): Promise<T>;
  /**
   * Does a piece of work while `extendChain`, asked right before; says whether it was done. After one that met with silence
   * the next is tried `alone`, and the others wait for it: a service that is out of reach is not asked for everything.
   */
  attempt(goesOn: () => boolean, work: (alone: boolean) => Promise<void>): Promise<boolean>;
}

/** Requests that fail in a row, and for how long, in ms, before a service is taken for out of order: with the
 * pauses that it may ask for, a long list would keep back for days what else a night has to publish. */
const failuresInRowMax = 20;
const failingMsMax = 10 * 60_000;

export function createCircuitBreaker(clock: Pick<Clock, 'monotonicMs'>): CircuitBreaker {
  let goodMs = clock.monotonicMs();
  let failures = 0;
  let answers = 0;
  let silence: UpstreamError | null = null;
  let trial: Promise<void> | null = null;
  const answered = (): void => {
    answers++;
    silence = null;
  };
  // To refuse one thing is work, too: a service does it that is in order.
  const well = (): void => {
    goodMs = clock.monotonicMs();
    failures = 0;
  };
  return {
    countResponses: () => answers,
    getUnreachableError: () => silence,
    isOpen: () => failures >= failuresInRowMax && clock.monotonicMs() - goodMs >= failingMsMax,
    async trackRequest(request) {
      const before = answers;
      try {
        const page = await request();
        answered();
        well();
        return page;
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        if (error.failure === 'refused') well();
        else failures++;
        if (error.status !== undefined) answered();
        else if (error.failure === 'unreachable' && answers === before) silence = error;
        throw error;
      }
    },
    async attempt(goesOn, work) {
      while (trial !== null) await trial;
      if (!goesOn()) return false;
      if (silence === null) await work(false);
      else {
        trial = work(true).finally(() => {
          trial = null;
        });
        await trial;
      }
      return true;
    },
  };
}

/** At most `concurrency` at a time; the first error stops the rest and is thrown once those under way are over. */
export async function forEachConcurrent<T>(
  concurrency: number,
  items: readonly T[],
  work: (item: T) => Promise<void>,
): Promise<void> {
  let next = 0;
  let broken = false;
  const worker = async (): Promise<void> => {
    while (next < items.length && !broken) {
      try {
        await work(items[next++]!);
      } catch (error) {
        broken = true;
        throw error;
      }
    }
  };
  const results = await Promise.allSettled(Array.from({ length: Math.min(concurrency, items.length) }, worker));
  const bad = results.find((result) => result.status === 'rejected');
  if (bad !== undefined) throw bad.reason;
}
