import { objectives } from '../backtest/engine/objectives.ts';
import type { SymbolRow } from '../backtest/engine/run-series.ts';
import type { GridResult } from '../backtest/result.ts';
import { formatCount, formatNumber, formatPlainNumber } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import { dayMs, hourMs, minuteMs } from '../base/window.ts';
import type { ObjectiveName } from '../contract/backtest-request.ts';
import type { BacktestResult } from '../contract/backtests.ts';

// Formats of backtest numbers, shared by the terminal and the HTML page.

/** Shown instead of a missing value. */
const noValue = '–';

/** Number of decimals for a set of values: 2 for large values, otherwise 4. */
export const chooseDigits = (values: readonly number[]): number =>
  values.some((value) => Math.abs(value) >= 10) || values.every((value) => value === 0) ? 2 : 4;

/** `+1,234.50`, or `+0.0312` for small values; gains have a sign. */
export const formatDollars = (value: number | null, digits = chooseDigits([value ?? 0])): string => {
  if (value === null) return noValue;
  const text = formatDecimals(Math.abs(value), digits);
  return /^[0.,]+$/.test(text) ? text : `${value < 0 ? '-' : '+'}${text}`;
};

/** Like formatDollars, without a sign: for fees and drawdowns. */
export const formatAmount = (value: number | null, digits?: number): string =>
  formatDollars(value, digits).replace(/^[+-]/, '');

export const formatShare = (value: number | null, digits = 1): string =>
  value === null ? noValue : `${formatDecimals(value * 100, digits)} %`;

/** A number with `digits` decimals and grouped thousands. */
export function formatDecimals(value: number, digits: number): string {
  if (Math.abs(value) >= 1e15) return value.toExponential(3);
  const [whole, rest] = Math.abs(value).toFixed(digits).split('.');
  const sign = value < 0 && /[1-9]/.test(`${whole}${rest}`) ? '-' : '';
  return `${sign}${formatNumber(Number(whole))}${rest === undefined ? '' : `.${rest}`}`;
}

const objectiveFormats: Readonly<Record<ObjectiveName, (value: number | null, digits?: number) => string>> = {
  avg_pnl: formatDollars,
  total_pnl: formatDollars,
  sharpe: (value) => (value === null ? noValue : formatDecimals(value, 2)),
  max_drawdown: formatAmount,
  win_rate: (value) => formatShare(value),
  brier: (value) => (value === null ? noValue : formatDecimals(value, 4)),
};

/** The value of an objective. `digits`: decimals of dollar values. */
export const formatObjective = (name: ObjectiveName, value: number | null, digits?: number): string =>
  objectiveFormats[name](value, digits);

/** A format for several values of an objective, with the same number of decimals. */
export function createObjectiveFormat(
  name: ObjectiveName,
  values: readonly (number | null)[],
): (value: number | null) => string {
  const digits = chooseDigits(values.filter((value) => value !== null));
  return (value) => formatObjective(name, value, digits);
}

/** `6h`, `90s`: in whole units, otherwise in milliseconds. */
export function formatParameterMs(ms: number): string {
  for (const [unit, length] of [
    ['d', dayMs],
    ['h', hourMs],
    ['m', minuteMs],
    ['s', 1000],
  ] as const)
    if (ms >= length && ms % length === 0) return `${ms / length}${unit}`;
  return `${formatPlainNumber(ms)}ms`;
}

/** A duration such as `6h` for parameters in milliseconds, otherwise the number. */
export const formatParameter = (name: string, value: number): string =>
  name.endsWith('_ms') && value > 0 ? formatParameterMs(value) : formatPlainNumber(value);

/** `buy_below 0.2, sell_above 0.5`. */
export const formatParameters = (parameters: Readonly<Record<string, number>>): string =>
  Object.entries(parameters)
    .map(([name, value]) => `${name} ${formatParameter(name, value)}`)
    .join(', ');

export const formatWindow = ({ from, to }: { readonly from: number; readonly to: number }): string =>
  `${formatIsoUtc(from)} … ${formatIsoUtc(to)}`;

/** Name of the strategy, with its version if it has one. */
export const formatStrategyName = ({
  request,
  strategy_version,
}: Pick<BacktestResult, 'request' | 'strategy_version'>): string =>
  `${request.entry_executable.name}${strategy_version === null ? '' : ` (version ${strategy_version})`}`;

