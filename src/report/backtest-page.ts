import { type ObjectiveName, objectives } from '../backtest/engine/objectives.ts';
import type { SymbolRow } from '../backtest/engine/run-series.ts';
import type { Trade } from '../backtest/engine/simulate.ts';
import type { BacktestResult, GridResult } from '../backtest/result.ts';
import { formatThousands } from '../base/format-quantity.ts';
import { type Html, html } from '../base/html.ts';
import { formatIsoUtc } from '../base/time.ts';
import {
  chooseDigits,
  createObjectiveFormat,
  formatAmount,
  formatDecimals,
  formatDollars,
  formatObjective,
  formatParameter,
  formatParameterMs,
  formatParameters,
  formatPlainNumber,
  formatShare,
  formatStrategyName,
  formatUncoveredWarning,
  formatWindow,
  type GridPoint,
  noValue,
  sortBestFirst,
} from './backtest-figures.ts';
import {
  type HtmlColumn,
  renderFacts,
  renderFigure,
  renderHtmlTable,
  renderKeyFigures,
  renderLongTable,
  renderReportPage,
  renderSection,
} from './page-parts.ts';
import { renderBarPlot, renderCalibrationPlot, renderCurvePlot, renderHeatPlot } from './plots.ts';

const symbolsShownMax = 20;
const tradesShownMax = 50;

/** A backtest as one page of HTML that stands by itself. The same result gives the same text. */
export function renderBacktestPage(result: BacktestResult, version: string): string {
  const { strategy, coverage } = result;
  const warning = formatUncoveredWarning(coverage);
  const body = [
    html`<h1>${formatStrategyName(result)}</h1>
<p class="note">${formatParameters(strategy.parameters)}</p>
<p class="note">Backtest on ${formatWindow(result)}${result.grid === null ? '' : ', held out: no point of the grid was chosen by it'}.</p>
`,
    ...(warning === null ? [] : [html`<p class="warning">${warning[0]!.toUpperCase()}${warning.slice(1)}.</p>\n`]),
    renderSummary(result),
    ...(result.summary.trades === 0
      ? [html`<p class="warning">No trade: nothing met its conditions.</p>\n`]
      : renderCurves(result)),
    ...renderGridSection(result),
    ...renderCalibration(result),
    ...renderSymbols(result),
    ...renderTrades(result),
    renderProvenance(result),
  ];
  return renderReportPage(`${formatStrategyName(result)}: backtest`, body, version);
}

function renderSummary({ asked, summary: of, value }: BacktestResult): Html {
  const told = (name: 'avg_pnl' | 'sharpe' | 'max_drawdown' | 'win_rate' | 'brier' | 'total_pnl', label: string) => ({
    label,
    value: formatObjective(name, of[name]),
    asked: name === asked.objective,
  });
  const all = [
    told('total_pnl', 'Total pnl, dollars'),
    told('avg_pnl', 'A trade, dollars'),
    told('sharpe', 'Sharpe, a year'),
    told('max_drawdown', 'Drawdown, dollars'),
    told('win_rate', 'Won'),
    told('brier', 'Brier'),
    {
      label: 'Trades',
      value: formatThousands(of.trades),
      note: `${formatDecimals(of.contracts, Number.isInteger(of.contracts) ? 0 : 2)} contracts, fees ${formatAmount(of.fees)}`,
    },
    {
      label: 'Symbols',
      value: formatThousands(of.symbols),
      note: `${formatThousands(of.traded)} traded, ${formatThousands(of.ticks)} ticks`,
    },
  ];
  return html`${renderKeyFigures(all)}
<p class="note">Judged by ${asked.objective}, ${objectives[asked.objective].description}: ${formatObjective(asked.objective, value)}.</p>
`;
}

function renderCurves({ equity: { t, value, step_ms } }: BacktestResult): Html[] {
  const under = computeDrawdowns(value);
  const [last, deepest] = [value.at(-1) ?? 0, under.reduce((least, v) => Math.min(least, v), 0)];
  const each = `every ${formatParameterMs(step_ms)}`;
  return [
    renderSection('Equity', [
      renderFigure(
        `Dollars gained, ${each}, what is held at its last price`,
        renderCurvePlot({
          t,
          value,
          yLabel: 'dollars',
          colour: 'var(--accent)',
          filled: true,
          label: `Equity curve, ${formatDollars(last)} dollars at its end`,
        }),
      ),
    ]),
    renderSection('Drawdown', [
      renderFigure(
        'Dollars below the highest point before',
        renderCurvePlot({
          t,
          value: under,
          yLabel: 'dollars',
          colour: 'var(--down)',
          filled: true,
          label: `Drawdown, ${formatAmount(deepest)} dollars at its deepest`,
        }),
      ),
    ]),
  ];
}

/** How far each value is below the highest before it, nothing included. */
function computeDrawdowns(values: readonly number[]): number[] {
  let top = 0;
  return values.map((value) => {
    top = Math.max(top, value);
    return value - top;
  });
}

