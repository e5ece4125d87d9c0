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
import type { SymbolSeries } from './symbol-series.ts';

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
    const task = { series, strategy, rule, index, orderSize, terms, throwIfStopped };
    return new RuleSimulation(task, end).run(start, span.to);
  });
}

interface RuleTask {
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

interface OpenPosition extends Pick<Trade, 'decided_at' | 'filled_at' | 'price' | 'entry_price' | 'entry_fill'> {
  contracts: number;
  readonly computeEntryFee: DividedFee;
}

/** The simulation of one rule on the ticks before `end`. */
class RuleSimulation {
  private readonly task: RuleTask;
  private readonly end: number;
  private readonly trades: Trade[] = [];
  /** What the conditions read of the open position. */
  private readonly position: Position;
  private readonly findEntry: FindFirstTick;
  private readonly findExit: FindFirstTick | null;
  private readonly books: ReturnType<typeof createBookLookup>;
  private entriesLeft: number;
  private open: OpenPosition | null = null;

  constructor(task: RuleTask, end: number) {
    const { series, strategy, rule } = task;
    this.task = task;
    this.end = end;
    const payout = rule.side === 'yes' ? ({ sign: 1, offset: 0 } as const) : ({ sign: -1, offset: 1 } as const);
    this.position = { boughtAt: 0, cost: 0, ...payout };
    // Entry and exit conditions read the ticks in the same order, so they share their measures.
    const measures = createMeasures(series, strategy);
    this.findEntry = compileFindFirst(rule.entry, strategy, measures, this.position);
    this.findExit = rule.exit === null ? null : compileFindFirst(rule.exit, strategy, measures, this.position);
    this.books = createBookLookup(series);
    this.entriesLeft =
      rule.entries_max === null ? Number.POSITIVE_INFINITY : resolveQuantity(rule.entries_max, strategy);
  }

  run(start: number, to: number): Trade[] {
    /** Tick of the pending decision, -1 if there is none. It is an entry if no position is open. */
    let decidedTick = -1;
    for (let i = start; i < this.end; i++) {
      if (decidedTick >= 0 && !this.fillOrder(i, decidedTick)) continue;
      const find = this.open === null ? this.findEntry : this.findExit;
      // Without an exit condition the position is held until the end.
      if (find === null || (this.open === null && this.entriesLeft < 1)) break;
      decidedTick = this.search(find, i);
      // The order is filled at the next tick.
      i = decidedTick;
    }
    if (this.open !== null) this.endOpen(this.open, to);
    return this.trades;
  }

  /** The first tick from `from` at which a condition holds; `end` if there is none. */
  private search(findFirst: FindFirstTick, from: number): number {
    for (let at = from; at < this.end; at += ticksPerSearch) {
      this.task.throwIfStopped();
      const searchEnd = Math.min(this.end, at + ticksPerSearch);
      const foundTick = findFirst(at, searchEnd);
      if (foundTick < searchEnd) return foundTick;
    }
    return this.end;
  }

  /** Fills the pending order at a tick, if it can be filled there. @returns false if it is still pending */
  private fillOrder(i: number, decidedTick: number): boolean {
    const { t, p } = this.task.series;
    const fill = this.findFill(i);
    if (fill === 'waiting') return false;
    if (fill === 'too small') return true;
    if (this.open === null) {
      this.entriesLeft--;
      const { contracts, contractPrice } = fill;
      this.open = {
        contracts,
        decided_at: t[decidedTick]!,
        filled_at: t[i]!,
        price: p[i]!,
        entry_price: contractPrice,
        entry_fill: fill.basis,
        computeEntryFee: this.task.terms.divideFee(fill),
      };
      [this.position.boughtAt, this.position.cost] = [t[i]!, contractPrice];
      return true;
    }
    this.close(this.open, fill, {
      exit_fill: fill.basis,
      exit_reason: 'sold',
      exit_decided_at: t[decidedTick]!,
      exited_at: t[i]!,
      exit_fees: this.task.terms.computeFee(fill, 'sell'),
    });
    this.open.contracts -= fill.contracts;
    // If the book or the quote is too thin, the remaining contracts are sold at later ticks.
    if (this.open.contracts > 0) return false;
    this.open = null;
    return true;
  }

  /** The fill of the pending order at a tick; 'waiting' if it cannot be filled there, 'too small' if it is not placed. */
  private findFill(i: number): (Fill & { readonly basis: FillBasis }) | 'waiting' | 'too small' {
    const { task, open, books } = this;
    const { orderSize, terms } = task;
    const { side } = task.rule;
    const price = task.series.p[i]!;
    if (!(price >= 0 && price <= 1)) return 'waiting';
    const takes = getTakenSide(side, open === null);
    const found = books.find(i, takes);
    if (found === 'used') return 'waiting';
    const book = found === null ? null : found.book;
    if (open === null && isBelowOneContract(side, price, book, orderSize, terms)) return 'too small';
    const buy = (): Fill =>
      book === null ? buyAtTick(side, price, orderSize, terms) : buyFromBook(side, book, orderSize, terms);
    const sell = (contracts: number): Fill =>
      book === null ? sellAtTick(side, price, contracts, terms) : sellToBook(side, book, contracts, terms);
    const fill = open === null ? buy() : sell(open.contracts);
    if (!(fill.contracts > 0)) return 'waiting';
    if (found === null) return { ...fill, basis: 'tick' };
    books.use(takes);
    return { ...fill, basis: found.basis };
  }

  /** Closes a part of the position. */
  private close(
    { decided_at, filled_at, price, entry_price, entry_fill, computeEntryFee }: OpenPosition,
    { contracts, contractPrice }: Pick<Fill, 'contracts' | 'contractPrice'>,
    { exit_fees, ...exit }: Pick<Trade, 'exit_fill' | 'exit_reason' | 'exit_decided_at' | 'exited_at' | 'exit_fees'>,
  ): void {
    const { series, index, rule } = this.task;
    const entry_fees = computeEntryFee(contracts);
    this.trades.push({
      symbol: series.symbol,
      rule: index,
      side: rule.side,
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

  /** Closes the position that is open at the end: at the settlement, or at the last price. */
  private endOpen(held: OpenPosition, to: number): void {
    const { t, p, settlement } = this.task.series;
    const settled = settlement !== null && settlement.at < to;
    const price = settled ? settlement.outcome : Math.min(1, Math.max(0, p[this.end - 1]!));
    const fill = { contracts: held.contracts, contractPrice: toSidePrice(this.task.rule.side, price) };
    this.close(held, fill, {
      exit_fill: null,
      exit_reason: settled ? 'settled' : 'open',
      exit_decided_at: null,
      exited_at: settled ? settlement.at : t[this.end - 1]!,
      exit_fees: 0,
    });
  }
}