/** `kalshi fees, slippage 0.01, whole contracts; 12 fills at tick prices, 3 from order books, 5 at quotes`. */
export function formatCosts(assumptions: BacktestResult['assumptions']): string {
  const { fees, slippage, whole_contracts, tick_fills, book_fills, quote_fills } = assumptions;
  const feesText = fees === 'none' ? 'no fees' : fees === 'per_contract' ? 'fees per contract' : `${fees} fees`;
  const terms = [feesText, `slippage ${formatPlainNumber(slippage)}`, ...(whole_contracts ? ['whole contracts'] : [])];
  const fills = [
    `${formatCount(tick_fills, 'fill')} at tick prices`,
    `${formatNumber(book_fills)} from order books`,
    `${formatNumber(quote_fills)} at quotes`,
  ];
  return `${terms.join(', ')}; ${fills.join(', ')}`;
}

/** Share of the symbols' lifetime without coverage above which a result has a warning. */
const uncoveredShareMax = 0.05;

/** The warning of missing coverage; null if the share is at most `uncoveredShareMax`. */
export function formatUncoveredWarning({ gap_share }: BacktestResult['coverage']): string | null {
  if (gap_share === null || gap_share <= uncoveredShareMax) return null;
  return `${formatShare(gap_share)} of the symbols' lifetime in the window is not covered: prices may be missing`;
}

export type GridPoint = GridResult['points'][number];

/** Grid points by their in-sample value, best first, points without a value last. The sort is stable. */
export function sortBestFirst({ points }: GridResult, objective: ObjectiveName): GridPoint[] {
  const { isMinimized } = objectives[objective];
  return points.toSorted((a, b) => {
    if (a.value === null || b.value === null) return Number(a.value === null) - Number(b.value === null);
    return isMinimized ? a.value - b.value : b.value - a.value;
  });
}

/** A column of a table of results, on the terminal and on the page. Without a kind it has numbers; `text` can wrap. */
export interface FigureColumn<Row> {
  readonly name: string;
  readonly kind?: 'left' | 'text';
  readonly format: (row: Row) => string;
  readonly isLoss?: (row: Row) => boolean;
}

export function createGridColumns(
  { points }: GridResult,
  { grid, objective }: BacktestResult['request'],
): FigureColumn<GridPoint>[] {
  const formatValue = createObjectiveFormat(
    objective,
    points.flatMap(({ value, held_out_value }) => [value, held_out_value]),
  );
  return [
    ...Object.keys(grid).map((name) => ({
      name,
      format: ({ parameters }: GridPoint) => formatParameter(name, parameters[name]!),
    })),
    { name: 'In sample', format: ({ value }) => formatValue(value) },
    { name: 'Trades', format: ({ trades }) => formatNumber(trades) },
    { name: 'Held out', format: ({ held_out_value }) => formatValue(held_out_value) },
    { name: 'Held-out trades', format: ({ held_out_trades }) => formatNumber(held_out_trades) },
  ];
}

/** @param shown the rows that are shown, whose dollars have equally many decimals */
export function createSymbolColumns(shown: readonly SymbolRow[]): FigureColumn<SymbolRow>[] {
  const digits = chooseDigits(shown.map(({ pnl }) => pnl));
  return [
    { name: 'Symbol', kind: 'text', format: ({ symbol }) => symbol },
    { name: 'P&L', format: ({ pnl }) => formatDollars(pnl, digits), isLoss: ({ pnl }) => pnl < 0 },
    { name: 'Trades', format: ({ trades }) => formatNumber(trades) },
    { name: 'Contracts', format: ({ contracts }) => formatDecimals(contracts, Number.isInteger(contracts) ? 0 : 2) },
    { name: 'Fees', format: ({ fees }) => formatAmount(fees, digits) },
    { name: 'Outcome', format: ({ outcome }) => (outcome === null ? noValue : formatPlainNumber(outcome)) },
    { name: 'Ticks', format: ({ ticks }) => formatNumber(ticks) },
  ];
}

type CalibrationRow = BacktestResult['calibration'][number];

/** Of rows with ticks. */
export const calibrationColumns: FigureColumn<CalibrationRow>[] = [
  {
    name: 'Price',
    kind: 'left',
    format: ({ price_from, price_to }) => `${price_from.toFixed(1)} – ${price_to.toFixed(1)}`,
  },
  { name: 'Ticks', format: ({ ticks }) => formatNumber(ticks) },
  { name: 'Mean price', format: ({ mean_price }) => formatDecimals(mean_price!, 4) },
  { name: 'Share of yes', format: ({ mean_outcome }) => formatDecimals(mean_outcome!, 4) },
  { name: 'Off by', format: ({ mean_price, mean_outcome }) => formatSigned(mean_outcome! - mean_price!) },
  { name: 'Brier', format: ({ brier }) => formatDecimals(brier!, 4) },
];

const formatSigned = (value: number): string => `${value > 0 ? '+' : ''}${formatDecimals(value, 4)}`;
