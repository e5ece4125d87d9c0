import { axisLabels } from './chart-axis.ts';
import { type Colours, colours, paintCandles, paintGaps } from './chart-paint.ts';
import { el } from './dom.ts';
import { grouped, priceText, timeText } from './format.ts';
import { candleColumns, stepsOf } from './lines.ts';
import type { Loaded } from './load.ts';
import uPlot from './uplot.js';
import type { Range, View } from './view.ts';

interface Drawn {
  readonly data: uPlot.AlignedData;
  readonly series: uPlot.Series[];
  readonly bands?: uPlot.Band[];
  /** What stands at a place, in words. */
  readonly tell: (index: number) => string;
  readonly paint?: (u: uPlot, colour: Colours) => void;
}

const heightPx = (width: number): number => (width < 560 ? 260 : 340);

/** A chart that fills its width; `zoom` is called with a range that was marked. Call `destroy` before dropping it. */
export function chart(loaded: Loaded, kind: View['chart'], label: string, zoom: (range: Range) => void) {
  const canvas = el('div', { class: 'canvas', role: 'img', 'aria-label': label });
  const readout = el('output', { class: 'readout' });
  const usual = 'Point at the chart to read it; mark a stretch to look closer.';
  readout.textContent = usual;
  let plot: uPlot | null = null;

  const draw = (): void => {
    plot?.destroy();
    const colour = colours();
    const drawn = loaded.kind === 'ticks' ? tickSeries(loaded, colour) : candleSeries(loaded, kind, colour);
    const width = Math.max(240, canvas.clientWidth);
    plot = new uPlot(
      {
        width,
        height: heightPx(width),
        ms: 1,
        legend: { show: false },
        padding: [10, 26, 0, 0],
        tzDate: (t) => uPlot.tzDate(new Date(t), 'Etc/UTC'),
        scales: { x: { time: true, range: [loaded.range.from, loaded.range.to] }, y: { range: priceRange } },
        series: [{}, ...drawn.series],
        ...(drawn.bands === undefined ? {} : { bands: drawn.bands }),
        axes: axes(colour),
        cursor: { y: false, drag: { x: true, y: false, setScale: false }, bind: { dblclick: () => null } },
        hooks: {
          drawClear: [(u) => paintGaps(u, loaded.gaps, colour.gap)],
          draw: [(u) => drawn.paint?.(u, colour)],
          setCursor: [
            ({ cursor, posToVal }) => {
              const gap = cursor.left == null || cursor.left < 0 ? undefined : gapAt(posToVal(cursor.left, 'x'));
              const told = gap ?? (cursor.idx == null ? '' : drawn.tell(cursor.idx));
              readout.textContent = told === '' ? usual : told;
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
      drawn.data,
      canvas,
    );
  };
  const gapAt = (t: number): string | undefined => {
    const gap = loaded.gaps.find(({ from, to }) => from <= t && t < to);
    return gap && `Gap: nothing is known from ${timeText(gap.from)} to ${timeText(gap.to)} UTC`;
  };

  const sized = new ResizeObserver(() => {
    const width = canvas.clientWidth;
    if (plot !== null && width > 0 && width !== plot.width) plot.setSize({ width, height: heightPx(width) });
  });
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', draw);
  return {
    root: el('div', { class: 'chart' }, canvas, readout),
    /** Once it stands in the page, and has a width. */
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

/** The prices with some room about them, also where there is only one. */
function priceRange(_u: uPlot, min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1];
  const room = (max - min) * 0.08 || Math.max(Math.abs(max) * 0.05, 0.01);
  return [min - room, max + room];
}

function axes(colour: Colours): uPlot.Axis[] {
  const usual = {
    stroke: colour.text,
    font: '12px system-ui, sans-serif',
    grid: { stroke: colour.grid, width: 1 },
    ticks: { stroke: colour.grid, width: 1, size: 5 },
  };
  return [
    { ...usual, space: 76, size: 44, values: (_u, splits, _axis, _space, step) => axisLabels(splits, step) },
    { ...usual, size: 58, values: (_u, splits) => splits.map(priceText) },
  ];
}

function tickSeries(loaded: Loaded & { kind: 'ticks' }, colour: Colours): Drawn {
  const { x, y } = stepsOf(loaded.ticks, loaded.gaps, loaded.until);
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
    tell: (i) => (y[i] == null ? '' : `${timeText(Math.floor(x[i]!))} UTC · price ${priceText(y[i]!)}`),
  };
}

function candleSeries(loaded: Loaded & { kind: 'candles' }, kind: View['chart'], colour: Colours): Drawn {
  const { x, rows, high, low, close } = candleColumns(loaded.candles, loaded.gaps, loaded.interval.ms);
  const tell = (i: number): string => {
    const candle = rows[i];
    if (candle == null) return '';
    const [open, top, bottom, end] = [candle.open, candle.high, candle.low, candle.close].map(priceText);
    const prices = `open ${open} · high ${top} · low ${bottom} · close ${end}`;
    return `${timeText(candle.t)} UTC, ${loaded.interval.name} · ${prices} · ${grouped(candle.ticks)} ticks`;
  };
  const unseen: uPlot.Series = { paths: () => null, points: { show: false } };
  if (kind === 'candles') {
    return {
      data: [x, high, low],
      series: [unseen, unseen],
      tell,
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
    tell,
  };
}
