import type { ObjectiveName } from '../../contract/backtest-request.ts';
import { computeEquity, findDayEnds, type SampleTimes, type TradeTotals } from './trade-totals.ts';

interface Objective {
  readonly description: string;
  /** Whether lower values are better. */
  readonly isMinimized: boolean;
  /** Null if undefined, e.g. without trades. */
  compute(totals: TradeTotals, samples: SampleTimes): number | null;
}

const daysOfYear = 365;

export const objectives: Readonly<Record<ObjectiveName, Objective>> = {
  avg_pnl: {
    description: 'mean P&L per trade in dollars; open positions are valued at the last price',
    isMinimized: false,
    compute: ({ pnl, trades }) => divideOrNull(pnl, trades),
  },
  total_pnl: { description: 'total P&L in dollars', isMinimized: false, compute: ({ pnl }) => pnl },
  sharpe: {
    description: 'mean daily P&L (UTC days) divided by its standard deviation, times the square root of 365',
    isMinimized: false,
    compute: (totals, samples) => computeSharpe(computeDailyGains(totals, samples)),
  },
  max_drawdown: {
    description: 'largest decline of the equity curve from its previous peak, in dollars',
    isMinimized: true,
    compute: (totals) => (totals.trades === 0 ? null : computeDrawdown(computeEquity(totals))),
  },
  win_rate: {
    description: 'share of trades that made a profit',
    isMinimized: false,
    compute: ({ wins, trades }) => divideOrNull(wins, trades),
  },
  brier: {
    description:
      'mean of (price - outcome)² at the fills of settled trades: 0 is perfect; a price of 0.5 always gives 0.25',
    isMinimized: true,
    compute: ({ brier, settled }) => divideOrNull(brier, settled),
  },
};

const divideOrNull = (sum: number, n: number): number | null => (n === 0 ? null : sum / n);

/** P&L of each UTC day. The first and the last day may be partial. */
function computeDailyGains(totals: TradeTotals, samples: SampleTimes): number[] {
  const equity = computeEquity(totals);
  let previous = 0;
  return findDayEnds(samples).map((k) => {
    const gain = equity[k]! - previous;
    previous = equity[k]!;
    return gain;
  });
}

/** Relative rounding error of sums after some hundred thousand additions. */
const equalityTolerance = 1e-11;

/** Sharpe ratio (Sharpe 1966, 1994) with a riskless return of 0; null for fewer than two days or equal days. */
function computeSharpe(days: readonly number[]): number | null {
  const [min, max] = [Math.min(...days), Math.max(...days)];
  let [sum, magnitude] = [0, 0];
  for (const day of days) {
    sum += day;
    magnitude = Math.max(magnitude, Math.abs(sum), Math.abs(day));
  }
  if (days.length < 2 || max - min <= equalityTolerance * magnitude) return null;
  const mean = days.reduce((sum, day) => sum + day, 0) / days.length;
  const squares = days.reduce((sum, day) => sum + (day - mean) ** 2, 0);
  return (mean / Math.sqrt(squares / (days.length - 1))) * Math.sqrt(daysOfYear);
}

function computeDrawdown(equity: Float64Array): number {
  let [peak, maximum] = [0, 0];
  for (const value of equity) {
    peak = Math.max(peak, value);
    maximum = Math.max(maximum, peak - value);
  }
  return maximum;
}

/** Index of the best value, the first of equal ones; -1 if all are null. */
export function findBest(name: ObjectiveName, values: readonly (number | null)[]): number {
  const { isMinimized } = objectives[name];
  let best = -1;
  for (const [i, value] of values.entries()) {
    if (value === null) continue;
    if (best < 0 || (isMinimized ? value < values[best]! : value > values[best]!)) best = i;
  }
  return best;
}
