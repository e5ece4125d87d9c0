import { UpstreamError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { minuteMs } from '../../base/window.ts';

/**
 * Number of consecutive failures, and time in ms without a success, after which a service counts as broken. With the
 * pauses that it may request, a long list of symbols would otherwise delay the publish of everything else for days.
 */
const failuresInRowMax = 20;
const failingMsMax = 10 * minuteMs;

/** Tracks whether the upstream responds to the requests of one collection. */
export function createCircuitBreaker(clock: Pick<Clock, 'monotonicMs'>) {
  let lastSuccessMs = clock.monotonicMs();
  let failures = 0;
  let responses = 0;
  let unreachableError: UpstreamError | null = null;
  let trialWork: Promise<void> | null = null;
  const noteAnswered = (): void => {
    responses++;
    unreachableError = null;
  };
  // A refusal shows that the service works.
  const noteSuccess = (): void => {
    lastSuccessMs = clock.monotonicMs();
    failures = 0;
  };
  return {
    /** Number of requests that got a response, including errors. */
    countResponses: (): number => responses,
    /**
     * The error of the last request that could not connect. Null if there was none, or if a request has got a response
     * since it was sent.
     */
    getUnreachableError: (): UpstreamError | null => unreachableError,
    /** Whether the service has failed for so long that more requests would only delay the end of the run. */
    isOpen: (): boolean => failures >= failuresInRowMax && clock.monotonicMs() - lastSuccessMs >= failingMsMax,
    /** Sends a request and records whether it got a response. */
    async trackRequest<T>(request: () => Promise<T>): Promise<T> {
      const responsesBefore = responses;
      try {
        const page = await request();
        noteAnswered();
        noteSuccess();
        return page;
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        if (error.failure === 'refused') noteSuccess();
        else failures++;
        if (error.status !== undefined) noteAnswered();
        else if (error.failure === 'unreachable' && responses === responsesBefore) unreachableError = error;
        throw error;
      }
    },
    /**
     * Calls `canContinue`, and immediately afterwards runs `work` if it returned true. Resolves to whether `work` ran. If
     * the service could not be reached, the next `work` runs with `isAlone` while the others wait, so that an unreachable
     * service does not get a request for each symbol.
     */
    async attempt(canContinue: () => boolean, work: (isAlone: boolean) => Promise<void>): Promise<boolean> {
      while (trialWork !== null) await trialWork;
      if (!canContinue()) return false;
      if (unreachableError === null) await work(false);
      else {
        trialWork = work(true).finally(() => {
          trialWork = null;
        });
        await trialWork;
      }
      return true;
    },
  };
}
