import { contractsMax, type Rule, type Side, type Strategy } from '../../contract/strategy-language.ts';
import { resolveQuantity, tradesWholeContracts } from '../strategy/strategy.ts';
import type { TakenSide } from './book-lookup.ts';
import { createFeeModel, type FeeModel, type Fill, type FilledLevel } from './fees.ts';
import type { Level, OrderBook } from './symbol-series.ts';

/** Size of an order, in contracts or in dollars. */
export type OrderSize = { readonly contracts: number } | { readonly dollars: number };

/** Costs and units of a strategy's orders, with bound parameters. */
export interface TradingTerms extends FeeModel {
  readonly slippage: number;
  /** Whether orders are rounded down to whole contracts. */
  readonly isWhole: boolean;
}

export const createTradingTerms = (strategy: Strategy): TradingTerms => ({
  ...createFeeModel(strategy),
  slippage: resolveQuantity(strategy.slippage, strategy),
  isWhole: tradesWholeContracts(strategy),
});

/** The size of a rule's orders; null if it never places one, because they are smaller than one whole contract. */
export function resolveOrderSize({ size }: Rule, strategy: Strategy, { isWhole }: TradingTerms): OrderSize | null {
  if ('dollars' in size) return { dollars: resolveQuantity(size.dollars, strategy) };
  const contracts = resolveQuantity(size.contracts, strategy);
  if (!isWhole) return { contracts };
  return contracts < 1 ? null : { contracts: floorContracts(contracts) };
}

/** Price of a contract of a side, given the price of yes. */
export const toSidePrice = (side: Side, price: number): number => (side === 'yes' ? price : 1 - price);

/** The fill of an order that has no contracts. */
const noFill: Fill = { contracts: 0, contractPrice: 0, levels: [] };

const createFill = (contracts: number, contractPrice: number): Fill => ({
  contracts,
  contractPrice,
  levels: [{ contracts, contractPrice }],
});

/** Fills the whole order at the price of a tick plus slippage. */
export function buyAtTick(side: Side, price: number, orderSize: OrderSize, terms: TradingTerms): Fill {
  const each = Math.min(1, toSidePrice(side, price) + terms.slippage);
  return createFill(computeContracts(orderSize, each, terms), each);
}

export const sellAtTick = (side: Side, price: number, contracts: number, { slippage }: TradingTerms): Fill =>
  createFill(contracts, Math.max(0, toSidePrice(side, price) - slippage));

/** Number of contracts of an order at a price. An order in dollars is bounded, and is 0 at a price of 0. */
function computeContracts(orderSize: OrderSize, each: number, { isWhole }: TradingTerms): number {
  if ('contracts' in orderSize) return orderSize.contracts;
  const contracts = each > 0 ? Math.min(contractsMax, orderSize.dollars / each) : 0;
  return isWhole ? floorContracts(contracts) : contracts;
}

/** Rounding error of a quotient or sum of doubles, as a share: 0.3 / 0.1 is 2.9999999999999996. */
const roundingError = 1e-12;

const floorContracts = (contracts: number): number => Math.floor(contracts * (1 + roundingError));

/** Buying no takes the bids for yes. */
export const getTakenSide = (side: Side, isBuy: boolean): TakenSide => ((side === 'yes') === isBuy ? 'asks' : 'bids');

/** Fills a buy order from a book, possibly in part or with 0 contracts. */
export const buyFromBook = (side: Side, book: OrderBook, orderSize: OrderSize, terms: TradingTerms): Fill =>
  fillFromBook(side, book[getTakenSide(side, true)], orderSize, terms);

export const sellToBook = (side: Side, book: OrderBook, contracts: number, terms: TradingTerms): Fill =>
  fillFromBook(side, book[getTakenSide(side, false)], { contracts }, terms);

function fillFromBook(side: Side, levels: readonly Level[], orderSize: OrderSize, { isWhole }: TradingTerms): Fill {
  // An order in dollars has no size at a price of 0, as in computeContracts.
  const usable = 'dollars' in orderSize ? levels.filter(([price]) => toSidePrice(side, price) > 0) : levels;
  const fill = fillFromLevels(side, usable, orderSize);
  const contracts = isWhole ? floorContracts(fill.contracts) : fill.contracts;
  if (contracts === fill.contracts) return fill;
  // The exact number, which the sum of the levels may miss by a rounding error.
  return contracts === 0 ? noFill : { ...fillFromLevels(side, usable, { contracts }), contracts };
}

/** Fills the order level by level, starting at the best price. */
function fillFromLevels(side: Side, levels: readonly Level[], orderSize: OrderSize): Fill {
  // A running mean is exact for a single level.
  let [contracts, money, mean] = [0, 0, 0];
  const filledLevels: FilledLevel[] = [];
  for (const [price, quantity] of levels) {
    const each = toSidePrice(side, price);
    if (!(each >= 0 && each <= 1 && quantity > 0)) continue;
    const remaining = 'contracts' in orderSize ? orderSize.contracts - contracts : (orderSize.dollars - money) / each;
    // A quantity of unknown size fills any order, but an order in dollars is bounded as in computeContracts.
    const available = quantity === Number.POSITIVE_INFINITY ? contractsMax : quantity;
    const isLast = remaining <= available;
    const quantityTaken = isLast ? remaining : available;
    if (!(quantityTaken > 0)) break;
    // The exact size of the order: a remainder from rounding would stay open and become a new order.
    contracts = isLast && 'contracts' in orderSize ? orderSize.contracts : contracts + quantityTaken;
    money += quantityTaken * each;
    mean += (each - mean) * Math.min(1, quantityTaken / contracts);
    filledLevels.push({ contracts: quantityTaken, contractPrice: each });
    if (isLast) break;
  }
  return { contracts, contractPrice: mean, levels: filledLevels };
}

/**
 * Whether an order in dollars is too small for one whole contract at the best price of a book, or at the price of a tick
 * (book null). It is then not placed.
 */
export function isBelowOneContract(
  side: Side,
  price: number,
  book: OrderBook | null,
  orderSize: OrderSize,
  terms: TradingTerms,
): boolean {
  if (!terms.isWhole || 'contracts' in orderSize) return false;
  if (book === null) {
    const { contracts, contractPrice } = buyAtTick(side, price, orderSize, terms);
    return contractPrice > 0 && contracts < 1;
  }
  const levels = book[getTakenSide(side, true)];
  const best = levels.find(([price, quantity]) => {
    const each = toSidePrice(side, price);
    return each > 0 && each <= 1 && quantity > 0;
  });
  return best !== undefined && computeContracts(orderSize, toSidePrice(side, best[0]), terms) < 1;
}
