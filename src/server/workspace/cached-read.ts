import type { Clock } from '../../base/ports.ts';
import { WorkspaceUnavailableError } from './database-url.ts';

/** Ages of a value in memory, ms. */
interface CacheAges {
  /** Maximum age, after which it is read again: a change by another process takes effect within this time. */
  readonly freshMs: number;
  /** The same while the database is unavailable. */
  readonly staleMs: number;
  /** Time between two attempts to read it while the database is unavailable. */
  readonly retryMs: number;
}

/** A value of the database that is kept in memory, so that not every request queries the database. */
export class CachedRead<T> {
  private readonly load: () => Promise<T>;
  private readonly clock: Clock;
  private readonly ages: CacheAges;
  private current: { readonly value: T; readonly readAt: number } | null = null;
  /** When the database was last found unavailable, monotonic ms; null if it was not since the value was read. */
  private failedAt: number | null = null;
  private pending: Promise<T> | null = null;

  constructor(load: () => Promise<T>, clock: Clock, ages: CacheAges) {
    this.load = load;
    this.clock = clock;
    this.ages = ages;
  }

  /** The value. Rejects with WorkspaceUnavailableError if it is too old and cannot be read. */
  async get(): Promise<T> {
    const { current, failedAt } = this;
    const { freshMs, staleMs, retryMs } = this.ages;
    const nowMs = this.clock.monotonicMs();
    if (current === null || nowMs - current.readAt >= staleMs) return await this.read();
    if (nowMs - current.readAt < freshMs) return current.value;
    // Do not make requests wait for attempts that may take seconds to fail.
    if (failedAt !== null) {
      if (nowMs - failedAt >= retryMs) this.read().catch(() => {});
      return current.value;
    }
    try {
      return await this.read();
    } catch (error) {
      if (error instanceof WorkspaceUnavailableError) return current.value;
      throw error;
    }
  }

  /** Reads the value now. One query at a time, however many requests wait for it. */
  read(): Promise<T> {
    if (this.pending !== null) return this.pending;
    const readAt = this.clock.monotonicMs();
    const reading: Promise<T> = this.load()
      .then((value) => {
        // An invalidated read may not contain the latest change.
        if (this.pending === reading) [this.current, this.failedAt] = [{ value, readAt }, null];
        return value;
      })
      .catch((error: unknown) => {
        if (error instanceof WorkspaceUnavailableError) this.failedAt = this.clock.monotonicMs();
        throw error;
      })
      .finally(() => {
        if (this.pending === reading) this.pending = null;
      });
    this.pending = reading;
    return reading;
  }

  /** Reads the value again for the next request. */
  invalidate(): void {
    [this.current, this.pending] = [null, null];
  }
}
