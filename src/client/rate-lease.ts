import type { Clock } from '../base/ports.ts';
import {
  createLocalRateStore,
  type RateState,
  type RateStateAccess,
  type RateStateStore,
  type RequestStart,
} from '../base/rate-state.ts';
import { readRateState } from './sliding-window.ts';

/** Longest lease, in ms. Others wait this long at most for their first request, and for a pause to be known. */
export const leaseMsMax = 500;
/** Most requests of a lease. More would save little, and be lost if the process is killed. */
const leaseStartsMax = 64;
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
interface RateUse {
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

/**
 * A rate state that several processes share. A process that uses the rate alone takes a lease: it reserves some requests
 * and a short time in the shared state, and works on a copy in memory until both are used up. To all others, the reserved
 * requests count as started at the end of the lease. No real start is later than that, so they never start a request too
 * early, even if the process is killed or suspended. Times are milliseconds of the machine's monotonic clock.
 */
export class RateLease implements RateStateAccess {
  readonly #shared: RateStateStore | undefined;
  readonly #clock: Clock;
  readonly #getRate: () => number;
  /** This user's ID in the shared state. 0: it has not used it yet. */
  #user = 0;
  #use: RateUse = { othersAtMs: Number.NEGATIVE_INFINITY, busyFromMs: Number.POSITIVE_INFINITY };
  #lastStartMs = Number.NEGATIVE_INFINITY;
  /** A copy of the shared state that contains everything as long as no other has used it. Null: there is none. */
  #memory: RateStateAccess | null;
  #lease: Lease | null = null;
  /** Requests whose starts in the copy have changed since it was last stored. */
  readonly #changed = new Set<number>();
  #access: RateStateAccess;
  readonly #noteChange = (request: number): void => {
    if (this.#access === this.#memory && this.#shared !== undefined) this.#changed.add(request);
  };

  /** @param shared undefined: this process alone has the rate */
  constructor(shared: RateStateStore | undefined, clock: Clock, getRate: () => number) {
    this.#shared = shared;
    this.#clock = clock;
    this.#getRate = getRate;
    this.#memory = shared === undefined ? createLocalRateStore() : null;
    this.#access = this.#memory ?? shared!;
  }

  #runInMemory<T>(work: (nowMs: number) => T, nowMs: number): T {
    this.#access = this.#memory!;
    return work(nowMs);
  }

  #runInStore<T>(store: RateStateStore, work: (nowMs: number) => T, canLease: boolean): T {
    // Kept only if the transaction succeeds.
    const { result, ...next } = store.runExclusive(() => {
      const nowMs = this.#clock.monotonicMs();
      const { id, othersAtMs, copy } = this.#enter(store, nowMs);
      this.#access = copy ?? store;
      const { count } = this.#access.read();
      const result = work(nowMs);
      const own = this.#access.read();
      const rule = { ...this.#use, othersAtMs };
      const taken = canLease && own.count > count ? computeLease(own, this.#getRate(), rule, nowMs) : null;
      if (copy !== null) store.putStarts(this.#listChanged(copy));
      if (copy !== null || taken !== null) store.write({ ...reserve(own, taken), writtenAtMs: nowMs });
      return { result, id, othersAtMs, taken, copy: taken === null ? copy : (copy ?? createCopy(store, own)) };
    });
    this.#user = next.id;
    this.#use = { ...this.#use, othersAtMs: next.othersAtMs };
    this.#memory = next.copy;
    this.#lease = next.taken;
    this.#changed.clear();
    return result;
  }

  /** Registers this user, so that the others take no lease. Returns the copy if no other has used the state since. */
  #enter(store: RateStateStore, nowMs: number) {
    const state = readRateState(store, nowMs);
    if (this.#user !== 0 && state.lastUser === this.#user)
      return { id: this.#user, othersAtMs: this.#use.othersAtMs, copy: this.#memory };
    const id = this.#user === 0 ? state.users + 1 : this.#user;
    const settled = this.#returnLease(store, state);
    store.write({ ...settled, users: Math.max(state.users, id), lastUser: id, writtenAtMs: nowMs });
    const othersAtMs = state.lastUser === 0 ? this.#use.othersAtMs : Math.min(nowMs, state.writtenAtMs);
    return { id, othersAtMs, copy: null };
  }

  /** Replaces the reserved requests by the real ones, unless another has started a request since: then they stand. */
  #returnLease(store: RateStateStore, state: RateState): RateState {
    if (this.#lease === null || this.#memory === null) return state;
    if (state.count !== this.#lease.end || state.reservedUntilMs !== this.#lease.untilMs) return state;
    const { count, slotMs } = this.#memory.read();
    store.putStarts(this.#listChanged(this.#memory));
    return reserve({ ...state, count, slotMs }, null);
  }

  #listChanged(copy: RateStateAccess): [number, RequestStart][] {
    return [...this.#changed]
      .sort((a, b) => a - b)
      .flatMap((request) => {
        const start = copy.getStart(request);
        return start === undefined ? [] : [[request, start]];
      });
  }

  /** Runs work that may start a request, on the copy while the lease lasts. The other methods may be called only from `work`. */
  runStart<T>(work: (nowMs: number) => T): T {
    const nowMs = this.#clock.monotonicMs();
    const isLeased =
      this.#lease !== null && nowMs < this.#lease.untilMs && this.#memory!.read().count < this.#lease.end;
    return isLeased || this.#shared === undefined
      ? this.#runInMemory(work, nowMs)
      : this.#runInStore(this.#shared, work, true);
  }

  /** Runs work that records a response about which the others need not know at once. */
  runResponse<T>(work: (nowMs: number) => T): T {
    return this.#memory !== null
      ? this.#runInMemory(work, this.#clock.monotonicMs())
      : this.#runInStore(this.#shared!, work, false);
  }

  /** Runs work whose result the others must know at once. Ends the lease. */
  runShared<T>(work: (nowMs: number) => T): T {
    return this.#shared === undefined
      ? this.#runInMemory(work, this.#clock.monotonicMs())
      : this.#runInStore(this.#shared, work, false);
  }

  /** Returns what is left of the lease. Call it when no request is running, before the shared store is closed. */
  leave(): void {
    if (this.#shared === undefined || this.#user === 0) return;
    try {
      this.#runInStore(this.#shared, () => this.#access.write({ ...this.#access.read(), lastUser: 0 }), false);
    } catch {
      // The lease ends by itself.
    }
    this.#memory = null;
    this.#lease = null;
  }

  read(): RateState {
    return this.#access.read();
  }

  write(state: RateState): void {
    this.#access.write(state);
  }

  getStart(request: number): RequestStart | undefined {
    return this.#access.getStart(request);
  }

  addStart(request: number, atMs: number): void {
    if (atMs - this.#lastStartMs > busyMsMin) this.#use = { ...this.#use, busyFromMs: atMs };
    this.#lastStartMs = atMs;
    this.#noteChange(request);
    this.#access.addStart(request, atMs);
  }

  endStart(request: number, tookMs: number, isAccepted: boolean): void {
    this.#noteChange(request);
    this.#access.endStart(request, tookMs, isAccepted);
  }

  countAccepted(first: number, end: number, afterMs: number): number {
    return this.#access.countAccepted(first, end, afterMs);
  }

  clear(): void {
    this.#access.clear();
  }
}

function createCopy(store: RateStateStore, state: RateState): RateStateAccess {
  const copy = createLocalRateStore();
  copy.write(state);
  copy.putStarts(store.listStarts());
  return copy;
}
