import { type ObjectiveName, objectives } from '../backtest/engine/objectives.ts';
import type { BacktestResult, GridResult } from '../backtest/result.ts';
import { formatThousands } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';

// The numbers of a backtest as people read them, on the terminal and on the page alike.

/** What stands where there is no value. */
export const noValue = '–';

/** Digits behind the point with which values are told alike: fewer where they are great. */
export const chooseDigits = (values: readonly number[]): number =>
  values.some((value) => Math.abs(value) >= 10) || values.every((value) => value === 0) ? 2 : 4;

/** `+1,234.50`, or `+0.0312` where it is small; the sign of a gain is shown. */
export const formatDollars = (value: number | null, digits = chooseDigits([value ?? 0])): string => {
  if (value === null) return noValue;
  const text = formatDecimals(Math.abs(value), digits);
  return /^[0.,]+$/.test(text) ? text : `${value < 0 ? '-' : '+'}${text}`;
};

/** The same of an amount that is no gain or loss: fees, a drawdown. */
export const formatAmount = (value: number | null, digits?: number): string =>
  formatDollars(value, digits).replace(/^[+-]/, '');

export const formatShare = (value: number | null, digits = 1): string =>
  value === null ? noValue : `${formatDecimals(value * 100, digits)} %`;

/** With so many digits behind the point, grouped before it. */
export function formatDecimals(value: number, digits: number): string {
  if (Math.abs(value) >= 1e15) return value.toExponential(3);
  const [whole, rest] = Math.abs(value).toFixed(digits).split('.');
  const sign = value < 0 && /[1-9]/.test(`${whole}${rest}`) ? '-' : '';
  return `${sign}${formatThousands(Number(whole))}${rest === undefined ? '' : `.${rest}`}`;
}

/** A price, a mean, a parameter: as short as it can be said, at most six digits behind the point. */
export const formatPlainNumber = (value: number): string => String(Number(value.toFixed(6)));

const objectiveFormats: Readonly<Record<ObjectiveName, (value: number | null, digits?: number) => string>> = {
  avg_pnl: formatDollars,
  total_pnl: formatDollars,
  sharpe: (value) => (value === null ? noValue : formatDecimals(value, 2)),
  max_drawdown: formatAmount,
  win_rate: (value) => formatShare(value),
  brier: (value) => (value === null ? noValue : formatDecimals(value, 4)),
};

/** The value of an objective; of dollars with so many digits behind the point. */
export const formatObjective = (name: ObjectiveName, value: number | null, digits?: number): string =>
  objectiveFormats[name](value, digits);

/** The same for values that stand together: a dollar is told alike in all of them. */
export function createObjectiveFormat(
  name: ObjectiveName,
  values: readonly (number | null)[],
): (value: number | null) => string {
  const digits = chooseDigits(values.filter((value) => value !== null));
  return (value) => formatObjective(name, value, digits);
}

/** `6h`, `90s`: whole units; else milliseconds. */
export function formatParameterMs(ms: number): string {
  for (const [unit, length] of [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['m', 60_000],
    ['s', 1000],
  ] as const)
    if (ms >= length && ms % length === 0) return `${ms / length}${unit}`;
  return `${formatPlainNumber(ms)}ms`;
}

/** `6h` where the parameter is one of milliseconds, else the number. */
export const formatParameter = (name: string, value: number): string =>
  name.endsWith('_ms') && value > 0 ? formatParameterMs(value) : formatPlainNumber(value);

/** `buy_below 0.2, sell_above 0.5`. */
export const formatParameters = (parameters: Readonly<Record<string, number>>): string =>
  Object.entries(parameters)
    .map(([name, value]) => `${name} ${formatParameter(name, value)}`)
    .join(', ');

export const formatWindow = ({ from, to }: { readonly from: number; readonly to: number }): string =>
  `${formatIsoUtc(from)} … ${formatIsoUtc(to)}`;

/** The name of what was run, and its version where it has one. */
export const formatStrategyName = ({
  asked,
  strategy_version,
}: Pick<BacktestResult, 'asked' | 'strategy_version'>): string =>
  `${asked.entry_executable.name}${strategy_version === null ? '' : ` (version ${strategy_version})`}`;

/** From this share of the symbols' windows on, that nothing was heard of, a result is told with a warning. */
export const uncoveredShareMax = 0.05;

/** The warning; null where little is lacking. */
export function formatUncoveredWarning({ lacking_share }: BacktestResult['coverage']): string | null {
  if (lacking_share === null || lacking_share <= uncoveredShareMax) return null;
  return `nothing was heard of ${formatShare(lacking_share)} of the symbols' time in the span: prices may be missing there`;
}

export type GridPoint = GridResult['points'][number];

/** The points of a grid by the value that they are chosen by, the best first, those without one last; equals in their order. */
export function sortBestFirst({ points }: GridResult, objective: ObjectiveName): GridPoint[] {
  const { isMinimized } = objectives[objective];
  return points.toSorted((a, b) => {
    if (a.value === null || b.value === null) return Number(a.value === null) - Number(b.value === null);
    return isMinimized ? a.value - b.value : b.value - a.value;
  });
}
