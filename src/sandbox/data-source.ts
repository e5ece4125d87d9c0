import type { TickColumns } from '../core/tick.ts';
import type { Window } from '../core/window.ts';

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
