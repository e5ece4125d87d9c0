import { createSlidingCount } from './rate-limit.ts';
import { type SandboxResponse, sandboxPaths } from './responses.ts';
import type { FaultKind } from './sandbox-options.ts';

/** Counters of a sandbox since its start. Requests to `/sandbox/stats` are not counted. */
export interface SandboxStats {
  readonly requests: number;
  /**
   * By path, then by status: `reset` if no status was sent, `gone` if the client disconnected before the response.
   * Unknown paths count as `other`.
   */
  readonly byPath: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly tickRequests: number;
  /** Ticks in complete and correct responses, duplicates included. */
  readonly tickRows: number;
  /** Maximum number of requests within less than a second. */
  readonly perSecondMax: number;
  /**
   * Requests that arrived before the Retry-After of a response had passed, if that response was sent more than 30 ms
   * earlier.
   */
  readonly earlyRequests: number;
  readonly inFlightMax: number;
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>;
  /** Tick and order book requests by known symbol, except those rejected for their key or by the rate limit. */
  readonly bySymbol: Readonly<Record<string, number>>;
}

/** Grace time for a request that crosses a response on the wire, ms. */
const crossingMs = 30;
/** Tolerance for timers that fire early, ms. */
const timerSlackMs = 2;
const pausesMax = 1_000;

export interface RequestTracker {
  /** Call right before the last byte is sent, so that the response is already counted when the client has it. */
  noteResponse(status: string, response?: Pick<SandboxResponse, 'retryAfterMs' | 'rows'>): void;
  /** The connection is closed, with or without a response. */
  noteClosed(): void;
}

/** Counters over a monotonic clock. */
export function createStatsRecorder(monotonicMs: () => number) {
  const byPath = new Map<string, Map<string, number>>();
  const faults = new Map<FaultKind, number>();
  const bySymbol = new Map<string, number>();
  const recentRequests = createSlidingCount();
  const counts = { requests: 0, tickRequests: 0, tickRows: 0, perSecondMax: 0, earlyRequests: 0, inFlightMax: 0 };
  let pauses: { readonly from: number; readonly until: number }[] = [];
  let inFlight = 0;

  function arrived(path: string): RequestTracker {
    const nowMs = monotonicMs();
    counts.requests++;
    if (path === sandboxPaths.ticks) counts.tickRequests++;
    recentRequests.add(nowMs);
    counts.perSecondMax = Math.max(counts.perSecondMax, recentRequests.within(nowMs, 1000));
    pauses = pauses.filter(({ until }) => nowMs < until);
    if (pauses.some(({ from }) => from < nowMs)) counts.earlyRequests++;
    inFlight++;
    counts.inFlightMax = Math.max(counts.inFlightMax, inFlight);
    let open = true;
    const markLeft = () => {
      if (open) inFlight--;
      open = false;
    };
    return {
      noteResponse(status, { retryAfterMs, rows = 0 } = {}) {
        markLeft();
        counts.tickRows += rows;
        const statuses = byPath.get(path) ?? new Map<string, number>();
        byPath.set(path, incrementCount(statuses, status));
        const sentMs = monotonicMs();
        if (retryAfterMs !== undefined && pauses.length < pausesMax) {
          pauses.push({ from: sentMs + crossingMs, until: sentMs + retryAfterMs - timerSlackMs });
        }
      },
      noteClosed: markLeft,
    };
  }

  return {
    arrived,
    fault: (kind: FaultKind) => void incrementCount(faults, kind),
    symbol: (symbol: string) => void incrementCount(bySymbol, symbol),
    snapshot: (): SandboxStats => ({
      ...counts,
      byPath: Object.fromEntries([...byPath].map(([path, statuses]) => [path, Object.fromEntries(statuses)])),
      faults: Object.fromEntries(faults),
      bySymbol: Object.fromEntries(bySymbol),
    }),
  };
}

export type StatsRecorder = ReturnType<typeof createStatsRecorder>;

function incrementCount<Key>(counts: Map<Key, number>, key: Key): Map<Key, number> {
  return counts.set(key, (counts.get(key) ?? 0) + 1);
}
