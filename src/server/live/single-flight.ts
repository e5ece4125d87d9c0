import { LRUCache } from 'lru-cache';
import { entriesMax } from '../../base/entries-max.ts';
import type { Clock } from '../../base/ports.ts';
import { minuteMs } from '../../base/window.ts';
import type { LiveOutcome } from '../http/service-context.ts';

/** The result of asking the upstream. `unknown`: it works, and has no such data. */
export type FetchResult = 'fetched' | 'unknown' | 'down' | 'refused-credential';

interface FlightRules {
  /** Minimum time between two requests of one key, in ms. */
  readonly maxAgeMs: number;
  /** Maximum wait of a request, in ms. */
  readonly timeoutMs: number;
  /** Maximum keys that are being asked at a time. */
  readonly flightsMax: number;
}

/** Pauses after failures in a row: the first, doubled for each further one up to the maximum, in ms. */
const pauseMsMin = 1000;
const pauseMsMax = minuteMs;
/** Pause after a refused credential, in ms. It works again only after an operator has changed something. */
const credentialPauseMs = 5 * minuteMs;
/** How long a key that the upstream does not know is not asked again, in ms. */
const unknownMs = minuteMs;
const keysMax = 10_000;

interface Flight {
  /** Never rejects. */
  readonly result: Promise<FetchResult>;
  /** Resolves when no request waits any longer for this flight. */
  readonly deadline: Promise<void>;
}

export type SingleFlight = ReturnType<typeof createSingleFlight>;

/** Shares the requests of one route, and pauses them while the upstream fails. */
export function createSingleFlight(rules: FlightRules, clock: Clock) {
  const flights = new Map<string, Flight>();
  const notBefore = new LRUCache<string, number>(entriesMax(keysMax));
  let failures = 0;
  let failedAt = Number.NEGATIVE_INFINITY;
  let pausedUntil = Number.NEGATIVE_INFINITY;

  function note(key: string, startedAt: number, result: FetchResult): FetchResult {
    const now = clock.monotonicMs();
    if (result === 'unknown') notBefore.set(key, now + Math.max(unknownMs, rules.maxAgeMs));
    if (result === 'fetched' || result === 'unknown') {
      failures = 0;
      return result;
    }
    // Requests that were sent together fail together.
    if (startedAt > failedAt || failures === 0) failures++;
    failedAt = now;
    const pause =
      result === 'down' ? Math.min(pauseMsMax, pauseMsMin * 2 ** Math.min(failures - 1, 16)) : credentialPauseMs;
    pausedUntil = Math.max(pausedUntil, now + pause);
    return result;
  }

  function open(key: string, startedAt: number, start: () => Promise<FetchResult>): Flight {
    const done = new AbortController();
    const result = start()
      .catch((): FetchResult => 'down')
      .then((outcome) => note(key, startedAt, outcome))
      .finally(() => {
        flights.delete(key);
        done.abort();
      });
    return { result, deadline: clock.sleep(rules.timeoutMs, done.signal).catch(() => {}) };
  }

  return {
    /**
     * Asks once for all callers of a key. Resolves at the latest `timeoutMs` after the flight began; the flight goes on.
     * @param prepare returns the request to the upstream; null if none is needed. Not called while the key is being asked
     */
    async join(key: string, prepare: () => (() => Promise<FetchResult>) | null): Promise<LiveOutcome> {
      let flight = flights.get(key);
      if (flight === undefined) {
        if (clock.monotonicMs() < pausedUntil) return 'paused';
        // After failures, one request finds out whether the upstream works again. The others wait for it.
        const trial = failures > 0 ? flights.values().next().value : undefined;
        if (trial !== undefined) {
          await Promise.race([trial.result, trial.deadline]);
          if (failures > 0) return 'paused';
        }
        flight = flights.get(key);
      }
      if (flight === undefined) {
        const now = clock.monotonicMs();
        // The upstream was asked moments ago. Its data ends earlier if its clock is behind, or it lags.
        if (now < (notBefore.get(key) ?? Number.NEGATIVE_INFINITY)) return 'fresh';
        if (flights.size >= rules.flightsMax) return 'crowded';
        const start = prepare();
        if (start === null) return 'fresh';
        notBefore.set(key, now + rules.maxAgeMs);
        flight = open(key, now, start);
        flights.set(key, flight);
      }
      const outcome = await Promise.race([flight.result, flight.deadline.then(() => null)]);
      if (outcome === null && flights.get(key) === flight) return 'timeout';
      const result = outcome ?? (await flight.result);
      return result === 'fetched' || result === 'unknown' ? 'fetched' : 'failed';
    },
    /** Resolves when no flight is left. */
    async waitUntilIdle(): Promise<void> {
      while (flights.size > 0) await Promise.all([...flights.values()].map(({ result }) => result));
    },
  };
}
