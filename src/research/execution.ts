import { resolveQuantity } from './bind-parameters.ts';
import { contractsMax, type Side, type Strategy } from './strategy.ts';
import type { Level, OrderBook } from './symbol-series.ts';

/** Contracts that changed hands, at so much each: what was paid for one, or got for it. Fees are not in it. */
export interface Fill {
  readonly contracts: number;
  readonly contractPrice: number;
}

/** How much is wanted: contracts, or what so much money buys. */
export type OrderSize = { readonly contracts: number } | { readonly dollars: number };

/** Costs of a strategy as numbers. */
export interface TradingCosts {
  /** Of one contract that is bought or sold at so much. */
  computeFee(each: number): number;
  readonly slippage: number;
}

export function createTradingCosts(strategy: Strategy): TradingCosts {
  const { per_contract, of_notional, of_variance } = strategy.fees;
  const [flat, notional, variance] = [per_contract, of_notional, of_variance].map((fee) =>
    resolveQuantity(fee, strategy),
  );
  return {
    computeFee: (each) => flat! + notional! * each + variance! * each * (1 - each),
    slippage: resolveQuantity(strategy.slippage, strategy),
  };
}

/** What a contract of a side is worth at a price of yes. */
export const toSidePrice = (side: Side, price: number): number => (side === 'yes' ? price : 1 - price);

/** All that is wanted at the price of a tick, the slippage added. */
export function buyAtTick(side: Side, price: number, wanted: OrderSize, { slippage }: TradingCosts): Fill {
  const each = Math.min(1, toSidePrice(side, price) + slippage);
  return { contracts: computeContracts(wanted, each), contractPrice: each };
}

export const sellAtTick = (side: Side, price: number, contracts: number, { slippage }: TradingCosts): Fill => ({
  contracts,
  contractPrice: Math.max(0, toSidePrice(side, price) - slippage),
});

/** What costs nothing, money cannot say how much of it is wanted; of what costs next to nothing it would be all of it. */
const computeContracts = (wanted: OrderSize, each: number): number => {
  if ('contracts' in wanted) return wanted.contracts;
  return each > 0 ? Math.min(contractsMax, wanted.dollars / each) : 0;
};

/** What a book offers of what is wanted; who buys no takes the bids for yes. No contracts where it has nothing. */
export const buyFromBook = (side: Side, book: OrderBook, wanted: OrderSize): Fill =>
  fillFromLevels(side, side === 'yes' ? book.asks : book.bids, wanted);

export const sellToBook = (side: Side, book: OrderBook, contracts: number): Fill =>
  fillFromLevels(side, side === 'yes' ? book.bids : book.asks, { contracts });

/** Takes levels from the best on. */
function fillFromLevels(side: Side, levels: readonly Level[], wanted: OrderSize): Fill {
  // The mean is kept as such: of one level it is that level's price, to the digit.
  let [contracts, money, mean] = [0, 0, 0];
  for (const [price, quantity] of levels) {
    const each = toSidePrice(side, price);
    if (!(each >= 0 && each <= 1 && quantity > 0)) continue;
    // See contractsFor.
    if ('dollars' in wanted && each === 0) continue;
    const left = 'contracts' in wanted ? wanted.contracts - contracts : (wanted.dollars - money) / each;
    const isLast = left <= quantity;
    const taken = isLast ? left : quantity;
    if (!(taken > 0)) break;
    // To the digit: what rounding leaves over would be an order for nothing.
    contracts = isLast && 'contracts' in wanted ? wanted.contracts : contracts + taken;
    money += taken * each;
    mean += (each - mean) * Math.min(1, taken / contracts);
    if (isLast) break;
  }
  return { contracts, contractPrice: mean };
}
