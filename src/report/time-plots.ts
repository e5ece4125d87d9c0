import * as Plot from '@observablehq/plot';
import type { Html } from '../base/html.ts';
import type { Window } from '../base/window.ts';
import { dayMs } from '../base/window.ts';
import { countAxisTicks, formatAxisTime, gridStyle, renderPlot } from './plots.ts';
import { shortenText } from './time-spans.ts';

// Plots over time. Times are epoch milliseconds, UTC.

const toDate = (t: number): Date => new Date(t);

export interface DayBar {
  /** UTC midnight. */
  readonly day: number;
  readonly value: number;
  /** Drawn hollow: the day is not whole yet. */
  readonly isHollow?: boolean;
}

export interface DayBars {
  readonly label: string;
  readonly yLabel: string;
  readonly span: Window;
  readonly bars: readonly DayBar[];
  readonly colour?: string;
}

/** One bar a day. */
export const renderDayBars = ({ label, yLabel, span, bars, colour = 'var(--accent)' }: DayBars): Html =>
  renderPlot(
    {
      label,
      options: (size) => {
        const inset = Math.min(3, (0.06 * size.width) / ((span.to - span.from) / dayMs));
        const mark = (some: readonly DayBar[], look: Plot.RectYOptions) =>
          Plot.rectY(some, {
            x1: ({ day }: DayBar) => toDate(day),
            x2: ({ day }: DayBar) => toDate(day + dayMs),
            y1: 0,
            y2: 'value',
            insetLeft: inset,
            insetRight: inset,
            ...look,
          });
        return {
          x: buildTimeAxis(size, span),
          y: {
            label: yLabel,
            ticks: 4,
            nice: true,
            tickFormat: formatShortNumber,
            ...buildZeroDomain(bars.map(({ value }) => value)),
          },
          marks: [
            Plot.gridY({ ...gridStyle, ticks: 4 }),
            mark(
              bars.filter(({ isHollow }) => isHollow !== true),
              { fill: colour, fillOpacity: 0.7 },
            ),
            mark(
              bars.filter(({ isHollow }) => isHollow === true),
              { fill: colour, fillOpacity: 0.15, stroke: colour, strokeWidth: 1 },
            ),
            Plot.ruleY([0], { stroke: 'var(--edge)' }),
          ],
        };
      },
    },
    [210, 190],
  );

export interface PlotLine {
  readonly points: readonly { readonly t: number; readonly value: number }[];
  readonly colour: string;
  readonly look: 'line' | 'dashed' | 'steps' | 'dots';
}

/** Lines and dots over one span. */
export const renderLinesPlot = (label: string, yLabel: string, span: Window, lines: readonly PlotLine[]): Html =>
  renderPlot(
    {
      label,
      options: (size) => ({
        x: buildTimeAxis(size, span),
        y: {
          label: yLabel,
          ticks: 4,
          nice: true,
          tickFormat: formatShortNumber,
          ...buildZeroDomain(lines.flatMap(({ points }) => points.map(({ value }) => value))),
        },
        marks: [
          Plot.gridY({ ...gridStyle, ticks: 4 }),
          Plot.ruleY([0], { stroke: 'var(--edge)' }),
          ...lines.flatMap((line) => toMarks(line)),
        ],
      }),
    },
    [210, 190],
  );

function toMarks({ points, colour, look }: PlotLine): Plot.Markish[] {
  const place = { x: ({ t }: { t: number }) => toDate(t), y: 'value' } as const;
  const line = Plot.lineY(points, {
    ...place,
    stroke: colour,
    strokeWidth: 1.75,
    ...(look === 'dashed' && { strokeDasharray: '5 4' }),
    ...(look === 'steps' && { curve: 'step-after' as const, strokeDasharray: '5 4' }),
  });
  const dots = Plot.dot(points, { ...place, r: points.length > 80 ? 2 : 3, fill: colour });
  if (look !== 'dots') return points.length > 1 ? [line] : [dots];
  return points.length > 1 ? [Plot.lineY(points, { ...place, stroke: colour, strokeOpacity: 0.35 }), dots] : [dots];
}

export interface HeatLine {
  readonly name: string;
  /** Share, 0 to 1, of each step; null where nothing lived. */
  readonly shares: readonly (number | null)[];
}

export interface HeatLines {
  readonly lines: readonly HeatLine[];
  readonly stepMs: number;
}

/** Shares from which on a step is so dark, the darkest last; what lacks anything at all is never the darkest. */
export const heatLevels = [0, 0.000001, 0.5, 0.9, 1] as const;

/** Of the colours that every page has for shares. */
export const heatColours = [0, 1, 2, 3, 5] as const;

export const findHeatLevel = (share: number): number => heatLevels.findLastIndex((least) => share >= least);

/** Names over time, the darker the more is covered. */
export const renderCoveragePlot = (
  label: string,
  span: Window,
  by: { readonly wide: HeatLines; readonly narrow: HeatLines },
): Html => {
  const height = 46 + 26 * by.wide.lines.length;
  return renderPlot(
    {
      label,
      options: (size) => {
        const isNarrow = size.width < 500;
        const { lines: all, stepMs } = isNarrow ? by.narrow : by.wide;
        const lettersMax = isNarrow ? 11 : 20;
        const names = new Map(all.map(({ name }, i) => [i, shortenText(name, lettersMax)]));
        const widest = [...names.values()].reduce((most, name) => Math.max(most, name.length), 0);
        const runs = all.flatMap(({ shares }, row) => mergeHeatRuns(shares, row, span, stepMs));
        return {
          marginLeft: 16 + 7.6 * widest,
          x: buildTimeAxis(size, span),
          y: {
            domain: all.map((_, i) => i),
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
              fill: { value: ({ level }: HeatRun) => `var(--level-${heatColours[level]})`, scale: null },
            }),
          ],
        };
      },
    },
    [height, height],
  );
};

interface HeatRun extends Window {
  readonly row: number;
  readonly level: number;
}

/** Steps side by side that look alike are one mark: a whole fortnight is mostly a single one. */
export function mergeHeatRuns(
  shares: readonly (number | null)[],
  row: number,
  span: Window,
  stepMs: number,
): HeatRun[] {
  const out: { row: number; level: number; from: number; to: number }[] = [];
  for (const [i, share] of shares.entries()) {
    if (share === null) continue;
    const [from, level] = [span.from + i * stepMs, findHeatLevel(share)];
    const last = out.at(-1);
    const to = Math.min(from + stepMs, span.to);
    if (last !== undefined && last.level === level && last.to === from) last.to = to;
    else out.push({ row, level, from, to });
  }
  return out;
}

const buildTimeAxis = (size: { width: number; height: number }, { from, to }: Window): Plot.ScaleOptions => ({
  type: 'utc',
  domain: [toDate(from), toDate(to)],
  label: null,
  ticks: countAxisTicks(size),
  tickFormat: formatAxisTime,
});

/** An axis that starts at nothing, and has a length where there is nothing else. */
const buildZeroDomain = (values: readonly number[]): { domain?: [number, number] } =>
  values.some((value) => value > 0) ? { domain: [0, values.reduce((a, b) => Math.max(a, b), 0)] } : { domain: [0, 1] };

/** `1.5k`, `20M`; whole where they can be. */
export function formatShortNumber(value: number): string {
  const abs = Math.abs(value);
  for (const [size, letter] of [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ] as const)
    if (abs >= size) return `${Number((value / size).toPrecision(3))}${letter}`;
  return String(Number(value.toPrecision(3)));
}
