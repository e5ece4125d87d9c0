import { formatPlainNumber } from '../../../base/format-quantity.ts';
import { computeTables, findLonePoints } from './chart-columns.ts';
import type { ChartData } from './chart-data.ts';
import {
  type ChartColors,
  type ConflictMark,
  coverageBandPx,
  paintCandles,
  paintConflicts,
  paintCoverage,
  paintGaps,
  paintTrades,
  readColors,
} from './chart-paint.ts';
import { html } from './dom.ts';
import { formatAxisLabels, scaleRange } from './lines.ts';
import { createReadout, formatReadout, listStops, type Readout } from './readout.ts';
import type { SymbolState } from './symbol-state.ts';
import { findNearestTrade, formatTradeMark, noTradeMarks, type TradeMarks, tradeReachPx } from './trade-marks.ts';
import uPlot from './uplot.js';
import type { TimeRange, View } from './view.ts';

interface ChartOptions {
  readonly kind: View['chart'];
  readonly scale: SymbolState['scale'];
  /** The description for screen readers. */
  readonly label: string;
  readonly bounds: TimeRange;
  /** Called with a selected range. */
  readonly zoom: (range: TimeRange) => void;
}

const computeHeightPx = (width: number): number => (width < 560 ? 270 : 350);
/** How long the wheel has to rest until finer data is loaded. */
const wheelRestMs = 250;

