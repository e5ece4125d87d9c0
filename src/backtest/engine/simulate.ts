import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import { minuteMs, type Window } from '../../base/window.ts';
import { resolveQuantity } from '../strategy/parse-strategy.ts';
import { contractsMax, type Rule, type Side, type Strategy } from '../strategy/strategy.ts';
import { compileFindFirst, type FindFirstTick } from './conditions.ts';
import { createMeasures, type Position } from './measures.ts';
import type { Level, OrderBook, SymbolSeries } from './series.ts';

/** A trade: an entry and its exit. A position sold in parts gives one trade per part. Times in epoch ms. */
export interface Trade {
  readonly symbol: string;
  /** Index of the rule in the strategy. */
  readonly rule: number;
  readonly side: Side;
  readonly contracts: number;
  /** Tick of the entry decision, and tick of its fill. */
  readonly decided_at: number;
  readonly filled_at: number;
  /** The price of yes at the tick of the fill. */
  readonly price: number;
  /** Entry and exit price per contract. The exit price of an open trade is the last price. */
  readonly entry_price: number;
  readonly exit_price: number;
  readonly exit_reason: 'sold' | 'settled' | 'open';
  /** Tick of the exit decision; null if the contracts were not sold. */
  readonly exit_decided_at: number | null;
  readonly exited_at: number;
  /** Dollars. Settled and open trades have no exit fee. */
  readonly entry_fees: number;
  readonly exit_fees: number;
  /** Dollars, after fees. */
  readonly pnl: number;
}

/** Maximum age of an order book for a fill. */
export const bookAgeMsMax = 5 * minuteMs;

/**
 * Simulates a strategy on one symbol, tick by tick. A decision uses data up to its tick. The order is filled at the next tick
 * with a price in [0, 1]: from the latest order book, if it is recent and not yet used by an order of the rule, otherwise at
 * the price of the tick. Returns trades by rule, in the order of fills.
 * @param span window of decisions and fills; earlier ticks are used only for lookback
 * @param throwIfStopped called every few thousand ticks; ends the run by throwing
 */
export function simulate(
  series: SymbolSeries,
  strategy: Strategy,
  span: Window,
  throwIfStopped: () => void = () => {},
): Trade[] {
  const end = findFirstAtOrAfter(series.t, Math.min(span.to, series.settlement?.at ?? Number.POSITIVE_INFINITY));
  const start = findFirstAtOrAfter(series.t, span.from);
  const costs = createTradingCosts(strategy);
  return strategy.rules.flatMap((rule, index) =>
    simulateRule({ series, strategy, rule, index, costs, throwIfStopped: throwIfStopped }, start, end, span.to),
  );
}

interface RuleSimulation {
  readonly series: SymbolSeries;
  readonly strategy: Strategy;
  readonly rule: Rule;
  readonly index: number;
  readonly costs: TradingCosts;
  throwIfStopped(): void;
}

/** Number of ticks between two calls of throwIfStopped. */
const ticksPerSearch = 8192;

/** The open position of a rule. */
interface OpenPosition extends Pick<Trade, 'decided_at' | 'filled_at' | 'price' | 'entry_price'> {
  contracts: number;
  /** Entry fee per contract. */
  readonly fee: number;
}

