import { emptyTicks, type TickColumns } from '../base/ticks.ts';
import type { Window } from '../base/window.ts';

/** A market record as the sandbox sends it. Times are epoch milliseconds. */
export interface SandboxMarket {
  readonly canonical_id: string;
  readonly confidence: number;
  readonly category: string;
  readonly is_active: boolean;
  /** A market of one venue has its symbol here, a matched market in `venues`. */
  readonly source?: string;
  readonly symbol?: string;
  readonly venues?: readonly { readonly source: string; readonly ticker: string }[];
  readonly question?: string;
  readonly opens_at?: number;
  readonly closes_at?: number;
  readonly resolved_at?: number;
  readonly outcome?: number;
  readonly snapshots?: number;
}

/**
 * The source of ticks and markets. A feed holds the final data and returns the same for the same arguments at any time;
 * lateness, revisions and page caps are applied afterwards.
 */
export interface Feed {
  /** Every symbol known at `nowMs`, resolved ones included. */
  symbols(nowMs: number): string[];
  /** The window outside which the symbol has no ticks; undefined if the symbol is unknown at `nowMs`. */
  getLifetime(symbol: string, nowMs: number): Window | undefined;
  /**
   * All ticks of a symbol in the window, strictly ascending by `t`. The symbol must be one that `getLifetime` or
   * `symbols` returned before. The arrays may be shared: do not write.
   */
  ticks(symbol: string, window: Window): TickColumns;
  /** The markets that a list contains at `nowMs`, in their state at that time. */
  markets(nowMs: number): SandboxMarket[];
}

/** Concatenates blocks in order; returns the arrays of a single block without a copy. */
export function concatTicks(blocks: readonly TickColumns[]): TickColumns {
  if (blocks.length === 0) return emptyTicks;
  if (blocks.length === 1) return blocks[0]!;
  const rows = blocks.reduce((sum, block) => sum + block.t.length, 0);
  const t = new Float64Array(rows);
  const p = new Float64Array(rows);
  let at = 0;
  for (const block of blocks) {
    t.set(block.t, at);
    p.set(block.p, at);
    at += block.t.length;
  }
  return { t, p };
}

/** Rows [first, end), without a copy. */
export function sliceTicks(ticks: TickColumns, first: number, end: number): TickColumns {
  if (first === 0 && end === ticks.t.length) return ticks;
  return { t: ticks.t.subarray(first, end), p: ticks.p.subarray(first, end) };
}
