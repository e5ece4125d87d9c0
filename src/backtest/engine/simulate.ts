import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import type { Window } from '../../base/window.ts';
import type { Rule, Strategy } from '../../contract/strategy-language.ts';
import type { FillBasis, Trade } from '../../contract/trade-fields.ts';
import { resolveQuantity } from '../strategy/strategy.ts';
import { createBookLookup } from './book-lookup.ts';
import { compileFindFirst, type FindFirstTick } from './conditions.ts';
import type { DividedFee, Fill } from './fees.ts';
import {
  buyAtTick,
  buyFromBook,
  createTradingTerms,
  getTakenSide,
  isBelowOneContract,
  type OrderSize,
  resolveOrderSize,
  sellAtTick,
  sellToBook,
  type TradingTerms,
  toSidePrice,
} from './fills.ts';
import { createMeasures, type Position } from './measures.ts';
import type { OrderBook, SymbolSeries } from './series.ts';

/**
 * Simulates a strategy on one symbol, tick by tick. A decision uses data up to its tick. The order is filled at the next tick
 * with a price in [0, 1]: from the latest order book or quote, see `createBookLookup`, or at the price of the tick if there is
 * none. With whole contracts, a decision is dropped if its order is smaller than one contract. Returns trades by rule, in the
 * order of fills.
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
  const terms = createTradingTerms(strategy);
  return strategy.rules.flatMap((rule, index) => {
    const orderSize = resolveOrderSize(rule, strategy, terms);
    if (orderSize === null) return [];
    return simulateRule({ series, strategy, rule, index, orderSize, terms, throwIfStopped }, start, end, span.to);
  });
}

interface RuleSimulation {
  readonly series: SymbolSeries;
  readonly strategy: Strategy;
  readonly rule: Rule;
  readonly index: number;
  readonly orderSize: OrderSize;
  readonly terms: TradingTerms;
  throwIfStopped(): void;
}

/** Number of ticks between two calls of throwIfStopped. */
const ticksPerSearch = 8192;

/** The open position of a rule. */
interface OpenPosition extends Pick<Trade, 'decided_at' | 'filled_at' | 'price' | 'entry_price' | 'entry_fill'> {
  contracts: number;
  readonly computeEntryFee: DividedFee;
}

function simulateRule(simulation: RuleSimulation, start: number, end: number, to: number): Trade[] {
  const { series, strategy, rule, index, orderSize, terms } = simulation;
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
  const books = createBookLookup(series);
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

  /** The fill of the pending order at a tick; 'waiting' if it cannot be filled there, 'too small' if it is not placed. */
  function filled(i: number): (Fill & { readonly basis: FillBasis }) | 'waiting' | 'too small' {
    const price = p[i]!;
    if (!(price >= 0 && price <= 1)) return 'waiting';
    const takes = getTakenSide(side, openPosition === null);
    const found = books.find(i, takes);
    if (found === 'used') return 'waiting';
    const book = found === null ? null : found.book;
    if (openPosition === null && isBelowOneContract(side, price, book, orderSize, terms)) return 'too small';
    const fill = openPosition === null ? buy(price, book) : sell(openPosition.contracts, price, book);
    if (!(fill.contracts > 0)) return 'waiting';
    if (found === null) return { ...fill, basis: 'tick' };
    books.use(takes);
    return { ...fill, basis: found.basis };
  }
  const buy = (price: number, book: OrderBook | null): Fill =>
    book === null ? buyAtTick(side, price, orderSize, terms) : buyFromBook(side, book, orderSize, terms);
  const sell = (contracts: number, price: number, book: OrderBook | null): Fill =>
    book === null ? sellAtTick(side, price, contracts, terms) : sellToBook(side, book, contracts, terms);

  /** Closes a part of the position. */
  function endOf(
    held: OpenPosition,
    { contracts, contractPrice }: Pick<Fill, 'contracts' | 'contractPrice'>,
    exitFields: Pick<Trade, 'exit_fill' | 'exit_reason' | 'exit_decided_at' | 'exited_at' | 'exit_fees'>,
  ): void {
    const { decided_at, filled_at, price, entry_price, entry_fill, computeEntryFee } = held;
    const entry_fees = computeEntryFee(contracts);
    const { exit_fees, ...exit } = exitFields;
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
      entry_fill,
      ...exit,
      entry_fees,
      exit_fees,
      pnl: contracts * (contractPrice - entry_price) - entry_fees - exit_fees,
    });
  }

  for (let i = start; i < end; i++) {
    if (decidedTick >= 0) {
      const fill = filled(i);
      if (fill === 'waiting') continue;
      if (fill === 'too small') decidedTick = -1;
      else if (openPosition === null) {
        entriesLeft--;
        const { contracts, contractPrice } = fill;
        openPosition = {
          contracts,
          decided_at: t[decidedTick]!,
          filled_at: t[i]!,
          price: p[i]!,
          entry_price: contractPrice,
          entry_fill: fill.basis,
          computeEntryFee: terms.divideFee(fill),
        };
        [position.boughtAt, position.cost] = [t[i]!, contractPrice];
        decidedTick = -1;
      } else {
        endOf(openPosition, fill, {
          exit_fill: fill.basis,
          exit_reason: 'sold',
          exit_decided_at: t[decidedTick]!,
          exited_at: t[i]!,
          exit_fees: terms.computeFee(fill, 'sell'),
        });
        openPosition.contracts -= fill.contracts;
        // If the book or the quote is too thin, the remaining contracts are sold at later ticks.
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
        exit_fill: null,
        exit_reason: settled ? 'settled' : 'open',
        exit_decided_at: null,
        exited_at,
        exit_fees: 0,
      },
    );
  }
  return trades;
}