function simulateRule(simulation: RuleSimulation, start: number, end: number, to: number): Trade[] {
  const { series, strategy, rule, index, costs } = simulation;
  const { symbol, t, p, settlement } = series;
  const { side } = rule;
  const trades: Trade[] = [];
  const position: Position = {
    boughtAt: 0,
    cost: 0,
    ...(side === 'yes' ? { sign: 1, offset: 0 } : { sign: -1, offset: 1 }),
  };
  // Entry and exit conditions read the ticks in the same order, so they share their measures.
  const measures = createMeasures(series, strategy);
  const entryFrom = compileFindFirst(rule.entry, strategy, measures, position);
  const exitFrom = rule.exit === null ? null : compileFindFirst(rule.exit, strategy, measures, position);
  const orderSize = resolveOrderSize(rule, strategy);
  const bookOf = createBookLookup(series);
  let entriesLeft = rule.entries_max === null ? Number.POSITIVE_INFINITY : resolveQuantity(rule.entries_max, strategy);
  let openPosition: OpenPosition | null = null;
  /** Tick of the pending decision, -1 if there is none. It is an entry if no position is open. */
  let decidedTick = -1;

  /** The first tick from `from` at which a condition holds; `end` if there is none. */
  function search(findFirst: FindFirstTick, from: number): number {
    for (let at = from; at < end; at += ticksPerSearch) {
      simulation.throwIfStopped();
      const searchEnd = Math.min(end, at + ticksPerSearch);
      const foundTick = findFirst(at, searchEnd);
      if (foundTick < searchEnd) return foundTick;
    }
    return end;
  }

  /** The fill of the pending order at a tick; null if it cannot be filled there. */
  function filled(i: number): Fill | null {
    const price = p[i]!;
    if (!(price >= 0 && price <= 1)) return null;
    const book = bookOf(i);
    if (book === 'used') return null;
    const fill = openPosition === null ? buy(price, book) : sell(openPosition.contracts, price, book);
    if (!(fill.contracts > 0)) return null;
    bookOf.use();
    return fill;
  }
  const buy = (price: number, book: OrderBook | null): Fill =>
    book === null ? buyAtTick(side, price, orderSize, costs) : buyFromBook(side, book, orderSize);
  const sell = (contracts: number, price: number, book: OrderBook | null): Fill =>
    book === null ? sellAtTick(side, price, contracts, costs) : sellToBook(side, book, contracts);

  /** Closes a part of the position. */
  function endOf(
    { decided_at, filled_at, price, entry_price, fee }: OpenPosition,
    { contracts, contractPrice }: Fill,
    exitFields: Pick<Trade, 'exit_reason' | 'exit_decided_at' | 'exited_at'>,
  ): void {
    const [entry_fees, exit_fees] = [
      contracts * fee,
      exitFields.exit_reason === 'sold' ? contracts * costs.computeFee(contractPrice) : 0,
    ];
    trades.push({
      symbol,
      rule: index,
      side,
      contracts,
      decided_at,
      filled_at,
      price,
      entry_price,
      exit_price: contractPrice,
      ...exitFields,
      entry_fees,
      exit_fees,
      pnl: contracts * (contractPrice - entry_price) - entry_fees - exit_fees,
    });
  }

  for (let i = start; i < end; i++) {
    if (decidedTick >= 0) {
      const fill = filled(i);
      if (fill === null) continue;
      if (openPosition === null) {
        entriesLeft--;
        const { contracts, contractPrice } = fill;
        openPosition = {
          contracts,
          decided_at: t[decidedTick]!,
          filled_at: t[i]!,
          price: p[i]!,
          entry_price: contractPrice,
          fee: costs.computeFee(contractPrice),
        };
        [position.boughtAt, position.cost] = [t[i]!, contractPrice];
        decidedTick = -1;
      } else {
        endOf(openPosition, fill, { exit_reason: 'sold', exit_decided_at: t[decidedTick]!, exited_at: t[i]! });
        openPosition.contracts -= fill.contracts;
        // If the book is too thin, the remaining contracts are sold at later ticks.
        if (openPosition.contracts > 0) continue;
        openPosition = null;
        decidedTick = -1;
      }
    }
    if (openPosition === null) {
      if (entriesLeft < 1) break;
      decidedTick = search(entryFrom, i);
    } else {
      // Without an exit condition the position is held until the end.
      if (exitFrom === null) break;
      decidedTick = search(exitFrom, i);
    }
    // The order is filled at the next tick.
    i = decidedTick;
  }
  if (openPosition !== null) {
    const settled = settlement !== null && settlement.at < to;
    const price = settled ? settlement.outcome : Math.min(1, Math.max(0, p[end - 1]!));
    const exited_at = settled ? settlement.at : t[end - 1]!;
    endOf(
      openPosition,
      { contracts: openPosition.contracts, contractPrice: toSidePrice(side, price) },
      {
        exit_reason: settled ? 'settled' : 'open',
        exit_decided_at: null,
        exited_at,
      },
    );
  }
  return trades;
}

