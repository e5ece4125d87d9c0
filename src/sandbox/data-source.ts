import { emptyTicks, type TickColumns } from '../base/ticks.ts';
import type { Window } from '../base/window.ts';

/** A market record as the sandbox sends it. Times are epoch milliseconds. */
export interface SandboxMarket {
  readonly canonical_id: string;
  readonly confidence: number;
  readonly category: string;
  readonly is_active: boolean;
  /** A market of one venue names its symbol here, a matched one in `venues`. */
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
 * Where ticks and markets come from. A feed holds the final truth and answers alike whenever it is asked;
 * what is late, changed or cut is decided after it.
 */
export interface Feed {
  /** Every symbol known at that moment, resolved ones included. */
  symbols(nowMs: number): string[];
  /** The window outside which the symbol has no tick; undefined where nobody knows the symbol at that moment. */
  getLifetime(symbol: string, nowMs: number): Window | undefined;
  /** All ticks of a symbol that `life` or `symbols` has known, in the window, by strictly rising `t`. The arrays may be shared: do not write. */
  ticks(symbol: string, window: Window): TickColumns;
  /** The markets a list may name at that moment, in their state of that moment. */
  markets(nowMs: number): SandboxMarket[];
}

/** One after another; the same arrays where there is only one block. */
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

/** Rows from `first` up to, not including, `end`; no copy. */
export function sliceTicks(ticks: TickColumns, first: number, end: number): TickColumns {
  if (first === 0 && end === ticks.t.length) return ticks;
  return { t: ticks.t.subarray(first, end), p: ticks.p.subarray(first, end) };
}

/** The first row of the rising column with `t >= at`, looked for in [low, high). */
export function findRow(t: Float64Array, at: number, low = 0, high = t.length): number {
  let first = low;
  let end = high;
  while (first < end) {
    const middle = (first + end) >>> 1;
    if (t[middle]! < at) first = middle + 1;
    else end = middle;
  }
  return first;
}
