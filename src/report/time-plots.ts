import * as Plot from '@observablehq/plot';
import { shortenText } from '../base/format-quantity.ts';
import type { Html } from '../base/html.ts';
import type { Window } from '../base/window.ts';
import { dayMs, hourMs, minuteMs } from '../base/window.ts';
import { countAxisTicks, formatAxisTime, gridStyle, numberMarginLeft, renderPlot } from './plots.ts';

// Plots over time. Times are epoch milliseconds, UTC.

const toDate = (t: number): Date => new Date(t);

interface DayBar {
  /** UTC midnight. */
  readonly day: number;
  readonly value: number;
  /** Hollow bars mark incomplete days. */
  readonly isHollow?: boolean;
}

interface DayBars {
  readonly label: string;
  readonly yLabel: string;
  readonly span: Window;
  readonly bars: readonly DayBar[];
  readonly colour?: string;
  /** Names of the rows of a coverage plot above, with which it shares the left edge. */
  readonly rowNames?: readonly string[];
}

export const renderDayBars = ({ label, yLabel, span, bars, colour = 'var(--accent)', rowNames = [] }: DayBars): Html =>
  renderPlot(
    label,
    (size) => {
      const barWidth = size.width / ((span.to - span.from) / dayMs);
      // Narrow bars touch: gaps of a part of a pixel would show as a pattern.
      const isNarrow = barWidth < 5;
      const inset = isNarrow ? 0 : Math.min(3, 0.06 * barWidth);
      const createBars = (subset: readonly DayBar[], look: Plot.RectYOptions) =>
        Plot.rectY(subset, {
          x1: ({ day }: DayBar) => toDate(day),
          x2: ({ day }: DayBar) => toDate(day + dayMs),
          y1: 0,
          y2: 'value',
          insetLeft: inset,
          insetRight: inset,
          ...(isNarrow && { shapeRendering: 'crispEdges' }),
          ...look,
        });
      return {
        marginLeft: computeRowMargin(rowNames, size),
        x: buildTimeAxis(size, span),
        y: buildNumberAxis(
          yLabel,
          bars.map(({ value }) => value),
        ),
        marks: [
          Plot.gridY({ ...gridStyle, ticks: 4 }),
          createBars(
            bars.filter(({ isHollow }) => isHollow !== true),
            { fill: colour, fillOpacity: 0.7 },
          ),
          createBars(
            bars.filter(({ isHollow }) => isHollow === true),
            { fill: colour, fillOpacity: 0.15, stroke: colour, strokeWidth: 1 },
          ),
          Plot.ruleY([0], { stroke: 'var(--edge)' }),
        ],
      };
    },
    [210, 190],
  );

interface PlotLine {
  readonly points: readonly { readonly t: number; readonly value: number }[];
  readonly colour: string;
  readonly look: 'line' | 'area' | 'dashed' | 'steps' | 'dots';
}

/** Lines and dots over time. */
export const renderLinesPlot = (label: string, yLabel: string, span: Window, lines: readonly PlotLine[]): Html =>
  renderPlot(
    label,
    (size) => ({
      x: buildTimeAxis(size, span),
      y: buildNumberAxis(
        yLabel,
        lines.flatMap(({ points }) => points.map(({ value }) => value)),
      ),
      marks: [
        Plot.gridY({ ...gridStyle, ticks: 4 }),
        Plot.ruleY([0], { stroke: 'var(--edge)' }),
        ...lines.flatMap((line) => toMarks(line)),
      ],
    }),
    [210, 190],
  );

function toMarks({ points, colour, look }: PlotLine): Plot.Markish[] {
  const position = { x: ({ t }: { t: number }) => toDate(t), y: 'value' } as const;
  const line = Plot.lineY(points, {
    ...position,
    stroke: colour,
    strokeWidth: 1.75,
    ...(look === 'dashed' && { strokeDasharray: '5 4' }),
    ...(look === 'steps' && { curve: 'step-after' as const, strokeDasharray: '5 4' }),
  });
  const dots = Plot.dot(points, { ...position, r: points.length > 80 ? 2 : 3, fill: colour });
  if (look === 'area') return [Plot.areaY(points, { ...position, fill: colour, fillOpacity: 0.25 }), line];
  if (look !== 'dots') return points.length > 1 ? [line] : [dots];
  return points.length > 1 ? [Plot.lineY(points, { ...position, stroke: colour, strokeOpacity: 0.35 }), dots] : [dots];
}

export interface HeatLine {
  readonly name: string;
  /** Covered share of each step, 0 to 1; null if no symbol was live. */
  readonly shares: readonly (number | null)[];
  /** Indexes of the steps with ticks in damaged files. */
  readonly damagedSteps: ReadonlySet<number>;
}

interface HeatLines {
  readonly lines: readonly HeatLine[];
  readonly stepMs: number;
}

/** Minimum shares of the colour levels, darkest last. Only full coverage has the darkest. */
export const heatLevels = [0, 0.000001, 0.5, 0.9, 1] as const;

/** Indexes of the level colours of the page style. */
export const heatColours = [0, 1, 2, 3, 5] as const;

export const findHeatLevel = (share: number): number => heatLevels.findLastIndex((minimum) => share >= minimum);

const isNarrowSize = ({ width }: { width: number }): boolean => width < 500;
/** The longest row name that is shown in full, in pixels. */
const getNameWidthMax = (size: { width: number }): number => (isNarrowSize(size) ? 84 : 160);

