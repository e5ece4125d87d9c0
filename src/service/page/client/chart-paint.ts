import type { Candle } from './lines.ts';
import type uPlot from './uplot.js';
import type { TimeRange } from './view.ts';

/** The colours of the page as its style sheet has them now, light or dark. */
export function readColors() {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string): string => style.getPropertyValue(name).trim();
  return {
    text: read('--muted'),
    grid: read('--line'),
    price: read('--accent'),
    band: read('--band'),
    gap: read('--gap'),
    up: read('--up'),
    down: read('--down'),
    paper: read('--paper'),
  };
}
export type ChartColors = ReturnType<typeof readColors>;

/** Gaps as hatched bands behind everything else, each at least two pixels wide. */
export function paintGaps(u: uPlot, gaps: readonly TimeRange[], colour: string): void {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const { from, to } of gaps) {
    const left = Math.max(bbox.left, u.valToPos(from, 'x', true));
    const right = Math.min(bbox.left + bbox.width, u.valToPos(to, 'x', true));
    const width = Math.max(2 * devicePixelRatio, right - left);
    ctx.globalAlpha = 0.28;
    ctx.fillStyle = colour;
    ctx.fillRect(left, bbox.top, width, bbox.height);
    ctx.globalAlpha = 0.75;
    paintHatching(ctx, left, bbox.top, width, bbox.height, colour);
  }
  ctx.restore();
}

function paintHatching(
  ctx: CanvasRenderingContext2D,
  left: number,
  top: number,
  width: number,
  height: number,
  colour: string,
) {
  const step = 9 * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, height);
  ctx.clip();
  ctx.beginPath();
  // On a lattice of the whole chart, so that neighbouring bands go on in one another.
  for (let x = Math.floor((left - height) / step) * step; x < left + width; x += step) {
    ctx.moveTo(x, top + height);
    ctx.lineTo(x + height, top);
  }
  ctx.strokeStyle = colour;
  ctx.lineWidth = devicePixelRatio;
  ctx.stroke();
  ctx.restore();
}

/** Candles: a wick from low to high, a body from open to close, hollow where the price rose and full where it fell. */
export function paintCandles(
  u: uPlot,
  rows: readonly (Candle | null)[],
  intervalMs: number,
  colour: ChartColors,
): void {
  const { ctx, bbox } = u;
  const line = Math.max(1, Math.round(devicePixelRatio));
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineWidth = line;
  for (const candle of rows) {
    if (candle === null) continue;
    const left = u.valToPos(candle.t, 'x', true);
    const full = u.valToPos(candle.t + intervalMs, 'x', true) - left;
    const width = Math.max(line, Math.min(Math.round(full * 0.7), 22 * devicePixelRatio));
    const middle = Math.round(left + full / 2);
    const [high, low] = [u.valToPos(candle.high, 'y', true), u.valToPos(candle.low, 'y', true)];
    const [open, close] = [u.valToPos(candle.open, 'y', true), u.valToPos(candle.close, 'y', true)];
    const [top, bottom] = [Math.min(open, close), Math.max(open, close)];
    const rose = candle.close >= candle.open;
    ctx.strokeStyle = ctx.fillStyle = rose ? colour.up : colour.down;
    ctx.fillRect(middle - line / 2, high, line, Math.max(line, low - high));
    const height = Math.max(line, bottom - top);
    if (rose && height > 3 * line && width > 3 * line) {
      ctx.fillStyle = colour.paper;
      ctx.fillRect(middle - width / 2, top, width, height);
      ctx.strokeRect(middle - width / 2 + line / 2, top + line / 2, width - line, height - line);
    } else ctx.fillRect(middle - width / 2, top, width, height);
  }
  ctx.restore();
}
