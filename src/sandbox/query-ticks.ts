import { drawAt, hashText } from '../base/random.ts';
import type { TickColumns } from '../base/ticks.ts';
import type { Window } from '../base/window.ts';
import { hourMs } from '../base/window.ts';
import { concatTicks, type Feed, sliceTicks } from './data-source.ts';
import type { SandboxOptions } from './options.ts';

/** What stands between the truth and what can be seen of it at a moment. */
export type TickDistortions = Pick<
  SandboxOptions,
  'seed' | 'lateShare' | 'lateDelayMsMax' | 'reviseShare' | 'reviseAfterMs' | 'thinShare' | 'thinAfterMs'
>;

/** The ticks of a symbol as they can be seen at `asOfMs`, which is no part of it: t + delay < asOf, or thinned out. */
export function computeVisibleTicks(
  ticks: TickColumns,
  symbol: string,
  asOfMs: number,
  amend: TickDistortions,
): TickColumns {
  const unsettledMs = Math.max(
    amend.lateShare > 0 ? amend.lateDelayMsMax : 0,
    amend.reviseShare > 0 ? amend.reviseAfterMs : 0,
  );
  const rowCount = ticks.t.length;
  const thinnedBefore = amend.thinShare > 0 ? asOfMs - amend.thinAfterMs : Number.NEGATIVE_INFINITY;
  const isSettled = rowCount === 0 || ticks.t[rowCount - 1]! + unsettledMs < asOfMs;
  if (isSettled && (rowCount === 0 || ticks.t[0]! >= thinnedBefore)) return ticks;
  const key = hashText(amend.seed, symbol);
  const t = new Float64Array(rowCount);
  const p = new Float64Array(rowCount);
  let kept = 0;
  for (let i = 0; i < rowCount; i++) {
    const at = ticks.t[i]!;
    if (at + computeDelayMs(key, at, amend) >= asOfMs) continue;
    if (at < thinnedBefore && drawAt(key ^ 0x7417, at) < amend.thinShare) continue;
    t[kept] = at;
    p[kept] =
      isRevised(key, at, amend) && asOfMs <= at + amend.reviseAfterMs
        ? computeFirstPrice(key, at, ticks.p[i]!)
        : ticks.p[i]!;
    kept++;
  }
  return sliceTicks({ t, p }, 0, kept);
}

function computeDelayMs(key: number, t: number, amend: TickDistortions): number {
  if (amend.lateShare === 0 || drawAt(key ^ 0x1a7e, t) >= amend.lateShare) return 0;
  return 1 + Math.floor(drawAt(key ^ 0x0de1a, t) * amend.lateDelayMsMax);
}

function isRevised(key: number, t: number, amend: TickDistortions): boolean {
  return amend.reviseShare > 0 && drawAt(key ^ 0x4e715e, t) < amend.reviseShare;
}

/** Another price of the same kind: one to three hundredths off, inside [0, 1]. */
function computeFirstPrice(key: number, t: number, p: number): number {
  const off = (1 + Math.floor(drawAt(key ^ 0x0ff, t) * 3)) / 100;
  return Math.round((p + off <= 1 ? p + off : p - off) * 10_000) / 10_000;
}

const spanMsMax = 64 * hourMs;

/**
 * The first (or last) `resultRowsMax` visible ticks of a window, and whether there are more. It looks no further
 * than that, in steps that grow while they bring little, so that a narrow page of a long life stays cheap.
 */
export function readVisibleTicks(
  feed: Feed,
  asked: { readonly symbol: string; readonly window: Window; readonly asOfMs: number },
  part: { readonly side: 'earliest' | 'latest'; readonly rowsMax: number },
  amend: TickDistortions,
): { readonly ticks: TickColumns; readonly truncated: boolean } {
  const life = feed.getLifetime(asked.symbol, asked.asOfMs) ?? { from: 0, to: 0 };
  let from = Math.max(asked.window.from, life.from);
  let to = Math.min(asked.window.to, life.to);
  const forward = part.side === 'earliest';
  const blocks: TickColumns[] = [];
  let found = 0;
  for (let spanMs = hourMs; from < to && found <= part.rowsMax; spanMs = Math.min(spanMs * 2, spanMsMax)) {
    const step = forward ? { from, to: Math.min(to, from + spanMs) } : { from: Math.max(from, to - spanMs), to };
    const block = computeVisibleTicks(feed.ticks(asked.symbol, step), asked.symbol, asked.asOfMs, amend);
    if (forward) from = step.to;
    else to = step.from;
    found += block.t.length;
    if (block.t.length > 0) blocks.push(block);
  }
  const ticks = concatTicks(forward ? blocks : blocks.reverse());
  if (found <= part.rowsMax) return { ticks, truncated: false };
  const kept = forward ? sliceTicks(ticks, 0, part.rowsMax) : sliceTicks(ticks, found - part.rowsMax, found);
  return { ticks: kept, truncated: true };
}
