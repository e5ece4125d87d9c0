import { formatCount, formatNumber } from '../base/format-quantity.ts';
import type { BacktestResult } from '../contract/backtests.ts';
import type { Strategy } from '../contract/strategy-language.ts';
import type { TradeTotals } from './engine/trade-totals.ts';
import { resolveQuantity, tradesWholeContracts } from './strategy/strategy.ts';

type BacktestAssumptions = BacktestResult['assumptions'];

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

function getFeeKind(strategy: Strategy): BacktestAssumptions['fees'] {
  const { fees } = strategy;
  if ('schedule' in fees) return fees.schedule;
  const all = [fees.per_contract, fees.of_notional, fees.of_variance];
  return all.every((fee) => resolveQuantity(fee, strategy) === 0) ? 'none' : 'per_contract';
}

/** Order books and quotes contain the spread. */
function createNote(
  fees: BacktestAssumptions['fees'],
  slippage: number,
  { tickFills, bookFills, quoteFills }: FillCounts,
): string | null {
  const fills = tickFills + bookFills + quoteFills;
  if (fills === 0) return null;
  const hasNoSpread = tickFills > 0 && slippage === 0;
  if (!hasNoSpread) return fees === 'none' ? 'Without fees.' : null;
  const share = tickFills === fills ? 'Filled' : `${formatNumber(tickFills)} of ${formatCount(fills, 'fill')}`;
  return `${share} at tick prices, not bid and ask, ${fees === 'none' ? 'without fees or spread' : 'without spread'}.`;
}
