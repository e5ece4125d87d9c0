import { formatCount, formatNumber } from '../base/format-quantity.ts';
import type { feeSchedules, Strategy } from '../contract/strategy-language.ts';
import type { TradeTotals } from './engine/trade-totals.ts';
import { resolveQuantity, tradesWholeContracts } from './strategy/strategy.ts';

/** Costs that a result contains, and what its fills rest on. */
export interface BacktestAssumptions {
  /** What the result leaves out, in one sentence; null if nothing, or without trades. The first line of every output. */
  readonly note: string | null;
  /** `per_contract`: numbers of the strategy; otherwise the fee schedule. */
  readonly fees: FeeKind;
  /** Dollars per contract, for fills at tick prices. */
  readonly slippage: number;
  /** Whether orders were rounded down to whole contracts. */
  readonly whole_contracts: boolean;
  /** Number of fills at the price of a tick, which is neither bid nor ask, from an order book, and at a quote. */
  readonly tick_fills: number;
  readonly book_fills: number;
  readonly quote_fills: number;
}

type FeeKind = 'none' | 'per_contract' | (typeof feeSchedules)[number];

type FillCounts = Pick<TradeTotals, 'tickFills' | 'bookFills' | 'quoteFills'>;

export function describeAssumptions(strategy: Strategy, fills: FillCounts): BacktestAssumptions {
  const fees = getFeeKind(strategy);
  const slippage = resolveQuantity(strategy.slippage, strategy);
  return {
    note: createNote(fees, slippage, fills),
    fees,
    slippage,
    whole_contracts: tradesWholeContracts(strategy),
    tick_fills: fills.tickFills,
    book_fills: fills.bookFills,
    quote_fills: fills.quoteFills,
  };
}

function getFeeKind(strategy: Strategy): FeeKind {
  const { fees } = strategy;
  if ('schedule' in fees) return fees.schedule;
  const all = [fees.per_contract, fees.of_notional, fees.of_variance];
  return all.every((fee) => resolveQuantity(fee, strategy) === 0) ? 'none' : 'per_contract';
}

/** Order books and quotes contain the spread. */
function createNote(fees: FeeKind, slippage: number, { tickFills, bookFills, quoteFills }: FillCounts): string | null {
  const fills = tickFills + bookFills + quoteFills;
  if (fills === 0) return null;
  const hasNoSpread = tickFills > 0 && slippage === 0;
  if (!hasNoSpread) return fees === 'none' ? 'Without fees.' : null;
  const share = tickFills === fills ? 'Filled' : `${formatNumber(tickFills)} of ${formatCount(fills, 'fill')}`;
  return `${share} at tick prices, not bid and ask, ${fees === 'none' ? 'without fees or spread' : 'without spread'}.`;
}
