import * as Plot from '@observablehq/plot';
import { parseHTML } from 'linkedom';
import { Html } from '../core/html.ts';

// Plots as SVG in the text of a page: no script and no file beside it. Colours are variables of the page's style, so that
// they follow light and dark. Every plot is drawn twice, as text in it would shrink with the width: the page shows one.

export interface PlotSize {
  readonly width: number;
  readonly height: number;
}

/** What a plot says to those who do not see it, and how it is drawn at a size. */
interface PlotDrawing {
  readonly label: string;
  options(size: PlotSize): Plot.PlotOptions;
}

/** The same drawing for wide and for narrow pages. */
export const renderPlot = (
  { label, options }: PlotDrawing,
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

export function renderSvg(options: Plot.PlotOptions): string {
  const { document } = parseHTML('<!doctype html><html><body></body></html>');
  const svg = Plot.plot({ ...plotDefaults, ...options, document }) as unknown as {
    setAttribute(name: string, value: string): void;
    outerHTML: string;
  };
  svg.setAttribute('role', 'img');
  return svg.outerHTML;
}

const plotDefaults: Plot.PlotOptions = {
  marginLeft: 56,
  marginRight: 16,
  marginBottom: 34,
  style: { fontSize: '12px', background: 'none', overflow: 'visible' },
};

/** How many marks an axis has room for. */
export const countAxisTicks = ({ width }: PlotSize): number => Math.max(3, Math.round(width / 110));

export const gridStyle = { stroke: 'var(--line)', strokeOpacity: 1, ticks: 5 } as const;

/** `20:00`, and below the first one and every midnight its day; or days alone. */
export function formatAxisTime(at: Date, i: number, all: readonly Date[] = [at]): string {
  const [, month, day, hours] = /^\d+-(\d+)-(\d+)T(\d+:\d+)/.exec(at.toISOString())!;
  const date = `${months[Number(month) - 1]} ${Number(day)}`;
  if (all.every((one) => one.getTime() % dayMs === 0))
    return i === 0 || month === '01' ? `${date}\n${at.getUTCFullYear()}` : date;
  return i === 0 || hours === '00:00' ? `${hours}\n${date}` : hours!;
}

const dayMs = 86_400_000;
const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
