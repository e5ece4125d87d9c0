import { formatThousands } from '../core/format-thousands.ts';
import { type Html, html } from '../core/html.ts';
import { formatIsoUtc } from '../core/time.ts';
import type { ObjectiveName } from '../research/objectives.ts';
import type { BacktestResult, GridResult } from '../research/result.ts';
import { createObjectiveFormat, formatParameter, formatParameters } from './backtest-figures.ts';
import { type GridPoint, sortBestFirst } from './grid-order.ts';
import { type HtmlColumn, renderFigure, renderLongTable, renderSection } from './page-parts.ts';
import { renderBarPlot, renderHeatPlot } from './plots.ts';

const pointsShownMax = 30;
const barsMax = 30;

/** What a grid was tried with and what came of it; nothing where there was none. */
export function renderGridSection({ asked, grid }: BacktestResult): Html[] {
  if (grid === null) return [];
  const { objective } = asked;
  const names = Object.keys(asked.grid);
  const points = sortBestFirst(grid, objective);
  const best = grid.best === null ? undefined : grid.points[grid.best];
  const told = createPointFormat(grid, objective);
  const columns: HtmlColumn<GridPoint>[] = [
    ...names.map((name) => ({ name, format: ({ parameters }: GridPoint) => formatParameter(name, parameters[name]!) })),
    { name: `${objective}, chosen by`, format: ({ value }) => told(value) },
    { name: 'Trades', format: ({ trades }) => formatThousands(trades) },
    { name: 'Held out', format: ({ held_out_value }) => told(held_out_value) },
    { name: 'Trades there', format: ({ held_out_trades }) => formatThousands(held_out_trades) },
  ];
  const chosen =
    best === undefined
      ? 'No point has a value before it, so the first was taken'
      : `The best before it is ${formatParameters(best.parameters)}`;
  const rest = `${formatThousands(points.length - pointsShownMax)} more`;
  return [
    renderSection(
      'Grid',
      [
        html`<p class="note">${formatThousands(points.length)} points, held out from ${formatIsoUtc(grid.split_at)} on. ${chosen}. A point
that is best by chance only is not so on what was held out.</p>\n`,
        renderGridPlot(grid, points, names, objective),
        ...renderLongTable('Grid', columns, points, { shown: pointsShownMax, rest, isBest: (point) => point === best }),
      ],
      true,
    ),
  ];
}

const createPointFormat = ({ points }: GridResult, objective: ObjectiveName) =>
  createObjectiveFormat(
    objective,
    points.flatMap(({ value, held_out_value }) => [value, held_out_value]),
  );

/** Of two parameters every combination in a field; of one, or of more, the best points as bars. */
function renderGridPlot(
  grid: GridResult,
  points: readonly GridPoint[],
  names: readonly string[],
  objective: ObjectiveName,
): Html {
  const [first, second] = names as [string, string];
  const varied = (name: string): number => new Set(points.map(({ parameters }) => parameters[name])).size;
  if (names.length === 2 && varied(first) > 1 && varied(second) > 1 && varied(second) <= 12) {
    const values = points.flatMap(({ value }) => (value === null ? [] : [value]));
    const rank = (value: number): number => values.indexOf(value) / Math.max(1, values.length - 1);
    const told = createPointFormat(grid, objective);
    const cells = grid.points.map((point, i) => ({
      x: formatParameter(second, point.parameters[second]!),
      y: formatParameter(first, point.parameters[first]!),
      // The best stand first.
      strength: point.value === null ? null : 1 - rank(point.value),
      text: told(point.value),
      isBest: i === grid.best,
    }));
    const said = `${objective} by ${first} and ${second}, on what it was chosen by: the stronger, the better`;
    return renderFigure(said, renderHeatPlot(said, second, first, cells));
  }
  const bars = points.slice(0, barsMax).map(({ parameters, value, held_out_value }) => ({
    name: names.length === 1 ? formatParameter(first, parameters[first]!) : formatParameters(parameters),
    value,
    other: held_out_value,
  }));
  const said = `${objective} by ${names.join(', ')}: bars what it was chosen by, dots what was held out`;
  return renderFigure(said, renderBarPlot(said, objective, bars));
}
