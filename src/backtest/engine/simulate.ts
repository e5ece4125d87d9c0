import type { Window } from '../../base/window.ts';
import { resolveQuantity } from '../strategy/parse-strategy.ts';
import { contractsMax, type Rule, type Side, type Strategy } from '../strategy/strategy.ts';
import { compileSearch, type FindFirstTick } from './conditions.ts';
import { createMeasures, type Position } from './measures.ts';
import { countBelow, type Level, type OrderBook, type SymbolSeries } from './symbol-series.ts';

/** What was bought and what became of it; of what is sold in pieces each piece. Times are epoch milliseconds. */
export interface Trade {
  readonly symbol: string;
  /** Which of the strategy's rules, from 0. */
  readonly rule: number;
  readonly side: Side;
  readonly contracts: number;
  /** The tick that the entry was decided at, and the one that it was filled at. */
  readonly decided_at: number;
  readonly filled_at: number;
  /** The price of yes at the tick of the fill. */
  readonly price: number;
  /** Paid for a contract, and got for it: at a sale, at the settlement, or as it stands at the end of the run. */
  readonly paid: number;
  readonly got: number;
  readonly exit: 'sold' | 'settled' | 'open';
  /** The tick that the exit was decided at; null where it was not sold. */
  readonly exit_decided_at: number | null;
  readonly exited_at: number;
  /** Dollars; a settlement, and what is still held, has no fee of an exit. */
  readonly entry_fees: number;
  readonly exit_fees: number;
  /** Dollars, fees taken off. */
  readonly pnl: number;
}

/** A book that is older says nothing about a fill. */
export const bookAgeMsMax = 5 * 60_000;

/**
 * Plays a strategy on one symbol, tick by tick. A decision at a tick knows that tick and what was before it; it is filled
 * at the next tick whose price a contract can have: from the order book in force there, where there is one that is young
 * enough and no order of the rule has used, else at the tick's price. Trades in the order of their fills, by rule.
 * @param span decisions and fills lie in it; ticks before it are looked back on
 * @param throwIfStopped asked every some thousand ticks; what it throws ends the run
 */
