import { createAxes } from './chart.ts';
import { readColors } from './chart-paint.ts';
import { html } from './dom.ts';
import { formatTime } from './format.ts';
import uPlot from './uplot.js';

/** A line of a small chart. */
interface SmallLine {
  readonly label: string;
  readonly color: 'up' | 'down' | 'price';
  readonly y: readonly (number | null)[];
  readonly isFilled?: boolean;
  /** `after`: a value is valid until the next one. `before`: since the previous one. Default: after. */
  readonly step?: 'after' | 'before';
}

interface SmallChartOptions {
  readonly title: string;
  /** The description for screen readers. */
  readonly label: string;
  /** Ascending. */
  readonly x: readonly number[];
  readonly lines: readonly SmallLine[];
  /** Times are epoch milliseconds; prices are numbers. */
  readonly xIs: 'time' | 'price';
  readonly range: { readonly from: number; readonly to: number };
  readonly formatY: (value: number) => string;
  readonly formatX?: (value: number) => string;
}

const heightPx = 170;

/** Renders a small chart with its values at the pointer. It is removed when the signal is aborted. */
export function renderSmallChart(options: SmallChartOptions, signal: AbortSignal): HTMLElement {
  const { title, label, x, lines, xIs, range, formatY, formatX = formatTime } = options;
  const canvas = html`<div class="canvas small" role="img" aria-label=${label}></div>`;
  const values = html`<span class="note" aria-hidden="true"></span>`;
  let plot: uPlot | null = null;
  const describe = (i: number): string => {
    const shown = lines.map(({ label: name, y }) => `${name} ${y[i] == null ? '–' : formatY(y[i]!)}`);
    return [formatX(x[i]!), ...shown].join(' · ');
  };
  const draw = (): void => {
    plot?.destroy();
    const colors = readColors();
    const [horizontal, vertical] = createAxes(colors) as [uPlot.Axis, uPlot.Axis];
    plot = new uPlot(
      {
        width: Math.max(200, canvas.clientWidth),
        height: heightPx,
        ms: 1,
        legend: { show: false },
        padding: [8, 20, 0, 0],
        tzDate: (t) => uPlot.tzDate(new Date(t), 'Etc/UTC'),
        scales: {
          x: { time: xIs === 'time', range: [range.from, range.to] },
          y: { range: (_u, min, max) => [Math.min(0, min ?? 0), (max ?? 1) * 1.08 || 1] },
        },
        series: [
          {},
          ...lines.map(({ color, isFilled, step }) => ({
            stroke: colors[color],
            width: 1.5,
            points: { show: false },
            paths: uPlot.paths.stepped!({ align: step === 'before' ? -1 : 1 }),
            ...(isFilled === true && { fill: `color-mix(in srgb, ${colors[color]} 18%, transparent)` }),
          })),
        ],
        axes: [
          xIs === 'time' ? horizontal : { ...horizontal, size: 30, values: (_u, splits) => splits.map(formatX) },
          { ...vertical, values: (_u, splits) => splits.map(formatY) },
        ],
        cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
        hooks: { setCursor: [({ cursor }) => (values.textContent = cursor.idx == null ? '' : describe(cursor.idx))] },
      },
      [[...x], ...lines.map(({ y }) => [...y])] as uPlot.AlignedData,
      canvas,
    );
  };
  const sized = new ResizeObserver(() => {
    const width = canvas.clientWidth;
    if (width === 0) return;
    if (plot === null) draw();
    else if (width !== plot.width) plot.setSize({ width, height: heightPx });
  });
  sized.observe(canvas);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw, { signal });
  signal.addEventListener('abort', () => {
    sized.disconnect();
    plot?.destroy();
  });
  const legend = lines.map(
    ({ label: name, color }) => html`<span class="nowrap"><i class=${`key-line key-${color}`}></i>${name}</span>`,
  );
  return html`
    <div class="small-chart">
      <h5 aria-level="3">${title} <span class="keys note">${legend}</span></h5>
      ${canvas}
      <p class="values">${values}</p>
    </div>`;
}