function renderCalibration({ calibration: all }: BacktestResult): Html[] {
  const rows = all.filter(({ ticks }) => ticks > 0);
  if (rows.length === 0) return [];
  const columns: HtmlColumn<(typeof rows)[number]>[] = [
    { name: 'Price', kind: 'left', format: ({ from, to }) => `${from.toFixed(1)} – ${to.toFixed(1)}` },
    { name: 'Ticks', format: ({ ticks }) => formatThousands(ticks) },
    { name: 'Mean price', format: ({ mean_price }) => formatDecimals(mean_price!, 4) },
    { name: 'Share of yes', format: ({ mean_outcome }) => formatDecimals(mean_outcome!, 4) },
    { name: 'Brier', format: ({ brier }) => formatDecimals(brier!, 4) },
  ];
  const marks = rows.map(({ ticks, mean_price, mean_outcome }) => ({
    price: mean_price!,
    outcome: mean_outcome!,
    weight: ticks,
    title: `price ${formatDecimals(mean_price!, 3)}, yes ${formatDecimals(mean_outcome!, 3)}, ${formatThousands(ticks)} ticks`,
  }));
  const said =
    'Prices of symbols that were settled in the span, by decile: on the diagonal a price is the chance of yes';
  return [
    renderSection('Calibration', [
      html`<p class="note">${said}.</p>
<div class="beside">${renderCalibrationPlot(said, marks)}${renderHtmlTable('Calibration', columns, rows)}</div>\n`,
    ]),
  ];
}

function renderSymbols({ symbols: { count, listed } }: BacktestResult): Html[] {
  if (count === 0) return [];
  const digits = chooseDigits(listed.map(({ pnl }) => pnl));
  const columns: HtmlColumn<SymbolRow>[] = [
    { name: 'Symbol', kind: 'text', format: ({ symbol }) => symbol },
    { name: 'Pnl', format: ({ pnl }) => formatDollars(pnl, digits), isLoss: ({ pnl }) => pnl < 0 },
    { name: 'Trades', format: (row) => formatThousands(row.trades) },
    { name: 'Contracts', format: ({ contracts }) => formatDecimals(contracts, Number.isInteger(contracts) ? 0 : 2) },
    { name: 'Fees', format: ({ fees }) => formatAmount(fees, digits) },
    { name: 'Outcome', format: ({ outcome }) => (outcome === null ? noValue : formatPlainNumber(outcome)) },
    { name: 'Ticks', format: ({ ticks }) => formatThousands(ticks) },
  ];
  const cut =
    listed.length < count ? `, the ${formatThousands(listed.length)} that gained and lost most are listed` : '';
  const said = html`<p class="note">${formatThousands(count)} with a trade${cut}, by pnl.</p>\n`;
  if (listed.length <= 2 * symbolsShownMax)
    return [renderSection('Symbols', [said, renderHtmlTable('Symbols', columns, listed)], true)];
  const middle = listed.slice(symbolsShownMax, -symbolsShownMax);
  const body = [
    said,
    renderHtmlTable('The best symbols', columns, listed.slice(0, symbolsShownMax)),
    html`<details><summary>${formatThousands(middle.length)} in between</summary>${renderHtmlTable('Symbols in between', columns, middle)}</details>\n`,
    html`<p class="note">The last of them:</p>\n`,
    renderHtmlTable('The last symbols', columns, listed.slice(-symbolsShownMax)),
  ];
  return [renderSection('Symbols', body, true)];
}

function renderTrades({ trades: { count, listed } }: BacktestResult): Html[] {
  if (count === 0) return [];
  const digits = chooseDigits(listed.map(({ pnl }) => pnl));
  const columns: HtmlColumn<Trade>[] = [
    { name: 'Filled', kind: 'left', format: ({ filled_at }) => formatIsoUtc(filled_at) },
    { name: 'Symbol', kind: 'text', format: ({ symbol }) => symbol },
    { name: 'Side', kind: 'left', format: ({ side }) => side },
    { name: 'Contracts', format: ({ contracts }) => formatPlainNumber(contracts) },
    { name: 'Paid', format: ({ paid }) => formatPlainNumber(paid) },
    { name: 'Got', format: ({ got }) => formatPlainNumber(got) },
    { name: 'Exit', kind: 'left', format: ({ exit }) => exit },
    { name: 'Exited', kind: 'left', format: ({ exited_at }) => formatIsoUtc(exited_at) },
    { name: 'Pnl', format: ({ pnl }) => formatDollars(pnl, digits), isLoss: ({ pnl }) => pnl < 0 },
  ];
  const cut =
    listed.length < count
      ? `the first ${formatThousands(listed.length)} of ${formatThousands(count)}`
      : formatThousands(count);
  const rest = `${formatThousands(listed.length - tradesShownMax)} more`;
  return [
    renderSection(
      'Trades',
      [
        html`<p class="note">In the order of their fills, ${cut}.</p>\n`,
        ...renderLongTable('Trades', columns, listed, { shown: tradesShownMax, rest }),
      ],
      true,
    ),
  ];
}

/** What the result rests on, so that it can be had again. */
function renderProvenance({ asked, strategy, coverage, archive }: BacktestResult): Html {
  const hash = (text: string): Html => html`<span class="hash">${text}</span>`;
  const { symbols: named, filter } = asked;
  const chosen = [
    named === null ? 'all' : `${formatThousands(named.length)} named`,
    ...(filter.categories.length === 0 ? [] : [`of ${filter.categories.join(', ')}`]),
    ...(filter.sources.length === 0 ? [] : [`from ${filter.sources.join(', ')}`]),
  ];
  return renderSection('What it rests on', [
    renderFacts([
      ['Generation', formatThousands(archive.generation)],
      ['Manifest', hash(archive.manifest_sha256)],
      ['Files', html`${formatThousands(archive.files)}, ${hash(archive.files_sha256)}`],
      ['Symbols', chosen.join(' ')],
      [
        'Coverage',
        coverage.lacking_share === null
          ? 'no symbol lived in the span'
          : `${formatShare(coverage.lacking_share, 2)} of the symbols' time in the span is lacking`,
      ],
    ]),
    html`<details><summary>The strategy and what was asked</summary><pre>${JSON.stringify(strategy, null, 2)}</pre>
<pre>${JSON.stringify({ ...asked, entry_executable: { ...asked.entry_executable, strategy: undefined } }, null, 2)}</pre></details>\n`,
  ]);
}

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
