import type { Clock } from '../base/ports.ts';
import {
  createLocalRateStore,
  type RateState,
  type RateStateAccess,
  type RateStateStore,
  type RequestStart,
} from '../base/rate-state.ts';
import { readRateState } from './sliding-window.ts';

/**
 * A rate state that several processes share. A process that uses the rate alone takes a lease: it reserves some requests
 * and a short time in the shared state, and works on a copy in memory until both are used up. To all others, the reserved
 * requests count as started at the end of the lease. No real start is later than that, so they never start a request too
 * early, even if the process is killed or suspended. Times are milliseconds of the machine's monotonic clock.
 */
export interface RateLease extends RateStateAccess {
  /** Runs work that may start a request, on the copy while the lease lasts. The other methods may be called only from `work`. */
  runStart<T>(work: (nowMs: number) => T): T;
  /** Runs work that records a response about which the others need not know at once. */
  runResponse<T>(work: (nowMs: number) => T): T;
  /** Runs work whose result the others must know at once. Ends the lease. */
  runShared<T>(work: (nowMs: number) => T): T;
  /** Returns what is left of the lease. Call it when no request is running, before the shared store is closed. */
  leave(): void;
}

/** Longest lease, in ms. Others wait this long at most for their first request, and for a pause to be known. */
export const leaseMsMax = 500;
/** Most requests of a lease. More would save little, and be lost if the process is killed. */
export const leaseStartsMax = 64;
/** A process is alone if no other has used the state for this long, in ms. */
const aloneMsMin = 10_000;
/** A process takes leases after it has started requests for this long, in ms, and never after a longer break. */
const busyMsMin = 1_000;

interface Lease {
  /** The number after the last reserved request. */
  readonly end: number;
  readonly untilMs: number;
}

/** Use of a shared rate as one of its users knows it. */
export interface RateUse {
  /** Last known time of a use by another, and the time since which this one has started requests without a break. */
  readonly othersAtMs: number;
  readonly busyFromMs: number;
}

/** Decides on a lease from `nowMs` on, for a user that has just started a request. Null: none. */
export function computeLease(state: RateState, rate: number, use: RateUse, nowMs: number): Lease | null {
  const isAlone = nowMs - use.othersAtMs >= aloneMsMin && nowMs - state.reservedUntilMs >= aloneMsMin;
  const isBusy = nowMs - use.busyFromMs >= busyMsMin;
  // The inferred rate depends on all starts and responses, so a throttled rate is shared without leases.
  const isThrottled = state.inferred !== null || state.resumeMs > nowMs;
  const starts = Math.min(leaseStartsMax, Math.floor((Math.floor(rate) * leaseMsMax) / 1000));
  return isAlone && isBusy && !isThrottled && starts >= 1
    ? { end: state.count + starts, untilMs: nowMs + leaseMsMax }
    : null;
}

/** The shared state during a lease, or without one. */
const reserve = (own: RateState, lease: Lease | null): RateState =>
  lease === null
    ? { ...own, reservedFrom: own.count, reservedUntilMs: Number.NEGATIVE_INFINITY }
    : { ...own, reservedFrom: own.count, reservedUntilMs: lease.untilMs, count: lease.end, slotMs: lease.untilMs };

