import { computeEquity, findDayEnds, type SampleTimes, type TradeTotals } from './trade-totals.ts';

export const objectiveNames = ['avg_pnl', 'total_pnl', 'sharpe', 'max_drawdown', 'win_rate', 'brier'] as const;
export type ObjectiveName = (typeof objectiveNames)[number];

interface Objective {
  readonly description: string;
  /** Whether less of it is better. */
  readonly isMinimized: boolean;
  /** Null where there is nothing to take it of. */
  compute(tally: TradeTotals, samples: SampleTimes): number | null;
}

const daysOfYear = 365;

export const objectives: Readonly<Record<ObjectiveName, Objective>> = {
  avg_pnl: {
    description: 'dollars gained a trade, what is still held at its last price',
    isMinimized: false,
    compute: ({ pnl, trades }) => divideOrNull(pnl, trades),
  },
  total_pnl: { description: 'dollars gained in all', isMinimized: false, compute: ({ pnl }) => pnl },
  sharpe: {
    description: 'mean of what UTC days gained over its standard deviation, times the square root of 365',
    isMinimized: false,
    compute: (tally, samples) => computeSharpe(computeDailyGains(tally, samples)),
  },
  max_drawdown: {
    description: 'the deepest fall of the equity curve below its highest point before, dollars',
    isMinimized: true,
    compute: (tally) => (tally.trades === 0 ? null : computeDrawdown(computeEquity(tally))),
  },
  win_rate: {
    description: 'share of the trades that gained',
    isMinimized: false,
    compute: ({ wins, trades }) => divideOrNull(wins, trades),
  },
  brier: {
    description:
      'mean of (price - outcome)² at the fills of trades that were settled: 0 is perfect, 0.25 what 0.5 always gets',
    isMinimized: true,
    compute: ({ brier, settled }) => divideOrNull(brier, settled),
  },
};

const divideOrNull = (sum: number, n: number): number | null => (n === 0 ? null : sum / n);

/** What each UTC day gained, the first and the last being parts of days perhaps. */
function computeDailyGains(tally: TradeTotals, samples: SampleTimes): number[] {
  const equity = computeEquity(tally);
  let before = 0;
  return findDayEnds(samples).map((k) => {
    const gain = equity[k]! - before;
    before = equity[k]!;
    return gain;
  });
}

/** What differences of sums are off by rounding, as a share of the sums: some hundred thousand additions. */
const equalityTolerance = 1e-11;

/** Sharpe (1966, 1994) with a riskless return of nothing; null for fewer than two days, or days that are all alike. */
function computeSharpe(days: readonly number[]): number | null {
  const [least, most] = [Math.min(...days), Math.max(...days)];
  let [sum, size] = [0, 0];
  for (const day of days) {
    sum += day;
    size = Math.max(size, Math.abs(sum), Math.abs(day));
  }
  if (days.length < 2 || most - least <= equalityTolerance * size) return null;
  const mean = days.reduce((sum, day) => sum + day, 0) / days.length;
  const squares = days.reduce((sum, day) => sum + (day - mean) ** 2, 0);
  return (mean / Math.sqrt(squares / (days.length - 1))) * Math.sqrt(daysOfYear);
}

function computeDrawdown(equity: Float64Array): number {
  let [top, deepest] = [0, 0];
  for (const value of equity) {
    top = Math.max(top, value);
    deepest = Math.max(deepest, top - value);
  }
  return deepest;
}

/** Which of the values is best, the first of equals; -1 where all are null. */
export function findBest(name: ObjectiveName, values: readonly (number | null)[]): number {
  const { isMinimized } = objectives[name];
  let best = -1;
  for (const [i, value] of values.entries()) {
    if (value === null) continue;
    if (best < 0 || (isMinimized ? value < values[best]! : value > values[best]!)) best = i;
  }
  return best;
}