const resolveOrderSize = ({ size }: Rule, strategy: Strategy): OrderSize =>
  'contracts' in size
    ? { contracts: resolveQuantity(size.contracts, strategy) }
    : { dollars: resolveQuantity(size.dollars, strategy) };

/**
 * Finds the order book at a tick, for ascending ticks: the latest one that is not too old, 'used' if the last fill was from
 * the same book, null if there is none. `use` marks the returned book as used.
 */
function createBookLookup({ t, books }: SymbolSeries): ((i: number) => OrderBook | 'used' | null) & { use(): void } {
  let seenCount = 0;
  let used = 0;
  let [latest, next] = [undefined as OrderBook | undefined, books.at(0)];
  const of = (i: number): OrderBook | 'used' | null => {
    for (; next !== undefined && next.t <= t[i]!; next = books.at(seenCount)) {
      latest = next;
      seenCount++;
    }
    if (latest === undefined || latest.t < t[i]! - bookAgeMsMax) return null;
    return used === seenCount ? 'used' : latest;
  };
  const use = (): void => {
    used = seenCount;
  };
  return Object.assign(of, { use });
}

/** A fill: number of contracts, and price per contract without fees. */
interface Fill {
  readonly contracts: number;
  readonly contractPrice: number;
}

/** Size of an order, in contracts or in dollars. */
type OrderSize = { readonly contracts: number } | { readonly dollars: number };

/** Fees and slippage of a strategy, with bound parameters. */
interface TradingCosts {
  /** Fee per contract at a price. */
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

/** Price of a contract of a side, given the price of yes. */
export const toSidePrice = (side: Side, price: number): number => (side === 'yes' ? price : 1 - price);

/** Fills the whole order at the price of a tick plus slippage. */
export function buyAtTick(side: Side, price: number, orderSize: OrderSize, { slippage }: TradingCosts): Fill {
  const each = Math.min(1, toSidePrice(side, price) + slippage);
  return { contracts: computeContracts(orderSize, each), contractPrice: each };
}

export const sellAtTick = (side: Side, price: number, contracts: number, { slippage }: TradingCosts): Fill => ({
  contracts,
  contractPrice: Math.max(0, toSidePrice(side, price) - slippage),
});

/** Number of contracts of an order at a price. An order in dollars is bounded, and is 0 at a price of 0. */
const computeContracts = (orderSize: OrderSize, each: number): number => {
  if ('contracts' in orderSize) return orderSize.contracts;
  return each > 0 ? Math.min(contractsMax, orderSize.dollars / each) : 0;
};

/** Fills a buy order from a book, possibly in part or with 0 contracts. Buying no takes the bids for yes. */
export const buyFromBook = (side: Side, book: OrderBook, orderSize: OrderSize): Fill =>
  fillFromLevels(side, side === 'yes' ? book.asks : book.bids, orderSize);

export const sellToBook = (side: Side, book: OrderBook, contracts: number): Fill =>
  fillFromLevels(side, side === 'yes' ? book.bids : book.asks, { contracts });

/** Fills the order level by level, starting at the best price. */
function fillFromLevels(side: Side, levels: readonly Level[], orderSize: OrderSize): Fill {
  // A running mean is exact for a single level.
  let [contracts, money, mean] = [0, 0, 0];
  for (const [price, quantity] of levels) {
    const each = toSidePrice(side, price);
    if (!(each >= 0 && each <= 1 && quantity > 0)) continue;
    // An order in dollars has no size at a price of 0, as in computeContracts.
    if ('dollars' in orderSize && each === 0) continue;
    const remaining = 'contracts' in orderSize ? orderSize.contracts - contracts : (orderSize.dollars - money) / each;
    const isLast = remaining <= quantity;
    const quantityTaken = isLast ? remaining : quantity;
    if (!(quantityTaken > 0)) break;
    // The exact size of the order: a remainder from rounding would stay open and become a new order.
    contracts = isLast && 'contracts' in orderSize ? orderSize.contracts : contracts + quantityTaken;
    money += quantityTaken * each;
    mean += (each - mean) * Math.min(1, quantityTaken / contracts);
    if (isLast) break;
  }
  return { contracts, contractPrice: mean };
}