/** @param shared undefined: this process alone has the rate */
export function createRateLease(shared: RateStateStore | undefined, clock: Clock, getRate: () => number): RateLease {
  /** This user's ID in the shared state. 0: it has not used it yet. */
  let user = 0;
  let use: RateUse = { othersAtMs: Number.NEGATIVE_INFINITY, busyFromMs: Number.POSITIVE_INFINITY };
  let lastStartMs = Number.NEGATIVE_INFINITY;
  /** A copy of the shared state that contains everything as long as no other has used it. Null: there is none. */
  let memory: RateStateAccess | null = shared === undefined ? createLocalRateStore() : null;
  let lease: Lease | null = null;
  /** Requests whose starts in the copy have changed since it was last stored. */
  const changed = new Set<number>();
  let access: RateStateAccess = memory ?? shared!;

  function runInMemory<T>(work: (nowMs: number) => T, nowMs: number): T {
    access = memory!;
    return work(nowMs);
  }

  function runInStore<T>(store: RateStateStore, work: (nowMs: number) => T, canLease: boolean): T {
    // Kept only if the transaction succeeds.
    const { result, ...next } = store.runExclusive(() => {
      const nowMs = clock.monotonicMs();
      const { id, othersAtMs, copy } = enter(store, nowMs);
      access = copy ?? store;
      const { count } = access.read();
      const result = work(nowMs);
      const own = access.read();
      const rule = { ...use, othersAtMs };
      const taken = canLease && own.count > count ? computeLease(own, getRate(), rule, nowMs) : null;
      if (copy !== null) store.putStarts(listChanged(copy));
      if (copy !== null || taken !== null) store.write({ ...reserve(own, taken), writtenAtMs: nowMs });
      return { result, id, othersAtMs, taken, copy: taken === null ? copy : (copy ?? createCopy(store, own)) };
    });
    user = next.id;
    use = { ...use, othersAtMs: next.othersAtMs };
    memory = next.copy;
    lease = next.taken;
    changed.clear();
    return result;
  }

  /** Registers this user, so that the others take no lease. Returns the copy if no other has used the state since. */
  function enter(store: RateStateStore, nowMs: number) {
    const state = readRateState(store, nowMs);
    if (user !== 0 && state.lastUser === user) return { id: user, othersAtMs: use.othersAtMs, copy: memory };
    const id = user === 0 ? state.users + 1 : user;
    const settled = returnLease(store, state);
    store.write({ ...settled, users: Math.max(state.users, id), lastUser: id, writtenAtMs: nowMs });
    const othersAtMs = state.lastUser === 0 ? use.othersAtMs : Math.min(nowMs, state.writtenAtMs);
    return { id, othersAtMs, copy: null };
  }

  /** Replaces the reserved requests by the real ones, unless another has started a request since: then they stand. */
  function returnLease(store: RateStateStore, state: RateState): RateState {
    if (lease === null || memory === null) return state;
    if (state.count !== lease.end || state.reservedUntilMs !== lease.untilMs) return state;
    const { count, slotMs } = memory.read();
    store.putStarts(listChanged(memory));
    return reserve({ ...state, count, slotMs }, null);
  }

  const noteChange = (request: number): void => {
    if (access === memory && shared !== undefined) changed.add(request);
  };

  function listChanged(copy: RateStateAccess): [number, RequestStart][] {
    return [...changed]
      .sort((a, b) => a - b)
      .flatMap((request) => {
        const start = copy.getStart(request);
        return start === undefined ? [] : [[request, start]];
      });
  }

  return {
    runStart(work) {
      const nowMs = clock.monotonicMs();
      const isLeased = lease !== null && nowMs < lease.untilMs && memory!.read().count < lease.end;
      return isLeased || shared === undefined ? runInMemory(work, nowMs) : runInStore(shared, work, true);
    },
    runResponse: (work) =>
      memory !== null ? runInMemory(work, clock.monotonicMs()) : runInStore(shared!, work, false),
    runShared: (work) =>
      shared === undefined ? runInMemory(work, clock.monotonicMs()) : runInStore(shared, work, false),
    leave() {
      if (shared === undefined || user === 0) return;
      try {
        runInStore(shared, () => access.write({ ...access.read(), lastUser: 0 }), false);
      } catch {
        // The lease ends by itself.
      }
      memory = null;
      lease = null;
    },
    read: () => access.read(),
    write: (state) => access.write(state),
    getStart: (request) => access.getStart(request),
    listStarts: () => access.listStarts(),
    addStart(request, atMs) {
      if (atMs - lastStartMs > busyMsMin) use = { ...use, busyFromMs: atMs };
      lastStartMs = atMs;
      noteChange(request);
      access.addStart(request, atMs);
    },
    endStart(request, tookMs, isAccepted) {
      noteChange(request);
      access.endStart(request, tookMs, isAccepted);
    },
    countAccepted: (first, end, afterMs) => access.countAccepted(first, end, afterMs),
    putStarts: (starts) => access.putStarts(starts),
    clear: () => access.clear(),
  };
}

function createCopy(store: RateStateAccess, state: RateState): RateStateAccess {
  const copy = createLocalRateStore();
  copy.write(state);
  copy.putStarts(store.listStarts());
  return copy;
}
