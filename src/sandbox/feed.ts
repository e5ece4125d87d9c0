import { drawAt, hashText } from '../base/random.ts';
import { emptyTicks, type TickColumns } from '../base/ticks.ts';
import { hourMs, intersectTwo, type Window } from '../base/window.ts';
import type { SandboxOptions } from './sandbox-options.ts';

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
 * The source of ticks and markets. A feed has the final data, and always returns the same result for the same
 * arguments; lateness, revisions and page caps are applied afterwards.
 */
export interface Feed {
  /** Every symbol known at `nowMs`, including resolved symbols. */
  symbols(nowMs: number): string[];
  /** The window outside which the symbol has no ticks; undefined if the symbol is unknown at `nowMs`. */
  getLifetime(symbol: string, nowMs: number): Window | undefined;
  /**
   * All ticks of a symbol in the window, strictly ascending by `t`. The symbol must be one that `getLifetime` or
   * `symbols` returned before. The arrays may be shared and must not be modified.
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

/** Applies lateness, revisions and thinning to the final data of a feed. */
type TickDistortions = Pick<
  SandboxOptions,
  'seed' | 'lateShare' | 'lateDelayMsMax' | 'reviseShare' | 'reviseAfterMs' | 'thinShare' | 'thinAfterMs'
>;

/** The ticks of a symbol that are visible at `asOfMs`, exclusive: t + delay < asOf, and not thinned out. */
export function computeVisibleTicks(
  ticks: TickColumns,
  symbol: string,
  asOfMs: number,
  distortions: TickDistortions,
): TickColumns {
  const unsettledMs = Math.max(
    distortions.lateShare > 0 ? distortions.lateDelayMsMax : 0,
    distortions.reviseShare > 0 ? distortions.reviseAfterMs : 0,
  );
  const rowCount = ticks.t.length;
  const thinnedBefore = distortions.thinShare > 0 ? asOfMs - distortions.thinAfterMs : Number.NEGATIVE_INFINITY;
  const isSettled = rowCount === 0 || ticks.t[rowCount - 1]! + unsettledMs < asOfMs;
  if (isSettled && (rowCount === 0 || ticks.t[0]! >= thinnedBefore)) return ticks;
  const key = hashText(distortions.seed, symbol);
  const t = new Float64Array(rowCount);
  const p = new Float64Array(rowCount);
  let count = 0;
  for (let i = 0; i < rowCount; i++) {
    const at = ticks.t[i]!;
    if (at + computeDelayMs(key, at, distortions) >= asOfMs) continue;
    if (at < thinnedBefore && drawAt(key ^ 0x7417, at) < distortions.thinShare) continue;
    t[count] = at;
    p[count] =
      isRevised(key, at, distortions) && asOfMs <= at + distortions.reviseAfterMs
        ? computeFirstPrice(key, at, ticks.p[i]!)
        : ticks.p[i]!;
    count++;
  }
  return sliceTicks({ t, p }, 0, count);
}

function computeDelayMs(key: number, t: number, distortions: TickDistortions): number {
  if (distortions.lateShare === 0 || drawAt(key ^ 0x1a7e, t) >= distortions.lateShare) return 0;
  return 1 + Math.floor(drawAt(key ^ 0x0de1a, t) * distortions.lateDelayMsMax);
}

function isRevised(key: number, t: number, distortions: TickDistortions): boolean {
  return distortions.reviseShare > 0 && drawAt(key ^ 0x4e715e, t) < distortions.reviseShare;
}

/** A different valid price: 0.01 to 0.03 off, inside [0, 1]. */
function computeFirstPrice(key: number, t: number, p: number): number {
  const off = (1 + Math.floor(drawAt(key ^ 0x0ff, t) * 3)) / 100;
  return Math.round((p + off <= 1 ? p + off : p - off) * 10_000) / 10_000;
}

const stepMsMax = 64 * hourMs;

/**
 * The first (or last) `resultRowsMax` visible ticks of a window, and whether there are more. Reads no further than
 * needed, in steps that grow while they yield few ticks, so that a narrow page of a long lifetime stays cheap.
 */
export function readVisibleTicks(
  feed: Feed,
  query: { readonly symbol: string; readonly window: Window; readonly asOfMs: number },
  part: { readonly side: 'earliest' | 'latest'; readonly rowsMax: number },
  distortions: TickDistortions,
): { readonly ticks: TickColumns; readonly truncated: boolean } {
  const lifetime = feed.getLifetime(query.symbol, query.asOfMs) ?? { from: 0, to: 0 };
  let { from, to } = intersectTwo(query.window, lifetime);
  const forward = part.side === 'earliest';
  const blocks: TickColumns[] = [];
  let visibleCount = 0;
  for (let spanMs = hourMs; from < to && visibleCount <= part.rowsMax; spanMs = Math.min(spanMs * 2, stepMsMax)) {
    const step = forward ? { from, to: Math.min(to, from + spanMs) } : { from: Math.max(from, to - spanMs), to };
    const block = computeVisibleTicks(feed.ticks(query.symbol, step), query.symbol, query.asOfMs, distortions);
    if (forward) from = step.to;
    else to = step.from;
    visibleCount += block.t.length;
    if (block.t.length > 0) blocks.push(block);
  }
  const ticks = concatTicks(forward ? blocks : blocks.reverse());
  if (visibleCount <= part.rowsMax) return { ticks, truncated: false };
  const kept = forward
    ? sliceTicks(ticks, 0, part.rowsMax)
    : sliceTicks(ticks, visibleCount - part.rowsMax, visibleCount);
  return { ticks: kept, truncated: true };
}
