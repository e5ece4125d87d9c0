import { createElement } from './dom.ts';
import { formatInteger, formatPrice, formatTime } from './format.ts';
import { type Candle, formatAxisLabels, toCandleColumns, toStepLine } from './lines.ts';
import type { ChartData } from './load.ts';
import uPlot from './uplot.js';
import type { TimeRange, View } from './view.ts';

interface ChartContent {
  readonly data: uPlot.AlignedData;
  readonly series: uPlot.Series[];
  readonly bands?: uPlot.Band[];
  /** Describes the data at an index. */
  readonly describePoint: (index: number) => string;
  readonly paint?: (u: uPlot, colour: ChartColors) => void;
}

const computeHeightPx = (width: number): number => (width < 560 ? 260 : 340);

/** Renders a chart with the width of its container. Calls `zoom` with the selected range. Call `destroy` to remove it. */
export function createChart(loaded: ChartData, kind: View['chart'], label: string, zoom: (range: TimeRange) => void) {
  const canvas = createElement('div', { class: 'canvas', role: 'img', 'aria-label': label });
  const readout = createElement('output', { class: 'readout' });
  const defaults = 'Point at the chart to read values; select a range to zoom in.';
  readout.textContent = defaults;
  let plot: uPlot | null = null;

  const draw = (): void => {
    plot?.destroy();
    const colour = readColors();
    const content =
      loaded.kind === 'ticks' ? createTickContent(loaded, colour) : createCandleContent(loaded, kind, colour);
    const width = Math.max(240, canvas.clientWidth);
    plot = new uPlot(
      {
        width,
        height: computeHeightPx(width),
        ms: 1,
        legend: { show: false },
        padding: [10, 26, 0, 0],
        tzDate: (t) => uPlot.tzDate(new Date(t), 'Etc/UTC'),
        scales: { x: { time: true, range: [loaded.range.from, loaded.range.to] }, y: { range: computePriceRange } },
        series: [{}, ...content.series],
        ...(content.bands === undefined ? {} : { bands: content.bands }),
        axes: createAxes(colour),
        cursor: { y: false, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => null } },
        hooks: {
          drawClear: [(u) => paintGaps(u, loaded.gaps, colour.gap)],
          draw: [(u) => content.paint?.(u, colour)],
          setCursor: [
            ({ cursor, posToVal }) => {
              const gap = cursor.left == null || cursor.left < 0 ? undefined : gapAt(posToVal(cursor.left, 'x'));
              const description = gap ?? (cursor.idx == null ? '' : content.describePoint(cursor.idx));
              readout.textContent = description === '' ? defaults : description;
            },
          ],
          setSelect: [
            ({ select, posToVal, setSelect }) => {
              if (select.width < 4) return;
              const [from, to] = [select.left, select.left + select.width].map((x) => Math.round(posToVal(x, 'x')));
              setSelect({ ...select, width: 0 }, false);
              if (from! < to!) zoom({ from: from!, to: to! });
            },
          ],
        },
      },
      content.data,
      canvas,
    );
  };
  const gapAt = (t: number): string | undefined => {
    const gap = loaded.gaps.find(({ from, to }) => from <= t && t < to);
    return gap && `Gap: not covered from ${formatTime(gap.from)} to ${formatTime(gap.to)} UTC`;
  };

  const sized = new ResizeObserver(() => {
    const width = canvas.clientWidth;
    if (plot !== null && width > 0 && width !== plot.width) plot.setSize({ width, height: computeHeightPx(width) });
  });
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', draw);
  return {
    root: createElement('div', { class: 'chart' }, canvas, readout),
    /** Must be called after the element is added to the document, when it has a width. */
    start(): void {
      draw();
      sized.observe(canvas);
    },
    destroy(): void {
      sized.disconnect();
      scheme.removeEventListener('change', draw);
      plot?.destroy();
    },
  };
}

/** The price range of the axis, with a margin. It is not empty, even if all prices are equal. */
function computePriceRange(_u: uPlot, min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1];
  const room = (max - min) * 0.08 || Math.max(Math.abs(max) * 0.05, 0.01);
  return [min - room, max + room];
}

function createAxes(colour: ChartColors): uPlot.Axis[] {
  const defaults = {
    stroke: colour.text,
    font: '12px system-ui, sans-serif',
    grid: { stroke: colour.grid, width: 1 },
    ticks: { stroke: colour.grid, width: 1, size: 5 },
  };
  return [
    { ...defaults, space: 76, size: 44, values: (_u, splits, _axis, _space, step) => formatAxisLabels(splits, step) },
    { ...defaults, size: 58, values: (_u, splits) => splits.map(formatPrice) },
  ];
}

function createTickContent(loaded: ChartData & { kind: 'ticks' }, colour: ChartColors): ChartContent {
  const { x, y } = toStepLine(loaded.ticks, loaded.gaps, loaded.until);
  const alone = y.flatMap((p, i) => (p !== null && y[i - 1] == null && y[i + 1] == null ? [i] : []));
  return {
    data: [x, y],
    series: [
      {
        stroke: colour.price,
        width: 1.5,
        paths: uPlot.paths.stepped!({ align: 1 }),
        points: { show: alone.length > 0, size: 5, fill: colour.price, filter: () => alone },
      },
    ],
    describePoint: (i) => (y[i] == null ? '' : `${formatTime(Math.floor(x[i]!))} UTC · price ${formatPrice(y[i]!)}`),
  };
}

function createCandleContent(
  loaded: ChartData & { kind: 'candles' },
  kind: View['chart'],
  colour: ChartColors,
): ChartContent {
  const { x, rows, high, low, close } = toCandleColumns(loaded.candles, loaded.gaps, loaded.interval.ms);
  const describePoint = (i: number): string => {
    const candle = rows[i];
    if (candle == null) return '';
    const [open, top, bottom, end] = [candle.open, candle.high, candle.low, candle.close].map(formatPrice);
    const prices = `open ${open} · high ${top} · low ${bottom} · close ${end}`;
    return `${formatTime(candle.t)} UTC, ${loaded.interval.name} · ${prices} · ${formatInteger(candle.ticks)} ticks`;
  };
  const unseen: uPlot.Series = { paths: () => null, points: { show: false } };
  if (kind === 'candles') {
    return {
      data: [x, high, low],
      series: [unseen, unseen],
      describePoint: describePoint,
      paint: (u, now) => paintCandles(u, rows, loaded.interval.ms, now),
    };
  }
  const edge: uPlot.Series = { stroke: 'transparent', width: 0, points: { show: false } };
  return {
    data: [x, high, low, close],
    series: [
      edge,
      edge,
      { stroke: colour.price, width: 1.5, points: { show: x.length < 60, size: 4, fill: colour.price } },
    ],
    bands: [{ series: [1, 2], fill: colour.band }],
    describePoint: describePoint,
  };
}

/** The current colors of the style sheet, light or dark. */
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

/** Draws gaps as hatched bands behind the chart, each at least two pixels wide. */
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
  // The hatching is aligned to the chart, so that it is continuous across adjacent bands.
  for (let x = Math.floor((left - height) / step) * step; x < left + width; x += step) {
    ctx.moveTo(x, top + height);
    ctx.lineTo(x + height, top);
  }
  ctx.strokeStyle = colour;
  ctx.lineWidth = devicePixelRatio;
  ctx.stroke();
  ctx.restore();
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
