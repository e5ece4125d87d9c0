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
import { createElement } from './dom.ts';
import { formatPrice } from './format.ts';
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

/** Renders a chart with the width of its container. Call `destroy` to remove it. */
export function createChart(loaded: ChartData, { kind, scale, label, bounds, zoom }: ChartOptions) {
  const canvas = createElement('div', { class: 'canvas', role: 'img', 'aria-label': label });
  const tip = createElement('div', { class: 'reading', hidden: true, 'aria-hidden': 'true' });
  const readPrices = createReadout(loaded);
  /** Also reads the trade at a time, if it is marked. */
  const readAt = (t: number): Readout => {
    const { title, rows } = readPrices(t);
    const reachMs = plot === null ? 0 : ((shown.to - shown.from) / Math.max(1, plot.over.clientWidth)) * tradeReachPx;
    const trade = findNearestTrade(trades.marks, tradeTimes, t, reachMs);
    const row = trade && { label: 'Trade', value: formatTradeMark(trade), symbol: null };
    return row === undefined ? { title, rows } : { title, rows: [...rows, row] };
  };
  const stops = listStops(loaded);
  const scrub = createElement('input', {
    type: 'range',
    class: 'scrub',
    min: 0,
    max: Math.max(0, stops.length - 1),
    value: Math.max(0, stops.length - 1),
    'aria-label': 'Read values: arrow keys move along the chart',
    disabled: stops.length === 0,
  });
  let shown = loaded.range;
  let marks: readonly ConflictMark[] = [];
  let trades = noTradeMarks;
  let tradeTimes: ArrayLike<number> = [];
  let plot: uPlot | null = null;
  /** The time under the keyboard; the position of the pointer is only as exact as a pixel. */
  let stopTime: number | null = null;
  let wheelTimer: ReturnType<typeof setTimeout> | undefined;

  const showReadout = (u: uPlot): void => {
    const { left } = u.cursor;
    tip.hidden = left == null || left < 0;
    if (tip.hidden) return;
    renderTip(tip, readAt(stopTime ?? u.posToVal(left!, 'x')));
    const plotLeft = u.over.offsetLeft;
    const isRight = left! > u.over.clientWidth / 2;
    tip.style.left = isRight ? '' : `${plotLeft + left! + 12}px`;
    tip.style.right = isRight ? `${canvas.clientWidth - plotLeft - left! + 12}px` : '';
  };
  const draw = (): void => {
    plot?.destroy();
    const colors = readColors();
    const width = Math.max(240, canvas.clientWidth);
    const content = createContent(loaded, kind, colors);
    plot = new uPlot(
      {
        width,
        height: computeHeightPx(width),
        ms: 1,
        legend: { show: false },
        padding: [coverageBandPx.height + coverageBandPx.gap + 5, 20, 0, 0],
        tzDate: (t) => uPlot.tzDate(new Date(t), 'Etc/UTC'),
        scales: {
          x: { time: true, range: () => [shown.from, shown.to] },
          y: {
            range: (_u, min, max) =>
              computePriceRange(min, max, scale, [
                ...marks.map(({ dropped }) => dropped),
                ...trades.marks.map(({ price }) => price),
              ]),
          },
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
        hooks: {
          drawClear: [(u) => paintGaps(u, loaded.symbols[0]!.gaps, colors.gap)],
          draw: [
            (u) => {
              content.paint(u);
              paintTrades(u, trades, colors);
              paintConflicts(u, marks, colors.conflict);
              paintCoverage(u, loaded.coverage ?? [], loaded.symbols[0]!.gaps, colors);
            },
          ],
          setCursor: [showReadout],
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
    plot.over.addEventListener('pointermove', () => (stopTime = null));
    plot.over.addEventListener('wheel', zoomByWheel, { passive: false });
  };
  /** Shows a range with the data at hand, until finer data is there. */
  const preview = (range: TimeRange): void => {
    shown = range;
    plot?.setScale('x', { min: range.from, max: range.to });
  };
  // A touchpad's pinch arrives as a wheel with Ctrl. Without it, the wheel scrolls the page.
  const zoomByWheel = (event: WheelEvent): void => {
    if (!(event.ctrlKey || event.metaKey) || plot === null) return;
    event.preventDefault();
    const at = plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, 'x');
    const factor = 1.0025 ** Math.max(-200, Math.min(200, event.deltaY));
    preview(scaleRange(shown, factor, bounds, at));
    clearTimeout(wheelTimer);
    wheelTimer = setTimeout(() => zoom(shown), wheelRestMs);
  };
  const moveToStop = (): void => {
    const t = stops[Number(scrub.value)];
    if (t === undefined || plot === null) return;
    stopTime = t;
    plot.setCursor({ left: plot.valToPos(t, 'x'), top: plot.over.clientHeight / 2 });
    scrub.setAttribute('aria-valuetext', formatReadout(readAt(t)));
  };
  scrub.addEventListener('input', moveToStop);
  scrub.addEventListener('focus', moveToStop);
  scrub.addEventListener('blur', () => {
    stopTime = null;
    plot?.setCursor({ left: -10, top: -10 });
  });

  const sized = new ResizeObserver(() => {
    const width = canvas.clientWidth;
    if (plot !== null && width > 0 && width !== plot.width) plot.setSize({ width, height: computeHeightPx(width) });
  });
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', draw);
  return {
    root: createElement('div', { class: 'chart' }, canvas, tip, scrub),
    /** Must be called after the element is added to the document, when it has a width. */
    start(): void {
      draw();
      sized.observe(canvas);
    },
    preview,
    /** Marks conflicts; the axis then includes them. */
    markConflicts(conflicts: readonly ConflictMark[]): void {
      marks = conflicts.filter(({ t }) => shown.from <= t && t < shown.to);
      plot?.setScale('x', { min: shown.from, max: shown.to });
    },
    /** Marks trades in place of those before; the axis then includes them. */
    markTrades(next: TradeMarks): void {
      if (next.count === 0 && trades.count === 0) return;
      trades = next;
      tradeTimes = Float64Array.from(next.marks, ({ t }) => t);
      plot?.setScale('x', { min: shown.from, max: shown.to });
    },
    destroy(): void {
      clearTimeout(wheelTimer);
      sized.disconnect();
      scheme.removeEventListener('change', draw);
      plot?.destroy();
    },
  };
}

function renderTip(tip: HTMLElement, { title, rows }: Readout): void {
  tip.replaceChildren(
    createElement('b', {}, title),
    ...rows.map(({ label, value, symbol }) =>
      createElement(
        'span',
        { class: symbol === null ? null : `of-${symbol}` },
        label === '' ? null : createElement('i', {}, label),
        value,
      ),
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
    { ...defaults, size: 58, values: (_u, splits) => splits.map(formatPrice) },
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
