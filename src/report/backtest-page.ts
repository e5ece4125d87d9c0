import { objectives } from '../backtest/engine/objectives.ts';
import type { GridResult } from '../backtest/result.ts';
import { formatNumber, formatPlainNumber } from '../base/format-quantity.ts';
import { type Html, html } from '../base/html.ts';
import { formatIsoUtc } from '../base/time.ts';
import type { ObjectiveName } from '../contract/backtest-request.ts';
import type { BacktestResult } from '../contract/backtests.ts';
import type { Trade } from '../contract/trade-fields.ts';
import {
  calibrationColumns,
  chooseDigits,
  createGridColumns,
  createObjectiveFormat,
  createSymbolColumns,
  formatAmount,
  formatCosts,
  formatDecimals,
  formatDollars,
  formatObjective,
  formatParameter,
  formatParameterMs,
  formatParameters,
  formatShare,
  formatStrategyName,
  formatUncoveredWarning,
  formatWindow,
  type GridPoint,
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
import { renderBarPlot, renderCalibrationPlot, renderHeatPlot } from './plots.ts';
import { renderLinesPlot } from './time-plots.ts';

const symbolsShownMax = 20;
const tradesShownMax = 50;

/** Renders a backtest as one self-contained HTML page. The same result gives the same text. */
export function renderBacktestPage(result: BacktestResult, version: string): string {
  const { strategy, coverage, assumptions } = result;
  const { note } = assumptions;
  const warning = formatUncoveredWarning(coverage);
  const body = [
    html`<h1>${formatStrategyName(result)}</h1>\n`,
    ...(note === null ? [] : [html`<p class="warning">${note}</p>\n`]),
    html`<p class="note">${formatParameters(strategy.parameters)}</p>
<p class="note">Backtest on ${formatWindow(result)}${result.grid === null ? '' : ', held out: not used to choose the grid point'}.</p>
`,
    ...(warning === null ? [] : [html`<p class="warning">${warning[0]!.toUpperCase()}${warning.slice(1)}.</p>\n`]),
    renderSummary(result),
    ...(result.summary.trades === 0
      ? [html`<p class="warning">No trades: the conditions were never met.</p>\n`]
      : renderCurves(result)),
    ...renderGridSection(result),
    ...renderCalibration(result),
    ...renderSymbols(result),
    ...renderTrades(result),
    renderProvenance(result),
  ];
  return renderReportPage(`${formatStrategyName(result)}: backtest`, body, version);
}

function renderSummary({ request, summary: totals, value }: BacktestResult): Html {
  const formatValue = (
    name: 'avg_pnl' | 'sharpe' | 'max_drawdown' | 'win_rate' | 'brier' | 'total_pnl',
    label: string,
  ) => ({
    label,
    value: formatObjective(name, totals[name]),
    isHighlighted: name === request.objective,
  });
  const all = [
    formatValue('total_pnl', 'Total P&L, dollars'),
    formatValue('avg_pnl', 'P&L per trade, dollars'),
    formatValue('sharpe', 'Sharpe ratio, annualized'),
    formatValue('max_drawdown', 'Max drawdown, dollars'),
    formatValue('win_rate', 'Win rate'),
    formatValue('brier', 'Brier score'),
    {
      label: 'Trades',
      value: formatNumber(totals.trades),
      note: `${formatDecimals(totals.contracts, Number.isInteger(totals.contracts) ? 0 : 2)} contracts, fees ${formatAmount(totals.fees)}`,
    },
    {
      label: 'Symbols',
      value: formatNumber(totals.symbols),
      note: `${formatNumber(totals.symbols_traded)} traded, ${formatNumber(totals.ticks)} ticks`,
    },
  ];
  return html`${renderKeyFigures(all)}
<p class="note">Objective ${request.objective}, ${objectives[request.objective].description}: ${formatObjective(request.objective, value)}.</p>
`;
}

function renderCurves({ equity: { t, value, step_ms } }: BacktestResult): Html[] {
  const drawdowns = computeDrawdowns(value);
  const [last, deepest] = [value.at(-1) ?? 0, drawdowns.reduce((min, v) => Math.min(min, v), 0)];
  const renderCurve = (label: string, values: readonly number[], colour: string): Html => {
    const points = t.map((ms, i) => ({ t: ms, value: values[i]! }));
    return renderLinesPlot(label, 'dollars', { from: t[0]!, to: t.at(-1)! }, [{ points, colour, look: 'area' }]);
  };
  return [
    renderSection('Equity', [
      renderFigure(
        `P&L in dollars, every ${formatParameterMs(step_ms)}, with open positions at the last price`,
        renderCurve(`Equity curve, final value ${formatDollars(last)} dollars`, value, 'var(--accent)'),
      ),
    ]),
    renderSection('Drawdown', [
      renderFigure(
        'Dollars below the previous peak',
        renderCurve(`Drawdown, maximum ${formatAmount(deepest)} dollars`, drawdowns, 'var(--down)'),
      ),
    ]),
  ];
}

/** Difference between each value and the previous peak, which is at least 0. */
function computeDrawdowns(values: readonly number[]): number[] {
  let peak = 0;
  return values.map((value) => {
    peak = Math.max(peak, value);
    return value - peak;
  });
}

function renderCalibration({ calibration: all }: BacktestResult): Html[] {
  const rows = all.filter(({ ticks }) => ticks > 0);
  if (rows.length === 0) return [];
  const marks = rows.map(({ ticks, mean_price, mean_outcome }) => ({
    price: mean_price!,
    outcome: mean_outcome!,
    weight: ticks,
    title: `price ${formatDecimals(mean_price!, 3)}, yes ${formatDecimals(mean_outcome!, 3)}, ${formatNumber(ticks)} ticks`,
  }));
  const caption =
    'Prices of symbols that settled in the window, by decile; on the diagonal, prices equal the frequency of yes';
  return [
    renderSection('Calibration', [
      html`<p class="note">${caption}.</p>
<div class="beside">${renderCalibrationPlot(caption, marks)}${renderHtmlTable('Calibration', calibrationColumns, rows)}</div>\n`,
    ]),
  ];
}

function renderSymbols({ symbols: { count, items } }: BacktestResult): Html[] {
  if (count === 0) return [];
  const columns = createSymbolColumns(items);
  const cutText =
    items.length < count ? `; the ${formatNumber(items.length)} with the largest gains and losses are listed` : '';
  const caption = html`<p class="note">${formatNumber(count)} with trades${cutText}, sorted by P&L.</p>\n`;
  if (items.length <= 2 * symbolsShownMax)
    return [renderSection('Symbols', [caption, renderHtmlTable('Symbols', columns, items)], true)];
  const middle = items.slice(symbolsShownMax, -symbolsShownMax);
  const body = [
    caption,
    renderHtmlTable('Best symbols', columns, items.slice(0, symbolsShownMax)),
    html`<details><summary>${formatNumber(middle.length)} in between</summary>${renderHtmlTable('Symbols in between', columns, middle)}</details>\n`,
    html`<p class="note">The worst symbols:</p>\n`,
    renderHtmlTable('Worst symbols', columns, items.slice(-symbolsShownMax)),
  ];
  return [renderSection('Symbols', body, true)];
}

function renderTrades({ trades: { count, items } }: BacktestResult): Html[] {
  if (count === 0) return [];
  const digits = chooseDigits(items.map(({ pnl }) => pnl));
  const columns: HtmlColumn<Trade>[] = [
    { name: 'Filled', kind: 'left', format: ({ filled_at }) => formatIsoUtc(filled_at) },
    { name: 'Symbol', kind: 'text', format: ({ symbol }) => symbol },
    { name: 'Side', kind: 'left', format: ({ side }) => side },
    { name: 'Contracts', format: ({ contracts }) => formatPlainNumber(contracts) },
    { name: 'Entry price', format: ({ entry_price }) => formatPlainNumber(entry_price) },
    { name: 'Exit price', format: ({ exit_price }) => formatPlainNumber(exit_price) },
    { name: 'Exit', kind: 'left', format: ({ exit_reason }) => exit_reason },
    { name: 'Exited', kind: 'left', format: ({ exited_at }) => formatIsoUtc(exited_at) },
    { name: 'P&L', format: ({ pnl }) => formatDollars(pnl, digits), isLoss: ({ pnl }) => pnl < 0 },
  ];
  const cutText =
    items.length < count ? `the first ${formatNumber(items.length)} of ${formatNumber(count)}` : formatNumber(count);
  const rest = `${formatNumber(items.length - tradesShownMax)} more`;
  return [
    renderSection(
      'Trades',
      [
        html`<p class="note">In the order of fills: ${cutText}.</p>\n`,
        ...renderLongTable('Trades', columns, items, { shown: tradesShownMax, rest }),
      ],
      true,
    ),
  ];
}

/** Inputs of the backtest, for reproducing it. */
function renderProvenance({ request, strategy, coverage, archive, assumptions }: BacktestResult): Html {
  const hash = (text: string): Html => html`<span class="hash">${text}</span>`;
  const { symbols: namedSymbols, filter } = request;
  const chosenText = [
    namedSymbols === null ? 'all' : `${formatNumber(namedSymbols.length)} named`,
    ...(filter.categories.length === 0 ? [] : [`of ${filter.categories.join(', ')}`]),
    ...(filter.sources.length === 0 ? [] : [`from ${filter.sources.join(', ')}`]),
  ];
  return renderSection('Inputs', [
    renderFacts([
      ['Generation', formatNumber(archive.generation)],
      ['Manifest', hash(archive.manifest_sha256)],
      ['Files', html`${formatNumber(archive.files)}, ${hash(archive.files_sha256)}`],
      ['Symbols', chosenText.join(' ')],
      ['Costs', formatCosts(assumptions)],
      [
        'Coverage',
        coverage.gap_share === null
          ? 'no symbol was live in the window'
          : `${formatShare(coverage.gap_share, 2)} of the symbols' lifetime in the window is not covered`,
      ],
    ]),
    html`<details><summary>Strategy and request</summary><pre>${JSON.stringify(strategy, null, 2)}</pre>
<pre>${JSON.stringify({ ...request, entry_executable: { ...request.entry_executable, strategy: undefined } }, null, 2)}</pre></details>\n`,
  ]);
}

const pointsShownMax = 30;
const barsMax = 30;

/** The points of a grid and their results; empty without a grid. */
function renderGridSection({ request, grid }: BacktestResult): Html[] {
  if (grid === null) return [];
  const { objective } = request;
  const names = Object.keys(request.grid);
  const points = sortBestFirst(grid, objective);
  const best = grid.best === null ? undefined : grid.points[grid.best];
  const columns = createGridColumns(grid, request);
  const chosenText =
    best === undefined
      ? 'No point has a value before that time, so the first point was used'
      : `The best point before that time is ${formatParameters(best.parameters)}`;
  const rest = `${formatNumber(points.length - pointsShownMax)} more`;
  return [
    renderSection(
      'Grid',
      [
        html`<p class="note">${formatNumber(points.length)} points; data from ${formatIsoUtc(grid.split_at)} is held out. ${chosenText}. A point
that is best only by chance does not stay best on held-out data.</p>\n`,
        renderGridPlot(grid, points, names, objective),
        ...renderLongTable('Grid', columns, points, { shown: pointsShownMax, rest, isBest: (point) => point === best }),
      ],
      true,
    ),
  ];
}

/** A heat map for two parameters; bars of the best points otherwise. */
function renderGridPlot(
  grid: GridResult,
  points: readonly GridPoint[],
  names: readonly string[],
  objective: ObjectiveName,
): Html {
  const [first, second] = names as [string, string];
  const countValues = (name: string): number => new Set(points.map(({ parameters }) => parameters[name])).size;
  if (names.length === 2 && countValues(first) > 1 && countValues(second) > 1 && countValues(second) <= 12) {
    const values = points.flatMap(({ value }) => (value === null ? [] : [value]));
    const rank = (value: number): number => values.indexOf(value) / Math.max(1, values.length - 1);
    const formatValue = createObjectiveFormat(objective, values);
    const cells = grid.points.map((point, i) => ({
      x: formatParameter(second, point.parameters[second]!),
      y: formatParameter(first, point.parameters[first]!),
      // The values are sorted best first.
      strength: point.value === null ? null : 1 - rank(point.value),
      text: formatValue(point.value),
      isBest: i === grid.best,
    }));
    const caption = `${objective} by ${first} and ${second}, in sample; stronger colours are better`;
    return renderFigure(caption, renderHeatPlot(caption, second, first, cells));
  }
  const bars = points.slice(0, barsMax).map(({ parameters, value, held_out_value }) => ({
    name: names.length === 1 ? formatParameter(first, parameters[first]!) : formatParameters(parameters),
    value,
    other: held_out_value,
  }));
  const caption = `${objective} by ${names.join(', ')}: in sample (bars) and held out (dots)`;
  return renderFigure(caption, renderBarPlot(caption, objective, bars));
}
