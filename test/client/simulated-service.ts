import { createLocalRateStore } from '../../src/base/rate-state.ts';
import { RateLimiter } from '../../src/client/limiter.ts';
import { computeBackoffMs } from '../../src/client/request.ts';
import { createRateLimit, type LimiterKind } from '../../src/sandbox/rate-limit.ts';
import { createSeededRandom } from './seeded.ts';
import { createVirtualClock } from './virtual-clock.ts';

interface Service {
  /** Requests allowed per second, and how they are counted. */
  readonly limit: number;
  readonly kind: LimiterKind;
  /** Share of requests that are throttled at random. */
  readonly faultShare?: number;
  /** Seconds in the Retry-After header. Null: no header. */
  readonly retryAfter?: number | null;
}

/**
 * Sends requests to a simulated service continuously, on a virtual clock. `seconds` runs it and returns the requests
 * accepted and throttled, and the mean rate in force.
 */
export function runAgainstService(service: Service, configured: number, seed: number) {
  const clock = createVirtualClock();
  const random = createSeededRandom(seed);
  const memory = createLocalRateStore();
  const limit = createRateLimit();
  let state = service;
  let rate = configured;
  const counts = { passed: 0, refused: 0, rates: 0 };
  const onRate = (next: number) => {
    rate = next;
  };
  const options = { requestsPerSecond: configured, concurrency: 8, pauseMsMax: 900_000, rateStore: memory, onRate };
  const limiter = new RateLimiter(options, clock);
  const { signal } = new AbortController();
  let stopped = false;

  async function ask(): Promise<void> {
    for (let attempt = 0; !stopped; ) {
      const refused = await limiter.run(
        async (permit) => {
          counts.rates += rate;
          await clock.sleep(2 + 3 * random());
          const { limit: allowed, kind, faultShare = 0, retryAfter = null } = state;
          const isRefused = limit.take(clock.monotonicMs(), allowed, kind).waitMs > 0 || random() < faultShare;
          counts[isRefused ? 'refused' : 'passed']++;
          await clock.sleep(2 + 3 * random());
          permit.noteResponse(isRefused);
          // Like the client: the stated pause, or a backoff.
          if (isRefused)
            limiter.pause(
              retryAfter === null ? 250 + computeBackoffMs(attempt, 250, 30_000, random) : retryAfter * 1000,
            );
          return isRefused;
        },
        { priority: attempt, signal },
      );
      if (refused) await clock.sleep(computeBackoffMs(attempt, 250, 30_000, random));
      attempt = refused ? attempt + 1 : 0;
    }
  }
  for (let i = 0; i < 8; i++) void ask();

  return {
    rate: () => rate,
    change(next: Partial<Service>) {
      state = { ...state, ...next };
    },
    async seconds(count: number) {
      Object.assign(counts, { passed: 0, refused: 0, rates: 0 });
      await clock.pass(count * 1000);
      const { passed, refused, rates } = counts;
      const requests = passed + refused;
      return {
        passed,
        refused,
        refusedShare: refused / requests,
        meanRate: rates / requests,
        used: passed / (state.limit * count),
      };
    },
    async stop() {
      stopped = true;
      await clock.pass(1_000_000);
    },
  };
}