/** The left margin of a plot with such rows: at least that of a plot with numbers. */
const computeRowMargin = (names: readonly string[], size: { width: number }): number =>
  names.reduce(
    (max, name) => Math.max(max, 16 + estimateTextWidth(fitText(name, getNameWidthMax(size)))),
    numberMarginLeft,
  );

interface CoveragePlot {
  readonly label: string;
  /** Start of the first step and end of the last one. */
  readonly span: Window;
  /** The time axis. It contains `span`. */
  readonly axis: Window;
  readonly sizes: { readonly wide: HeatLines; readonly narrow: HeatLines };
}

/** Coverage by name over time; darker means more coverage. */
export const renderCoveragePlot = ({ label, span, axis, sizes }: CoveragePlot): Html => {
  const height = 46 + 26 * sizes.wide.lines.length;
  return renderPlot(
    label,
    (size) => {
      const { lines: shownLines, stepMs } = isNarrowSize(size) ? sizes.narrow : sizes.wide;
      const names = new Map(shownLines.map(({ name }, i) => [i, fitText(name, getNameWidthMax(size))]));
      const runs = shownLines.flatMap(({ shares, damagedSteps }, row) =>
        mergeHeatRuns(shares, row, span, stepMs, damagedSteps),
      );
      return {
        marginLeft: computeRowMargin(
          shownLines.map(({ name }) => name),
          size,
        ),
        x: buildTimeAxis(size, axis),
        y: {
          domain: shownLines.map((_, i) => i),
          label: null,
          tickSize: 0,
          type: 'band' as const,
          padding: 0.14,
          tickFormat: (i: number) => names.get(i)!,
        },
        marks: [
          Plot.barX(runs, {
            x1: ({ from }: HeatRun) => toDate(from),
            x2: ({ to }: HeatRun) => toDate(to),
            y: 'row',
            fill: {
              value: ({ level, isDamaged }: HeatRun) =>
                isDamaged ? 'var(--bad)' : `var(--level-${heatColours[level]})`,
              scale: null,
            },
          }),
        ],
      };
    },
    [height, height],
  );
};

/** Estimated width of a text in a plot, in pixels at a font size of 12. Errs on the wide side. */
export const estimateTextWidth = (text: string): number =>
  [...text].reduce((sum, letter) => sum + (/[a-z0-9 .,:;'|()-]/.test(letter) && !/[mw]/.test(letter) ? 7.6 : 12), 0);

/** Shortens a text to a width in pixels. */
export function fitText(text: string, widthMax: number): string {
  const letters = [...shortenText(text, Math.ceil(widthMax))];
  for (let count = letters.length; count > 1; count--) {
    const shown = shortenText(letters.join(''), count);
    if (estimateTextWidth(shown) <= widthMax) return shown;
  }
  return letters[0] ?? '';
}

interface HeatRun extends Window {
  readonly row: number;
  readonly level: number;
  /** Shown instead of the level. */
  readonly isDamaged: boolean;
}

const noSteps: ReadonlySet<number> = new Set();

/** Merges adjacent steps of the same level into one mark, which keeps the SVG small. */
export function mergeHeatRuns(
  shares: readonly (number | null)[],
  row: number,
  span: Window,
  stepMs: number,
  damagedSteps = noSteps,
): HeatRun[] {
  const out: (Omit<HeatRun, 'to'> & { to: number })[] = [];
  for (const [i, share] of shares.entries()) {
    if (share === null) continue;
    const from = span.from + i * stepMs;
    const isDamaged = damagedSteps.has(i);
    const level = isDamaged ? 0 : findHeatLevel(share);
    const last = out.at(-1);
    const to = Math.min(from + stepMs, span.to);
    if (last !== undefined && last.level === level && last.isDamaged === isDamaged && last.to === from) last.to = to;
    else out.push({ row, level, isDamaged, from, to });
  }
  return out;
}

/** The unit in which durations up to `maxMs` are drawn, and its length in ms. */
export const chooseTimeUnit = (maxMs: number): readonly [name: string, ms: number] =>
  maxMs > 96 * hourMs
    ? ['days', dayMs]
    : maxMs > 3 * hourMs
      ? ['hours', hourMs]
      : maxMs > 3 * minuteMs
        ? ['minutes', minuteMs]
        : ['seconds', 1000];

const buildTimeAxis = (size: { width: number; height: number }, { from, to }: Window): Plot.ScaleOptions => ({
  type: 'utc',
  domain: [toDate(from), toDate(to)],
  label: null,
  ticks: countAxisTicks(size),
  tickFormat: formatAxisTime,
});

/** An axis from the least to the greatest value, with 0; to 1 if all values are 0. */
const buildNumberAxis = (label: string, values: readonly number[]): Plot.ScaleOptions => {
  const [least, greatest] = values.reduce(([min, max], value) => [Math.min(min, value), Math.max(max, value)], [0, 0]);
  const domain = [least, least === greatest ? 1 : greatest];
  return { label, ticks: 4, nice: true, tickFormat: formatShortNumber, domain };
};

/** `1.5K`, `20M`: three significant digits. */
export const formatShortNumber = (value: number): string =>
  value.toLocaleString('en-US', { notation: 'compact', maximumSignificantDigits: 3 });