export function simulate(series: SymbolSeries, strategy: Strategy, span: Window, goOn: () => void = () => {}): Trade[] {
  const end = countBelow(series.t, Math.min(span.to, series.settlement?.at ?? Number.POSITIVE_INFINITY));
  const start = countBelow(series.t, span.from);
  const costs = createTradingCosts(strategy);
  return strategy.rules.flatMap((rule, index) =>
    simulateRule({ series, strategy, rule, index, costs, throwIfStopped: goOn }, start, end, span.to),
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

/** Ticks that are looked at between two questions whether to go on. */
const ticksPerSearch = 8192;

/** What is held: contracts, when and at what they were bought. */
interface OpenPosition extends Pick<Trade, 'decided_at' | 'filled_at' | 'price' | 'paid'> {
  contracts: number;
  /** Fees of the entry, a contract. */
  readonly fee: number;
}

function simulateRule(playing: RuleSimulation, start: number, end: number, to: number): Trade[] {
  const { series, strategy, rule, index, costs } = playing;
  const { symbol, t, p, settlement } = series;
  const { side } = rule;
  const trades: Trade[] = [];
  const position: Position = {
    boughtAt: 0,
    cost: 0,
    ...(side === 'yes' ? { sign: 1, offset: 0 } : { sign: -1, offset: 1 }),
  };
  // Entry and exit are asked for ticks in one order, so they share what windows have come to.
  const measures = createMeasures(series, strategy);
  const entryFrom = compileSearch(rule.entry, strategy, measures, position);
  const exitFrom = rule.exit === null ? null : compileSearch(rule.exit, strategy, measures, position);
  const wanted = resolveOrderSize(rule, strategy);
  const bookOf = createBookLookup(series);
  let entriesLeft = rule.entries_max === null ? Number.POSITIVE_INFINITY : resolveQuantity(rule.entries_max, strategy);
  let held: OpenPosition | null = null;
  /** The tick that an order was decided at, -1 where there is none; it buys where nothing is held. */
  let decided = -1;

  /** The first tick from one on at which a condition holds; `end` where there is none. */
  function search(first: FindFirstTick, from: number): number {
    for (let at = from; at < end; at += ticksPerSearch) {
      playing.throwIfStopped();
      const upTo = Math.min(end, at + ticksPerSearch);
      const found = first(at, upTo);
      if (found < upTo) return found;
    }
    return end;
  }

  /** What an order got at a tick; null where it has to wait for another. */
  function filled(i: number): Fill | null {
    const price = p[i]!;
    if (!(price >= 0 && price <= 1)) return null;
    const book = bookOf(i);
    if (book === 'used') return null;
    const fill = held === null ? buy(price, book) : sell(held.contracts, price, book);
    if (!(fill.contracts > 0)) return null;
    bookOf.use();
    return fill;
  }
  const buy = (price: number, book: OrderBook | null): Fill =>
    book === null ? buyAtTick(side, price, wanted, costs) : buyFromBook(side, book, wanted);
  const sell = (contracts: number, price: number, book: OrderBook | null): Fill =>
    book === null ? sellAtTick(side, price, contracts, costs) : sellToBook(side, book, contracts);

  /** Ends so many of the contracts that are held. */
  function endOf(
    { decided_at, filled_at, price, paid, fee }: OpenPosition,
    { contracts, contractPrice }: Fill,
    how: Pick<Trade, 'exit' | 'exit_decided_at' | 'exited_at'>,
  ): void {
    const [entry_fees, exit_fees] = [
      contracts * fee,
      how.exit === 'sold' ? contracts * costs.computeFee(contractPrice) : 0,
    ];
    trades.push({
      symbol,
      rule: index,
      side,
      contracts,
      decided_at,
      filled_at,
      price,
      paid,
      got: contractPrice,
      ...how,
      entry_fees,
      exit_fees,
      pnl: contracts * (contractPrice - paid) - entry_fees - exit_fees,
    });
  }

  for (let i = start; i < end; i++) {
    if (decided >= 0) {
      const fill = filled(i);
      if (fill === null) continue;
      if (held === null) {
        entriesLeft--;
        const { contracts, contractPrice: paid } = fill;
        held = {
          contracts,
          decided_at: t[decided]!,
          filled_at: t[i]!,
          price: p[i]!,
          paid,
          fee: costs.computeFee(paid),
        };
        [position.boughtAt, position.cost] = [t[i]!, paid];
        decided = -1;
      } else {
        endOf(held, fill, { exit: 'sold', exit_decided_at: t[decided]!, exited_at: t[i]! });
        held.contracts -= fill.contracts;
        // Of a book that was too thin the rest goes on to the next.
        if (held.contracts > 0) continue;
        held = null;
        decided = -1;
      }
    }
    if (held === null) {
      if (entriesLeft < 1) break;
      decided = search(entryFrom, i);
    } else {
      // It is held until its end.
      if (exitFrom === null) break;
      decided = search(exitFrom, i);
    }
    // The next tick fills it.
    i = decided;
  }
  if (held !== null) {
    const settled = settlement !== null && settlement.at < to;
    const price = settled ? settlement.outcome : Math.min(1, Math.max(0, p[end - 1]!));
    const exited_at = settled ? settlement.at : t[end - 1]!;
    endOf(
      held,
      { contracts: held.contracts, contractPrice: toSidePrice(side, price) },
      {
        exit: settled ? 'settled' : 'open',
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
 * The book in force at a tick, for ticks in their order: the latest that is not too old, 'used' where the last fill was
 * from it already, null where there is none. `use` notes that the last one was filled from.
 */
function createBookLookup({ t, books }: SymbolSeries): ((i: number) => OrderBook | 'used' | null) & { use(): void } {
  let known = 0;
  let used = 0;
  let [latest, next] = [undefined as OrderBook | undefined, books.at(0)];
  const of = (i: number): OrderBook | 'used' | null => {
    for (; next !== undefined && next.t <= t[i]!; next = books.at(known)) {
      latest = next;
      known++;
    }
    if (latest === undefined || latest.t < t[i]! - bookAgeMsMax) return null;
    return used === known ? 'used' : latest;
  };
  const use = (): void => {
    used = known;
  };
  return Object.assign(of, { use });
}

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
    // See computeContracts.
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