/** A chart with the width of its container. Call `destroy` to remove it. */
export class Chart {
  readonly root: HTMLElement;
  private readonly loaded: ChartData;
  private readonly options: ChartOptions;
  private readonly canvas: HTMLElement;
  private readonly tip = html`<div class="reading" hidden aria-hidden="true"></div>`;
  private readonly scrub: HTMLInputElement;
  private readonly stops: readonly number[];
  private readonly readPrices: (t: number) => Readout;
  private readonly living = new AbortController();
  private readonly sized = new ResizeObserver(() => this.resize());
  private shown: TimeRange;
  private marks: readonly ConflictMark[] = [];
  private trades = noTradeMarks;
  private tradeTimes: ArrayLike<number> = [];
  private plot: uPlot | null = null;
  /** The time under the keyboard; the position of the pointer is only as exact as a pixel. */
  private stopTime: number | null = null;
  private wheelTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(loaded: ChartData, options: ChartOptions) {
    this.loaded = loaded;
    this.options = options;
    this.shown = loaded.range;
    this.readPrices = createReadout(loaded);
    this.stops = listStops(loaded);
    this.canvas = html`<div class="canvas" role="img" aria-label=${options.label}></div>`;
    const last = Math.max(0, this.stops.length - 1);
    this.scrub = html<HTMLInputElement>`
      <input type="range" class="scrub" min="0" max=${last} value=${last}
        aria-label="Read values: arrow keys move along the chart" disabled=${this.stops.length === 0}>`;
    this.scrub.addEventListener('input', () => this.moveToStop());
    this.scrub.addEventListener('focus', () => this.moveToStop());
    this.scrub.addEventListener('blur', () => {
      this.stopTime = null;
      this.plot?.setCursor({ left: -10, top: -10 });
    });
    this.root = html`<div class="chart">${this.canvas}${this.tip}${this.scrub}</div>`;
    const { signal } = this.living;
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw(), { signal });
  }

  /** Must be called after the element is added to the document, when it has a width. */
  start(): void {
    this.draw();
    this.sized.observe(this.canvas);
  }

  /** Shows a range with the data at hand, until finer data is there. */
  preview(range: TimeRange): void {
    this.shown = range;
    this.plot?.setScale('x', { min: range.from, max: range.to });
  }

  /** Marks conflicts; the axis then includes them. */
  markConflicts(conflicts: readonly ConflictMark[]): void {
    this.marks = conflicts.filter(({ t }) => this.shown.from <= t && t < this.shown.to);
    this.preview(this.shown);
  }

  /** Marks trades in place of those before; the axis then includes them. */
  markTrades(trades: TradeMarks): void {
    if (trades.count === 0 && this.trades.count === 0) return;
    this.trades = trades;
    this.tradeTimes = Float64Array.from(trades.marks, ({ t }) => t);
    this.preview(this.shown);
  }

  destroy(): void {
    clearTimeout(this.wheelTimer);
    this.sized.disconnect();
    this.living.abort();
    this.plot?.destroy();
  }

  /** Also reads the trade at a time, if it is marked. */
  private readAt(t: number): Readout {
    const { plot, shown } = this;
    const { title, rows } = this.readPrices(t);
    const reachMs = plot === null ? 0 : ((shown.to - shown.from) / Math.max(1, plot.over.clientWidth)) * tradeReachPx;
    const trade = findNearestTrade(this.trades.marks, this.tradeTimes, t, reachMs);
    if (trade === undefined) return { title, rows };
    return { title, rows: [...rows, { label: 'Trade', value: formatTradeMark(trade), symbol: null }] };
  }

  private showReadout(u: uPlot): void {
    const { left } = u.cursor;
    const { style } = this.tip;
    this.tip.hidden = left == null || left < 0;
    if (this.tip.hidden) return;
    renderTip(this.tip, this.readAt(this.stopTime ?? u.posToVal(left!, 'x')));
    const plotLeft = u.over.offsetLeft;
    const isRight = left! > u.over.clientWidth / 2;
    style.left = isRight ? '' : `${plotLeft + left! + 12}px`;
    style.right = isRight ? `${this.canvas.clientWidth - plotLeft - left! + 12}px` : '';
  }

  private resize(): void {
    const width = this.canvas.clientWidth;
    if (this.plot !== null && width > 0 && width !== this.plot.width)
      this.plot.setSize({ width, height: computeHeightPx(width) });
  }

  private draw(): void {
    this.plot?.destroy();
    const colors = readColors();
    const width = Math.max(240, this.canvas.clientWidth);
    const content = createContent(this.loaded, this.options.kind, colors);
    const plot = new uPlot(
      {
        width,
        height: computeHeightPx(width),
        ms: 1,
        legend: { show: false },
        padding: [coverageBandPx.height + coverageBandPx.gap + 5, 20, 0, 0],
        tzDate: (t) => uPlot.tzDate(new Date(t), 'Etc/UTC'),
        scales: {
          x: { time: true, range: () => [this.shown.from, this.shown.to] },
          y: { range: (_u, min, max) => computePriceRange(min, max, this.options.scale, this.listMarkedPrices()) },
        },
        series: [{}, ...content.series],
        bands: content.bands,
        axes: createAxes(colors),
        cursor: {
          y: false,
          drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => null },
          points: { show: false },
        },
        hooks: this.createHooks(content, colors),
      },
      content.data,
      this.canvas,
    );
    plot.over.addEventListener('pointermove', () => (this.stopTime = null));
    plot.over.addEventListener('wheel', (event) => this.zoomByWheel(event), { passive: false });
    this.plot = plot;
  }

  private createHooks(content: ChartContent, colors: ChartColors): uPlot.Hooks.Arrays {
    const { symbols, coverage } = this.loaded;
    const { gaps } = symbols[0]!;
    return {
      drawClear: [(u) => paintGaps(u, gaps, colors.gap)],
      draw: [
        (u) => {
          content.paint(u);
          paintTrades(u, this.trades, colors);
          paintConflicts(u, this.marks, colors.conflict);
          paintCoverage(u, coverage ?? [], gaps, colors);
        },
      ],
      setCursor: [(u) => this.showReadout(u)],
      setSelect: [
        ({ select, posToVal, setSelect }) => {
          if (select.width < 4) return;
          const [from, to] = [select.left, select.left + select.width].map((x) => Math.round(posToVal(x, 'x')));
          setSelect({ ...select, width: 0 }, false);
          if (from! < to!) this.options.zoom({ from: from!, to: to! });
        },
      ],
    };
  }

  private listMarkedPrices(): number[] {
    return [...this.marks.map(({ dropped }) => dropped), ...this.trades.marks.map(({ price }) => price)];
  }

  /** A touchpad's pinch arrives as a wheel with Ctrl. Without it, the wheel scrolls the page. */
  private zoomByWheel(event: WheelEvent): void {
    const { plot, options } = this;
    if (!(event.ctrlKey || event.metaKey) || plot === null) return;
    event.preventDefault();
    const at = plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, 'x');
    const factor = 1.0025 ** Math.max(-200, Math.min(200, event.deltaY));
    this.preview(scaleRange(this.shown, factor, options.bounds, at));
    clearTimeout(this.wheelTimer);
    this.wheelTimer = setTimeout(() => options.zoom(this.shown), wheelRestMs);
  }

  private moveToStop(): void {
    const { plot, scrub } = this;
    const t = this.stops[Number(scrub.value)];
    if (t === undefined || plot === null) return;
    this.stopTime = t;
    plot.setCursor({ left: plot.valToPos(t, 'x'), top: plot.over.clientHeight / 2 });
    scrub.setAttribute('aria-valuetext', formatReadout(this.readAt(t)));
  }
}

