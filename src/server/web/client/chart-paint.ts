import type { CoveredWindow } from './covered-windows.ts';
import type { Candle } from './lines.ts';
import type { TradeMarks } from './trade-marks.ts';
import type uPlot from './uplot.js';
import type { TimeRange } from './view.ts';

/** The current colors of the style sheet, light or dark. */
export function readColors() {
  const style = getComputedStyle(document.documentElement);
  const read = (name: string): string => style.getPropertyValue(name).trim();
  return {
    text: read('--muted'),
    grid: read('--line'),
    price: read('--accent'),
    second: read('--second'),
    band: read('--band'),
    gap: read('--gap'),
    up: read('--up'),
    down: read('--down'),
    conflict: read('--bad'),
    buy: read('--good'),
    sell: read('--down'),
    paper: read('--paper'),
  };
}
export type ChartColors = ReturnType<typeof readColors>;

/** Calls `paint` with drawing restricted to a box; restores the state of the canvas. */
function paintWithin(ctx: CanvasRenderingContext2D, box: uPlot.BBox, paint: () => void): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(box.left, box.top, box.width, box.height);
  ctx.clip();
  paint();
  ctx.restore();
}

/** The horizontal extent of a window in pixels of the canvas, at least `widthMin` wide. */
function toExtent(u: uPlot, { from, to }: TimeRange, widthMin: number): { left: number; width: number } {
  const { bbox } = u;
  const left = Math.max(bbox.left, u.valToPos(from, 'x', true));
  const right = Math.min(bbox.left + bbox.width, u.valToPos(to, 'x', true));
  return { left, width: Math.max(widthMin, right - left) };
}

/** Draws gaps as hatched bands behind the chart, each at least two pixels wide. */
export function paintGaps(u: uPlot, gaps: readonly TimeRange[], colour: string): void {
  const { ctx, bbox } = u;
  paintWithin(ctx, bbox, () => {
    for (const gap of gaps) {
      const { left, width } = toExtent(u, gap, 2 * devicePixelRatio);
      ctx.globalAlpha = 0.16;
      ctx.fillStyle = colour;
      ctx.fillRect(left, bbox.top, width, bbox.height);
      ctx.globalAlpha = 0.6;
      paintHatching(ctx, { left, top: bbox.top, width, height: bbox.height }, 9, colour);
    }
  });
}

function paintHatching(ctx: CanvasRenderingContext2D, box: uPlot.BBox, stepPx: number, colour: string): void {
  const { left, top, width, height } = box;
  const step = stepPx * devicePixelRatio;
  paintWithin(ctx, box, () => {
    ctx.beginPath();
    // The hatching is aligned to the chart, so that it is continuous across adjacent bands.
    for (let x = Math.floor((left - height) / step) * step; x < left + width; x += step) {
      ctx.moveTo(x, top + height);
      ctx.lineTo(x + height, top);
    }
    ctx.strokeStyle = colour;
    ctx.lineWidth = devicePixelRatio;
    ctx.stroke();
  });
}

/** Height of the coverage band and its distance from the plot, in CSS pixels. */
export const coverageBandPx = { height: 6, gap: 5 };

/** Draws a band above the plot: full for proven coverage, hatched for inferred coverage, amber where there is a gap. */
export function paintCoverage(
  u: uPlot,
  windows: readonly CoveredWindow[],
  gaps: readonly TimeRange[],
  colors: ChartColors,
): void {
  const { ctx, bbox } = u;
  const height = coverageBandPx.height * devicePixelRatio;
  const top = bbox.top - height - coverageBandPx.gap * devicePixelRatio;
  const whole = { left: bbox.left, top, width: bbox.width, height };
  paintWithin(ctx, whole, () => {
    ctx.fillStyle = colors.grid;
    ctx.fillRect(whole.left, top, whole.width, height);
    for (const window of windows) {
      const { left, width } = toExtent(u, window, 1);
      if (window.evidence === 'inferred') {
        ctx.clearRect(left, top, width, height);
        paintHatching(ctx, { left, top, width, height }, 4, colors.price);
      } else {
        ctx.globalAlpha = window.evidence === 'declared' ? 0.45 : 0.85;
        ctx.fillStyle = colors.price;
        ctx.fillRect(left, top, width, height);
        ctx.globalAlpha = 1;
      }
    }
    ctx.fillStyle = colors.gap;
    for (const gap of gaps) {
      const { left, width } = toExtent(u, gap, 2 * devicePixelRatio);
      ctx.fillRect(left, top, width, height);
    }
  });
}

