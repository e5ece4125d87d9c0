import type { FaultKind } from './faults.ts';
import { createSlidingCount } from './rate-limit.ts';
import { type SandboxResponse, sandboxPaths } from './response.ts';

/** What a sandbox saw and said since it was started. `/sandbox/stats` itself is nowhere counted. */
export interface SandboxStats {
  readonly requests: number;
  /**
   * By path, then by status: `reset` where no status was sent, `gone` where the client did
   * not wait for it. Paths that nobody knows count together as `other`.
   */
  readonly byPath: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly tickRequests: number;
  /** Ticks in whole and truthful answers, repeats included. */
  readonly tickRows: number;
  /** Most requests that came within less than a second. */
  readonly perSecondMost: number;
  /** Requests that came before the Retry-After of an answer, sent more than 30 ms earlier, had passed. */
  readonly earlyRequests: number;
  readonly inFlightMost: number;
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>;
  /** Tick and order book requests by known symbol, without those refused for key or rate. */
  readonly bySymbol: Readonly<Record<string, number>>;
}

/** A request on its way to the client may cross an answer. */
const crossingMs = 30;
/** A timer may ring a little before its time. */
const timerSlackMs = 2;
const holdsMax = 1_000;

export interface RequestTracker {
  /** Call right before the last byte goes out: a client that has its answer finds it counted. */
  noteResponse(status: string, answer?: Pick<SandboxResponse, 'holdMs' | 'rows'>): void;
  /** The connection is closed, answered or not. */
  noteClosed(): void;
}

/** Counters over monotonic time. */
export function createStatsRecorder(monotonicMs: () => number) {
  const byPath = new Map<string, Map<string, number>>();
  const faults = new Map<FaultKind, number>();
  const bySymbol = new Map<string, number>();
  const lately = createSlidingCount();
  const counts = { requests: 0, tickRequests: 0, tickRows: 0, perSecondMost: 0, earlyRequests: 0, inFlightMost: 0 };
  let holds: { readonly from: number; readonly until: number }[] = [];
  let inFlight = 0;

  function arrived(path: string): RequestTracker {
    const nowMs = monotonicMs();
    counts.requests++;
    if (path === sandboxPaths.ticks) counts.tickRequests++;
    lately.add(nowMs);
    counts.perSecondMost = Math.max(counts.perSecondMost, lately.within(nowMs, 1000));
    holds = holds.filter((hold) => nowMs < hold.until);
    if (holds.some((hold) => hold.from < nowMs)) counts.earlyRequests++;
    inFlight++;
    counts.inFlightMost = Math.max(counts.inFlightMost, inFlight);
    let open = true;
    const leave = () => {
      if (open) inFlight--;
      open = false;
    };
    return {
      noteResponse(status, { holdMs, rows = 0 } = {}) {
        leave();
        counts.tickRows += rows;
        const statuses = byPath.get(path) ?? new Map<string, number>();
        byPath.set(path, incrementCount(statuses, status));
        const sentMs = monotonicMs();
        if (holdMs !== undefined && holds.length < holdsMax) {
          holds.push({ from: sentMs + crossingMs, until: sentMs + holdMs - timerSlackMs });
        }
      },
      noteClosed: leave,
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
