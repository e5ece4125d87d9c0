import type { Clock } from '../../src/base/ports.ts';
import { createLocalRateStore, type RateStateStore } from '../../src/base/rate-state.ts';
import { RateLease } from '../../src/client/rate-lease.ts';
import { createSlidingWindow } from '../../src/client/sliding-window.ts';
import { countMaxWithin } from './sliding.ts';

/** One process that uses a shared rate from `fromMs` to `toMs`. */
export interface UserScript {
  readonly fromMs: number;
  readonly toMs: number;
  /** Whether it is killed at the end. Else it ends all requests and leaves. */
  readonly isKilled: boolean;
  /** It is suspended at `atMs` for `forMs`. */
  readonly stops: readonly { readonly atMs: number; readonly forMs: number }[];
  /** Time between two requests beside what the rate demands, in ms, and the longest time of a response. */
  readonly idleMs: number;
  readonly tookMsMax: number;
  /** It receives a Retry-After of `forMs` at `atMs`. */
  readonly pauses: readonly { readonly atMs: number; readonly forMs: number }[];
}

export interface SharedUse {
  readonly starts: { readonly user: number; readonly atMs: number }[];
  readonly pauses: { readonly user: number; readonly atMs: number; readonly untilMs: number }[];
  /** Number of transactions of the shared store, and of starts without one. */
  readonly transactions: number;
  readonly leasedStarts: number;
  /** The most starts in any second if at some time all users were killed and a new one came. */
  readonly startsMaxAfterKill: number;
}

/**
 * Runs several users of one rate on a virtual clock, with timers that are late. Everything between two waits of a user is one step.
 * `canLease`: false makes each user believe that another has just used the rate.
 */
export function runUsers(
  rate: number,
  scripts: readonly UserScript[],
  random: () => number,
  { canLease = true, timerLateMs = (): number => (random() < 0.5 ? 0 : 3 * random()) } = {},
): SharedUse {
  let nowMs = 0;
  let transactions = 0;
  let leasedStarts = 0;
  let startsMaxAfterKill = 0;
  const memory = createLocalRateStore();
  const store: RateStateStore = {
    ...memory,
    read: () => (canLease ? memory.read() : { ...memory.read(), lastUser: -1 }),
    runExclusive(work) {
      transactions++;
      return memory.runExclusive(work);
    },
  };
  const clock: Clock = { nowMs: () => nowMs, monotonicMs: () => nowMs, sleep: () => Promise.reject(new Error('no')) };
  const use: SharedUse = {
    starts: [],
    pauses: [],
    get startsMaxAfterKill() {
      return startsMaxAfterKill;
    },
    get transactions() {
      return transactions;
    },
    get leasedStarts() {
      return leasedStarts;
    },
  };
  const users = scripts.map((script, user) => createUser(script, user));

  function createUser(script: UserScript, user: number) {
    const lease = new RateLease(store, clock, () => rate);
    const slidingWindow = createSlidingWindow(() => rate, lease);
    const pauses = [...script.pauses];
    let inFlight: { request: number; atMs: number }[] = [];
    /** A suspended process does nothing until it is resumed. */
    const delay = (atMs: number): number => {
      for (const stop of script.stops)
        if (atMs >= stop.atMs && atMs < stop.atMs + stop.forMs) return stop.atMs + stop.forMs;
      return atMs;
    };
    return {
      wakeMs: delay(script.fromMs),
      step(): void {
        if (nowMs >= script.toMs) {
          if (!script.isKilled) lease.leave();
          this.wakeMs = Number.POSITIVE_INFINITY;
          return;
        }
        for (const { request } of inFlight.filter(({ atMs }) => atMs <= nowMs))
          lease.runResponse((now) => slidingWindow.noteResponse(request, now));
        inFlight = inFlight.filter(({ atMs }) => atMs > nowMs);
        const pause = pauses[0];
        if (pause !== undefined && pause.atMs <= nowMs) {
          pauses.shift();
          const untilMs = nowMs + pause.forMs;
          lease.runShared((now) => {
            const state = lease.read();
            if (untilMs > state.resumeMs) lease.write({ ...state, resumeMs: untilMs, writtenAtMs: now });
          });
          use.pauses.push({ user, atMs: nowMs, untilMs });
        }
        const before = transactions;
        const waitMs = lease.runStart((now) => {
          const next = Math.max(slidingWindow.computeEarliestMs(now), lease.read().resumeMs);
          if (next > now) return next - now;
          inFlight.push({ request: slidingWindow.start(now), atMs: now + script.tookMsMax * random() });
          use.starts.push({ user, atMs: now });
          if (transactions === before) leasedStarts++;
          return script.idleMs;
        });
        const dueMs = nowMs + Math.min(waitMs, 5000) + timerLateMs();
        const responseMs = Math.min(...inFlight.map(({ atMs }) => atMs));
        this.wakeMs = delay(Math.max(nowMs + 1e-3, Math.min(dueMs, responseMs, script.toMs)));
      },
    };
  }

  /** Continues with a copy of the shared state, as a new user would that knows nothing else. */
  function continueAfterKill(): void {
    const copy = createLocalRateStore();
    copy.write(memory.read());
    copy.putStarts(memory.listStarts());
    const slidingWindow = createSlidingWindow(() => rate, copy);
    const starts: number[] = [];
    for (let atMs = nowMs; atMs < nowMs + 2_500; ) {
      const next = slidingWindow.computeEarliestMs(atMs);
      if (next <= atMs) {
        slidingWindow.noteResponse(slidingWindow.start(atMs), atMs + 1);
        starts.push(atMs);
      } else atMs = next;
    }
    const before = use.starts.slice(-Math.ceil(rate)).map(({ atMs }) => atMs);
    startsMaxAfterKill = Math.max(startsMaxAfterKill, countMaxWithin([...before, ...starts], 1000));
  }

  for (;;) {
    const next = users.reduce((a, b) => (b.wakeMs < a.wakeMs ? b : a));
    if (next.wakeMs === Number.POSITIVE_INFINITY) return use;
    nowMs = next.wakeMs;
    next.step();
    if (random() < 20 / rate / 100) continueAfterKill();
  }
}