/** Draws candles: a wick from low to high, and a body from open to close. The body is hollow if the price rose. */
export function paintCandles(
  u: uPlot,
  rows: readonly (Candle | null)[],
  intervalMs: number,
  colour: ChartColors,
): void {
  const { ctx, bbox } = u;
  const line = Math.max(1, Math.round(devicePixelRatio));
  paintWithin(ctx, bbox, () => {
    ctx.lineWidth = line;
    for (const candle of rows) {
      if (candle === null) continue;
      const left = u.valToPos(candle.t, 'x', true);
      const full = u.valToPos(candle.t + intervalMs, 'x', true) - left;
      if (left + full < bbox.left || left > bbox.left + bbox.width) continue;
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
  });
}

/** A price that was dropped at a time, and the one that was kept. */
export interface ConflictMark {
  readonly t: number;
  readonly kept: number;
  readonly dropped: number;
}

/** Draws a cross at each dropped price, with a line to the kept price. */
export function paintConflicts(u: uPlot, marks: readonly ConflictMark[], colour: string): void {
  const { ctx, bbox } = u;
  const arm = 3.5 * devicePixelRatio;
  paintWithin(ctx, bbox, () => {
    ctx.strokeStyle = colour;
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.beginPath();
    for (const { t, kept, dropped } of marks) {
      const [x, y] = [u.valToPos(t, 'x', true), u.valToPos(dropped, 'y', true)];
      ctx.moveTo(x - arm, y - arm);
      ctx.lineTo(x + arm, y + arm);
      ctx.moveTo(x + arm, y - arm);
      ctx.lineTo(x - arm, y + arm);
      ctx.moveTo(x, y);
      ctx.lineTo(x, u.valToPos(kept, 'y', true));
    }
    ctx.stroke();
  });
}

/** Radius of the largest mark and of the smallest one, in CSS pixels. */
const radiusMax = 11;
const radiusMin = 2.5;

/** Draws trades: a triangle upwards for a buy, downwards for a sell, a circle if it is not known. Their areas are the sizes. */
export function paintTrades(u: uPlot, { marks }: TradeMarks, colors: ChartColors): void {
  const { ctx, bbox } = u;
  const sizeMax = marks.reduce((max, { size }) => Math.max(max, size), 0);
  paintWithin(ctx, bbox, () => {
    ctx.lineWidth = devicePixelRatio;
    // The largest first, so that it hides no smaller one.
    for (const { t, price, size, aggressor } of [...marks].sort((a, b) => b.size - a.size)) {
      const radius = Math.max(radiusMin, radiusMax * Math.sqrt(sizeMax > 0 ? size / sizeMax : 0)) * devicePixelRatio;
      const [x, y] = [u.valToPos(t, 'x', true), u.valToPos(price, 'y', true)];
      ctx.beginPath();
      if (aggressor === 'buy' || aggressor === 'sell') {
        const tip = aggressor === 'buy' ? -radius : radius;
        ctx.moveTo(x, y + tip);
        ctx.lineTo(x + radius, y - tip * 0.8);
        ctx.lineTo(x - radius, y - tip * 0.8);
        ctx.closePath();
      } else ctx.arc(x, y, radius, 0, 2 * Math.PI);
      ctx.strokeStyle = ctx.fillStyle =
        aggressor === 'buy' ? colors.buy : aggressor === 'sell' ? colors.sell : colors.text;
      ctx.globalAlpha = 0.25;
      ctx.fill();
      ctx.globalAlpha = 1;
      ctx.stroke();
    }
  });
}
