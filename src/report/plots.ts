import * as Plot from '@observablehq/plot';
import { parseHTML } from 'linkedom';
import { Html } from '../base/html.ts';
import { dayMs } from '../base/window.ts';

interface CalibrationPoint {
  readonly price: number;
  readonly outcome: number;
  /** Area of the mark. */
  readonly weight: number;
  readonly title: string;
}

/** Calibration plot: marks on the diagonal are well calibrated. One size for all page widths. */
export const renderCalibrationPlot = (label: string, rows: readonly CalibrationPoint[]): Html =>
  new Html(
    renderSvg({
      width: 360,
      height: 350,
      marginLeft: 44,
      ariaLabel: label,
      x: { domain: [0, 1], label: 'price', ticks: 5, tickFormat: formatFraction },
      y: { domain: [0, 1], label: 'share of yes', ticks: 5, tickFormat: formatFraction },
      r: { range: [0, 14] },
      marks: [
        Plot.gridY(gridStyle),
        Plot.gridX(gridStyle),
        Plot.line(
          [
            [0, 0],
            [1, 1],
          ],
          { stroke: 'var(--edge)', strokeDasharray: '4 4' },
        ),
        Plot.lineY(rows, { x: 'price', y: 'outcome', stroke: 'var(--accent)', strokeOpacity: 0.5 }),
        Plot.dot(rows, {
          x: 'price',
          y: 'outcome',
          r: 'weight',
          title: 'title',
          fill: 'var(--accent)',
          fillOpacity: 0.55,
          stroke: 'var(--accent)',
        }),
      ],
    }),
  );

const formatFraction = (value: number): string => value.toFixed(1);

interface Bar {
  readonly name: string;
  readonly value: number | null;
  readonly other: number | null;
}

/** Named values as bars, with `other` as dots. */
export const renderBarPlot = (label: string, valueLabel: string, bars: readonly Bar[]): Html =>
  renderPlot(label, ({ width }) => ({
    height: 46 + 24 * bars.length,
    marginLeft: Math.min(width / 2.4, 24 + 7 * bars.reduce((max, { name }) => Math.max(max, name.length), 0)),
    x: { label: valueLabel, ticks: 4, nice: true },
    y: { domain: bars.map(({ name }) => name), label: null, tickSize: 0 },
    marks: [
      Plot.gridX(gridStyle),
      Plot.barX(
        bars.filter(({ value }) => value !== null),
        { x: 'value', y: 'name', fill: 'var(--accent)', fillOpacity: 0.6, insetTop: 3, insetBottom: 3 },
      ),
      Plot.dot(
        bars.filter(({ other }) => other !== null),
        { x: 'other', y: 'name', fill: 'var(--gap)', r: 4.5 },
      ),
      Plot.ruleX([0], { stroke: 'var(--edge)' }),
    ],
  }));

interface HeatCell {
  readonly x: string;
  readonly y: string;
  /** Strength of the colour, 0 to 1. */
  readonly strength: number | null;
  readonly text: string;
  readonly isBest: boolean;
}

/** Heat map; stronger colours are better. */
export const renderHeatPlot = (label: string, xLabel: string, yLabel: string, cells: readonly HeatCell[]): Html => {
  const listNames = (name: 'x' | 'y'): string[] => [...new Set(cells.map((cell) => cell[name]))];
  return renderPlot(label, ({ width }) => ({
    height: 64 + 34 * listNames('y').length,
    marginLeft: 24 + 8 * listNames('y').reduce((max, name) => Math.max(max, name.length), 0),
    x: { domain: listNames('x'), label: xLabel, tickSize: 0, padding: 0.02 },
    y: { domain: listNames('y'), label: yLabel, tickSize: 0, padding: 0.04 },
    marks: [
      Plot.cell(cells, {
        x: 'x',
        y: 'y',
        inset: 1,
        rx: 3,
        fill: 'var(--accent)',
        fillOpacity: { value: (cell: HeatCell) => 0.06 + 0.42 * (cell.strength ?? 0), scale: null },
        stroke: { value: (cell: HeatCell) => (cell.isBest ? 'var(--gap)' : 'none'), scale: null },
        strokeWidth: 2.5,
      }),
      // In narrow cells the values are omitted; the table has them.
      ...(width / listNames('x').length < 60
        ? []
        : [Plot.text(cells, { x: 'x', y: 'y', text: 'text', fill: 'var(--text)' })]),
    ],
  }));
};

// Plots are inline SVG, without scripts or other files. Colours are CSS variables of the page, for light and dark mode.
// Every plot except the calibration plot is drawn for wide and for narrow pages, because scaling would shrink its text;
// CSS shows one of them.

interface PlotSize {
  readonly width: number;
  readonly height: number;
}

/**
 * Renders a plot for wide and for narrow pages.
 * @param label its ARIA label
 * @param options its options for a size
 */
export const renderPlot = (
  label: string,
  options: (size: PlotSize) => Plot.PlotOptions,
  heights: readonly [wide: number, narrow: number] = [280, 240],
): Html =>
  new Html(
    (
      [
        ['wide', { width: 960, height: heights[0] }],
        ['narrow', { width: 360, height: heights[1] }],
      ] as const
    )
      .map(([name, size]) => `<div class="${name}">${renderSvg({ ...size, ...options(size), ariaLabel: label })}</div>`)
      .join(''),
  );

function renderSvg(options: Plot.PlotOptions): string {
  const { document } = parseHTML('<!doctype html><html><body></body></html>');
  const svg = Plot.plot({ ...plotDefaults, ...options, document }) as unknown as {
    setAttribute(name: string, value: string): void;
    querySelectorAll(selector: string): Iterable<{ removeAttribute(name: string): void }>;
    outerHTML: string;
  };
  svg.setAttribute('role', 'img');
  // The plot is one image with one label. ARIA forbids labels on parts without a role.
  for (const part of svg.querySelectorAll('g[aria-label]')) part.removeAttribute('aria-label');
  return svg.outerHTML;
}

/** Left margin of a plot with numbers on its left axis, in pixels. */
export const numberMarginLeft = 56;

const plotDefaults: Plot.PlotOptions = {
  marginLeft: numberMarginLeft,
  marginRight: 16,
  marginBottom: 34,
  style: { fontSize: '12px', background: 'none', overflow: 'visible' },
};

/** Number of ticks on a time axis. */
export const countAxisTicks = ({ width }: PlotSize): number => Math.max(3, Math.round(width / 110));

export const gridStyle = { stroke: 'var(--line)', strokeOpacity: 1, ticks: 5 } as const;

/** `20:00`, with the date below the first label and every midnight; dates only if all labels are midnights. */
export function formatAxisTime(at: Date, i: number, all: readonly Date[] = [at]): string {
  const [, month, day, hours] = /^\d+-(\d+)-(\d+)T(\d+:\d+)/.exec(at.toISOString())!;
  const date = `${months[Number(month) - 1]} ${Number(day)}`;
  if (all.every((one) => one.getTime() % dayMs === 0))
    return i === 0 || month === '01' ? `${date}\n${at.getUTCFullYear()}` : date;
  return i === 0 || hours === '00:00' ? `${hours}\n${date}` : hours!;
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
