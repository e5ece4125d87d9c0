import { grouped } from '../core/format-thousands.ts';
import { type Html, html } from '../core/html.ts';
import { isoUtc } from '../core/time.ts';
import type { ObjectiveName } from '../research/objectives.ts';
import type { BacktestResult, GridResult } from '../research/result.ts';
import { objectiveTeller, parametersText, parameterText } from './backtest-figures.ts';
import { bestPointsFirst, type GridPoint } from './grid-order.ts';
import { type Column, figure, longTable, section } from './page-parts.ts';
import { barPlot, heatPlot } from './plots.ts';

const pointsShown = 30;
const barsMax = 30;

/** What a grid was tried with and what came of it; nothing where there was none. */
export function gridSection({ asked, grid }: BacktestResult): Html[] {
  if (grid === null) return [];
  const { objective } = asked;
  const names = Object.keys(asked.grid);
  const points = bestPointsFirst(grid, objective);
  const best = grid.best === null ? undefined : grid.points[grid.best];
  const told = tellerOf(grid, objective);
  const columns: Column<GridPoint>[] = [
    ...names.map((name) => ({ name, of: ({ parameters }: GridPoint) => parameterText(name, parameters[name]!) })),
    { name: `${objective}, chosen by`, of: ({ value }) => told(value) },
    { name: 'Trades', of: ({ trades }) => grouped(trades) },
    { name: 'Held out', of: ({ held_out_value }) => told(held_out_value) },
    { name: 'Trades there', of: ({ held_out_trades }) => grouped(held_out_trades) },
  ];
  const chosen =
    best === undefined
      ? 'No point has a value before it, so the first was taken'
      : `The best before it is ${parametersText(best.parameters)}`;
  const rest = `${grouped(points.length - pointsShown)} more`;
  return [
    section(
      'Grid',
      [
        html`<p class="note">${grouped(points.length)} points, held out from ${isoUtc(grid.split_at)} on. ${chosen}. A point
that is best by chance only is not so on what was held out.</p>\n`,
        picture(grid, points, names, objective),
        ...longTable('Grid', columns, points, { shown: pointsShown, rest, isBest: (point) => point === best }),
      ],
      true,
    ),
  ];
}

const tellerOf = ({ points }: GridResult, objective: ObjectiveName) =>
  objectiveTeller(
    objective,
    points.flatMap(({ value, held_out_value }) => [value, held_out_value]),
  );

/** Of two parameters every combination in a field; of one, or of more, the best points as bars. */
function picture(
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
    const told = tellerOf(grid, objective);
    const cells = grid.points.map((point, i) => ({
      x: parameterText(second, point.parameters[second]!),
      y: parameterText(first, point.parameters[first]!),
      // The best stand first.
      strength: point.value === null ? null : 1 - rank(point.value),
      text: told(point.value),
      isBest: i === grid.best,
    }));
    const said = `${objective} by ${first} and ${second}, on what it was chosen by: the stronger, the better`;
    return figure(said, heatPlot(said, second, first, cells));
  }
  const bars = points.slice(0, barsMax).map(({ parameters, value, held_out_value }) => ({
    name: names.length === 1 ? parameterText(first, parameters[first]!) : parametersText(parameters),
    value,
    other: held_out_value,
  }));
  const said = `${objective} by ${names.join(', ')}: bars what it was chosen by, dots what was held out`;
  return figure(said, barPlot(said, objective, bars));
}