function renderTip(tip: HTMLElement, { title, rows }: Readout): void {
  tip.replaceChildren(
    html`<b>${title}</b>`,
    ...rows.map(
      ({ label, value, symbol }) => html`
        <span class=${symbol === null ? null : `of-${symbol}`}>${label !== '' && html`<i>${label}</i>`}${value}</span>`,
    ),
  );
}

/** The price range of the axis, with a margin. It is not empty, even if all prices are equal. */
function computePriceRange(
  lowest: number | null,
  highest: number | null,
  scale: SymbolState['scale'],
  marked: readonly number[],
): [number, number] {
  if (lowest === null || highest === null) return [0, 1];
  const min = marked.reduce((least, p) => Math.min(least, p), lowest);
  const max = marked.reduce((most, p) => Math.max(most, p), highest);
  // Prices are between 0 and 1; others, which an import may have, must be visible too.
  if (scale === 'unit') return [Math.min(0, min), Math.max(1, max)];
  const room = (max - min) * 0.08 || Math.max(Math.abs(max) * 0.05, 0.01);
  return [min - room, max + room];
}

export function createAxes(colour: ChartColors): uPlot.Axis[] {
  const defaults = {
    stroke: colour.text,
    font: '12px system-ui, sans-serif',
    grid: { stroke: colour.grid, width: 1 },
    ticks: { stroke: colour.grid, width: 1, size: 5 },
  };
  return [
    { ...defaults, space: 76, size: 44, values: (_u, splits, _axis, _space, step) => formatAxisLabels(splits, step) },
    { ...defaults, size: 58, values: (_u, splits) => splits.map(formatPlainNumber) },
  ];
}

interface ChartContent {
  readonly data: uPlot.AlignedData;
  readonly series: uPlot.Series[];
  readonly bands: uPlot.Band[];
  readonly paint: (u: uPlot) => void;
}

function createContent(loaded: ChartData, kind: View['chart'], colors: ChartColors): ChartContent {
  const tables = computeTables(loaded, kind);
  const aligned = tables.map(({ x, columns }) => [x, ...columns.map(({ y }) => y)] as uPlot.AlignedData);
  // 2 expands a null to the times of the other symbol, so that a gap stays one; undefined values continue the line.
  const nullModes = aligned.map((table) => table.map((): uPlot.JoinNullMode => 2));
  const data = aligned.length === 1 ? aligned[0]! : uPlot.join(aligned, nullModes);
  const series: uPlot.Series[] = [];
  for (const [i, { columns }] of tables.entries()) {
    const stroke = i === 0 ? colors.price : colors.second;
    for (const { role } of columns) {
      if (role === 'unseen') series.push({ paths: () => null, points: { show: false } });
      else if (role === 'edge') series.push({ stroke: 'transparent', width: 0, points: { show: false } });
      else series.push(createLine(stroke, loaded.kind, data[series.length + 1]!));
    }
  }
  const hasBand = tables[0]!.columns[0]!.role === 'edge';
  return {
    data,
    series,
    bands: hasBand ? [{ series: [1, 2], fill: colors.band }] : [],
    paint: (u) => {
      if (loaded.kind === 'candles' && kind === 'candles') paintCandles(u, tables[0]!.rows, loaded.interval.ms, colors);
    },
  };
}

function createLine(stroke: string, kind: ChartData['kind'], y: ArrayLike<number | null | undefined>): uPlot.Series {
  const alone = kind === 'ticks' ? findLonePoints(Array.from(y)) : [];
  return {
    stroke,
    width: 1.5,
    ...(kind === 'ticks' && { paths: uPlot.paths.stepped!({ align: 1 }) }),
    points:
      kind === 'ticks'
        ? { show: alone.length > 0, size: 5, fill: stroke, filter: () => alone }
        : { show: y.length < 60, size: 4, fill: stroke },
  };
}
