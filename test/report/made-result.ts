import type { SymbolRow } from '../../src/backtest/engine/run-series.ts';
import { builtinStrategies } from '../../src/backtest/strategy/builtin-strategies.ts';
import { bindParameters } from '../../src/backtest/strategy/parse-strategy.ts';
import { parseBacktestSpec } from '../../src/contract/backtest-request.ts';
import type { BacktestResult } from '../../src/contract/backtests.ts';
import type { Trade } from '../../src/contract/trade-fields.ts';

// A backtest result without a run, for tests of its display.

const from = Date.UTC(2026, 5, 1, 6);
const hourMs = 3_600_000;
const steps = 48;

const trade = (i: number, rest: Partial<Trade> = {}): Trade => ({
  symbol: `SYM-${i}`,
  rule: 0,
  side: 'yes',
  contracts: 1,
  decided_at: from + i,
  filled_at: from + i + 1,
  price: 0.4,
  entry_price: 0.4,
  exit_price: 0.5,
  entry_fill: 'tick',
  exit_fill: 'book',
  exit_reason: 'sold',
  exit_decided_at: from + hourMs,
  exited_at: from + hourMs + 1,
  entry_fees: 0,
  exit_fees: 0,
  pnl: 0.1,
  ...rest,
});

const symbol = (i: number, pnl: number): SymbolRow => ({
  symbol: `SYM-${i}`,
  ticks: 1000 + i,
  trades: 2,
  contracts: 2,
  fees: 0,
  pnl,
  outcome: i % 2,
});

interface Making {
  /** Grid values of `buy_below`, and of `sell_above` if there are two lists. */
  readonly grid?: Readonly<Record<string, readonly number[]>>;
  readonly symbols?: readonly string[];
  readonly gapShare?: number;
  readonly trades?: number;
  readonly note?: string | null;
}

/** Half of the trades gain. The values of grid points decrease. */
export function createResult({
  grid = {},
  symbols = [],
  gapShare = 0,
  trades = 60,
  note = null,
}: Making = {}): BacktestResult {
  const read = parseBacktestSpec({
    entry_executable: { name: 'threshold' },
    objective: 'total_pnl',
    grid,
    filter: { categories: ['weather'] },
  });
  const bound = bindParameters(builtinStrategies.find(({ name }) => name === 'threshold')!.strategy, {
    buy_below: 0.1,
  });
  if (!('spec' in read) || !('strategy' in bound)) throw new Error('the request or the strategy is invalid');
  const points = Object.entries(grid).reduce<Record<string, number>[]>(
    (some, [name, values]) => some.flatMap((point) => values.map((value) => ({ ...point, [name]: value }))),
    [{}],
  );
  const rows = Array.from({ length: trades === 0 ? 0 : 100 }, (_, i) => symbol(i, 5 - i / 10));
  const t = Array.from({ length: steps }, (_, i) => from + (i + 1) * hourMs);
  return {
    request: read.spec,
    strategy: bound.strategy,
    strategy_version: null,
    assumptions: {
      note,
      fees: 'kalshi',
      slippage: 0.01,
      whole_contracts: true,
      tick_fills: trades,
      book_fills: trades,
      quote_fills: trades,
    },
    from,
    to: t.at(-1)!,
    value: 12.5,
    summary: {
      symbols: 200,
      symbols_traded: rows.length,
      ticks: 1_234_567,
      trades,
      contracts: trades,
      fees: 0,
      total_pnl: 12.5,
      avg_pnl: 0.0125,
      sharpe: 1.234,
      max_drawdown: 3.5,
      win_rate: 0.5,
      brier: 0.1234,
    },
    equity: { step_ms: hourMs, t, value: t.map((_, i) => (i / steps) * 12.5 + 3 * Math.sin(i / 4)) },
    symbols: {
      count: rows.length,
      items: rows.map((row, i) => ({ ...row, symbol: symbols[i] ?? row.symbol })),
    },
    trades: {
      count: trades,
      items: Array.from({ length: trades }, (_, i) => trade(i, i < symbols.length ? { symbol: symbols[i]! } : {})),
    },
    calibration: Array.from({ length: 10 }, (_, i) =>
      i === 9
        ? { price_from: 0.9, price_to: 1, ticks: 0, mean_price: null, mean_outcome: null, brier: null }
        : {
            price_from: i / 10,
            price_to: (i + 1) / 10,
            ticks: 1000 * (10 - i),
            mean_price: i / 10 + 0.05,
            mean_outcome: i / 9,
            brier: 0.1,
          },
    ),
    grid:
      Object.keys(grid).length === 0
        ? null
        : {
            split_at: from,
            best: 0,
            points: points.map((parameters, i) => ({
              parameters,
              value: 10 - i,
              trades: 100 + i,
              held_out_value: 5 - i,
              held_out_trades: 50 + i,
            })),
          },
    coverage: { lifetime_ms: 1000, gap_ms: 1000 * gapShare, gap_share: gapShare },
    archive: { generation: 7, manifest_sha256: 'a'.repeat(64), files: 12, files_sha256: 'b'.repeat(64) },
  };
}
