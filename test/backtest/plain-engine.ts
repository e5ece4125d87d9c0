import { bookAgeMsMax, quoteAgeMsMax } from '../../src/backtest/engine/book-lookup.ts';
import type {
  Level,
  MarketState,
  OrderBook,
  OrderBookSeries,
  SymbolSeries,
} from '../../src/backtest/engine/symbol-series.ts';
import type { Window } from '../../src/base/window.ts';
import {
  type Condition,
  contractsMax,
  type Measure,
  type Operand,
  type Quantity,
  type Rule,
  type Strategy,
} from '../../src/contract/strategy-language.ts';
import type { Trade } from '../../src/contract/trade-fields.ts';

// A simple reference engine: at each tick it gets copies of the data up to that tick, and recomputes everything.

/** All data known at a time. */
interface Known {
  readonly now: number;
  readonly t: readonly number[];
  readonly p: readonly number[];
  readonly states: readonly MarketState[];
  readonly books: readonly OrderBook[];
  readonly quotes: readonly OrderBook[];
  /** Venues with a known match. */
  readonly others: readonly { readonly t: readonly number[]; readonly p: readonly number[] }[];
}

export const listBooks = (books: OrderBookSeries): OrderBook[] =>
  Array.from({ length: books.length }, (_, i) => books.at(i)!);

function knownAt({ t, p, states, books, quotes, otherVenues }: SymbolSeries, now: number): Known {
  const cut = (times: Float64Array, prices: Float64Array) => {
    const kept = [...times].flatMap((time, i) => (time <= now ? [[time, prices[i]!] as const] : []));
    return { t: kept.map(([time]) => time), p: kept.map(([, price]) => price) };
  };
  return {
    now,
    ...cut(t, p),
    states: structuredClone(states.filter(({ from }) => from <= now)),
    books: structuredClone(listBooks(books).filter((book) => book.t <= now)),
    quotes: structuredClone(listBooks(quotes).filter((quote) => quote.t <= now)),
    others: otherVenues
      .filter(({ sharedWindows }) => sharedWindows.some(({ from, to }) => from <= now && now < to))
      .map((other) => cut(other.t, other.p)),
  };
}

interface PlainOffer extends OrderBook {
  readonly basis: 'book' | 'quote';
}

/** The latest of all books and quotes, books last at equal times, if it is not too old. */
export function findOffer({ now, books, quotes }: Pick<Known, 'now' | 'books' | 'quotes'>): PlainOffer | null {
  const all: PlainOffer[] = [
    ...quotes.map((quote) => ({ ...quote, basis: 'quote' as const })),
    ...books.map((book) => ({ ...book, basis: 'book' as const })),
  ];
  const last = all.sort((a, b) => a.t - b.t).at(-1);
  return last === undefined || now - last.t > (last.basis === 'book' ? bookAgeMsMax : quoteAgeMsMax) ? null : last;
}

interface Held {
  readonly side: Rule['side'];
  readonly since: number;
  readonly cost: number;
}

const numberOf = (quantity: Quantity, strategy: Pick<Strategy, 'parameters'>): number =>
  typeof quantity === 'number' ? quantity : strategy.parameters[quantity.parameter]! * (quantity.times ?? 1);

const worthOf = (side: Rule['side'], price: number): number => (side === 'yes' ? price : 1 - price);

/** Undefined if unknown. */
function measured({ measure, window_ms }: Measure, known: Known, strategy: Strategy, open: Held | null) {
  const { now, t, p, states, others } = known;
  const windowStart = now - (window_ms === undefined ? 0 : numberOf(window_ms, strategy));
  const inside = p.filter((_, i) => t[i]! > windowStart);
  const before = p.filter((_, i) => t[i]! <= windowStart);
  const alike = inside.every((price) => price === inside[0]);
  // A price must not exceed itself by rounding.
  const mean = alike ? inside[0]! : inside.reduce((sum, price) => sum + price, 0) / inside.length;
  const state = states.at(-1);
  switch (measure) {
    case 'price':
      return p.at(-1)!;
    case 'return':
      return before.length > 0 && before.at(-1)! > 0 ? p.at(-1)! / before.at(-1)! - 1 : undefined;
    case 'moving_average':
      return before.length > 0 ? mean : undefined;
    case 'z_score': {
      if (before.length === 0 || alike) return undefined;
      const variance = inside.reduce((sum, price) => sum + (price - mean) ** 2, 0) / inside.length;
      return (p.at(-1)! - mean) / Math.sqrt(variance);
    }
    case 'venue_spread': {
      const seen = others.flatMap((other) =>
        other.t.length > 0 && other.t.at(-1)! > windowStart ? [other.p.at(-1)!] : [],
      );
      return seen.length === 0 ? undefined : p.at(-1)! - seen.reduce((sum, price) => sum + price, 0) / seen.length;
    }
    case 'time_to_close_ms':
      return state?.closesAt == null ? undefined : state.closesAt - now;
    case 'confidence':
      return state?.confidence ?? undefined;
    case 'held_ms':
      return now - open!.since;
    case 'gain':
      return worthOf(open!.side, p.at(-1)!) - open!.cost;
  }
}

function isTrue(condition: Condition, known: Known, strategy: Strategy, open: Held | null): boolean {
  if ('all' in condition) return condition.all.every((one) => isTrue(one, known, strategy, open));
  if ('any' in condition) return condition.any.some((one) => isTrue(one, known, strategy, open));
  if (condition.measure === 'category') {
    const category = known.states.at(-1)?.category ?? null;
    if (category === null) return false;
    return condition.in?.includes(category) ?? !condition.not_in!.includes(category);
  }
  const amountOf = (operand: Operand): number | undefined =>
    typeof operand === 'object' && 'measure' in operand
      ? measured(operand, known, strategy, open)
      : numberOf(operand, strategy);
  const value = measured(condition, known, strategy, open);
  const bound = (operand: Operand | undefined, fits: (x: number, y: number) => boolean): boolean => {
    if (operand === undefined) return true;
    const other = amountOf(operand);
    return value !== undefined && other !== undefined && fits(value, other);
  };
  return (
    bound(condition.above, (x, y) => x > y) &&
    bound(condition.at_least, (x, y) => x >= y) &&
    bound(condition.below, (x, y) => x < y) &&
    bound(condition.at_most, (x, y) => x <= y)
  );
}

type Order = { readonly contracts: number } | { readonly dollars: number };

interface Filled {
  readonly contracts: number;
  /** Mean price. */
  readonly each: number;
  readonly levels: readonly Level[];
}

/** Contracts and price of a fill. */
function filled(order: Order, levels: readonly Level[]): Filled {
  let left = 'contracts' in order ? order.contracts : order.dollars;
  let [contracts, money] = [0, 0];
  const prices = new Set<number>();
  const takenLevels: Level[] = [];
  for (const [each, quantity] of levels) {
    if (each < 0 || each > 1 || quantity <= 0 || ('dollars' in order && each === 0)) continue;
    const taken = Math.min(quantity, 'dollars' in order ? Math.min(contractsMax, left / each) : left);
    left -= 'dollars' in order ? taken * each : taken;
    contracts += taken;
    prices.add(each);
    takenLevels.push([each, taken]);
    money += taken * each;
    if (left <= 1e-12) break;
  }
  // A mean of equal prices would have a rounding error.
  return { contracts, each: prices.size === 1 ? [...prices][0]! : money / contracts, levels: takenLevels };
}

const floored = (contracts: number): number => Math.floor(contracts + 1e-9);

/** A fill of whole contracts. */
function filledWhole(order: Order, levels: readonly Level[]): Filled {
  // What is free has no price to which dollars could be turned.
  const priced = 'dollars' in order ? levels.filter(([each]) => each > 0) : levels;
  const contracts = floored(filled(order, priced).contracts);
  return contracts === 0 ? { contracts: 0, each: 0, levels: [] } : { ...filled({ contracts }, priced), contracts };
}

/** A number that is at least 0 as an integer of its last of `places` decimal places. */
const toDecimal = (value: number, places: number): bigint => BigInt(value.toFixed(places).replace('.', ''));

/** The least multiple of `step` that is at least `value`. */
const ceilTo = (value: bigint, step: bigint): bigint => {
  const rest = ((value % step) + step) % step;
  return rest === 0n ? value : value + step - rest;
};

/** The fee of an order. Those that are rounded are computed exactly: a sum of doubles may be on the wrong side of a step. */
function feeOf({ fees, parameters }: Strategy, { contracts, each, levels }: Filled, buys: boolean): number {
  const number = (quantity: Quantity): number => numberOf(quantity, { parameters });
  if (!('schedule' in fees)) {
    const { per_contract, of_notional, of_variance } = fees;
    return contracts * (number(per_contract) + number(of_notional) * each + number(of_variance) * each * (1 - each));
  }
  const decimals = levels.map(([p, c]) => ({ p: toDecimal(p, 9), c: toDecimal(c, 6) }));
  const sum = (value: (level: { p: bigint; c: bigint }) => bigint): bigint =>
    decimals.reduce((total, level) => total + value(level), 0n);
  if (fees.schedule === 'polymarket') {
    const places = 9 + 6 + 18 * fees.exponent;
    const exact =
      toDecimal(number(fees.rate), 9) * sum(({ p, c }) => c * (p * (10n ** 9n - p)) ** BigInt(fees.exponent));
    return Number(exact / 10n ** BigInt(places - 5)) / 1e5;
  }
  const rate = toDecimal(fees.liquidity === 'taker' ? 0.07 : 0.0175, 4) * toDecimal(number(fees.multiplier), 9);
  const exact = rate * sum(({ p, c }) => c * p * (10n ** 9n - p));
  // Of 37 places; the trade fee has 6, and money has 15.
  const tradeFee = (ceilTo(exact, 10n ** 31n) / 10n ** 31n) * 10n ** 9n;
  const money = sum(({ p, c }) => c * p) * (buys ? 1n : -1n);
  return Number(ceilTo(money + tradeFee, fees.rounding === 'cent' ? 10n ** 13n : 10n ** 11n) - money) / 1e15;
}

export const plainTrades = (series: SymbolSeries, strategy: Strategy, span: Window): Trade[] =>
  strategy.rules.flatMap((rule, index) => playedRule(series, strategy, rule, index, span));

interface PlainPosition {
  contracts: number;
  readonly bought: number;
  readonly fee: number;
}

function playedRule(series: SymbolSeries, strategy: Strategy, rule: Rule, index: number, span: Window): Trade[] {
  const { side, size } = rule;
  const number = (quantity: Quantity): number => numberOf(quantity, strategy);
  const slippage = number(strategy.slippage);
  const isWhole = strategy.whole_contracts ?? ('schedule' in strategy.fees && strategy.fees.schedule === 'kalshi');
  if (isWhole && 'contracts' in size && number(size.contracts) < 1) return [];
  const closing = series.settlement?.at ?? Number.POSITIVE_INFINITY;
  const moments = [...series.t].filter((t) => t >= span.from && t < span.to && t < closing);
  const trades: Trade[] = [];
  let pending: number | null = null;
  /** Time of the last offer used, and the sides that are used. */
  let used: { t: number; basis: string; sides: string[] } = { t: 0, basis: '', sides: [] };
  let entries = 0;
  let open: (Pick<Trade, 'entry_price' | 'decided_at' | 'filled_at' | 'price' | 'entry_fill'> & PlainPosition) | null =
    null;

  const levelsOf = (buys: boolean, known: Known): readonly Level[] | null => {
    const price = known.p.at(-1)!;
    const each = worthOf(side, price);
    const offer = findOffer(known);
    if (offer === null)
      return [[buys ? Math.min(1, each + slippage) : Math.max(0, each - slippage), Number.POSITIVE_INFINITY]];
    const takes = (side === 'yes') === buys ? 'asks' : 'bids';
    if (offer.t === used.t && offer.basis === used.basis && used.sides.includes(takes)) return null;
    return offer[takes].map(([level, quantity]) => [worthOf(side, level), quantity]);
  };
  const close = (
    contracts: number,
    exitPrice: number,
    exit_fees: number,
    how: Pick<Trade, 'exit_reason' | 'exit_decided_at' | 'exited_at' | 'exit_fill'>,
  ): void => {
    const { contracts: _, bought, fee, ...entry } = open!;
    const entry_fees = (fee * contracts) / bought;
    const pnl = contracts * (exitPrice - entry.entry_price) - entry_fees - exit_fees;
    trades.push({
      symbol: series.symbol,
      rule: index,
      side,
      contracts,
      ...entry,
      exit_price: exitPrice,
      ...how,
      entry_fees,
      exit_fees,
      pnl,
    });
  };

  for (const now of moments) {
    const known = knownAt(series, now);
    const price = known.p.at(-1)!;
    if (pending !== null) {
      if (price < 0 || price > 1) continue;
      const order: Order =
        open !== null
          ? { contracts: open.contracts }
          : 'contracts' in size
            ? { contracts: number(size.contracts) }
            : { dollars: number(size.dollars) };
      const levels: readonly Level[] | null = levelsOf(open === null, known);
      const best = levels?.find(([each, quantity]) => each > 0 && each <= 1 && quantity > 0);
      const isTooSmall =
        isWhole && open === null && 'dollars' in order && best !== undefined && floored(order.dollars / best[0]) < 1;
      if (!isTooSmall) {
        const fill: Filled | null = levels === null ? null : (isWhole ? filledWhole : filled)(order, levels);
        if (fill === null || fill.contracts === 0) continue;
        const [contracts, each]: [number, number] = [fill.contracts, fill.each];
        const offer = findOffer(known);
        const basis = offer?.basis ?? 'tick';
        if (offer !== null) {
          const takes = (side === 'yes') === (open === null) ? 'asks' : 'bids';
          const isSame = offer.t === used.t && offer.basis === used.basis;
          const hasSize = offer.basis === 'book' || offer[takes][0]![1] < Number.POSITIVE_INFINITY;
          const taken = !hasSize ? [] : offer.basis === 'book' ? ['bids', 'asks'] : [takes];
          used = { t: offer.t, basis: offer.basis, sides: [...(isSame ? used.sides : []), ...taken] };
        }
        const fee = feeOf(strategy, fill, open === null);
        if (open === null) {
          entries++;
          open = {
            contracts,
            bought: contracts,
            fee,
            entry_price: each,
            decided_at: pending,
            filled_at: now,
            price,
            entry_fill: basis,
          };
        } else {
          close(contracts, each, fee, {
            exit_reason: 'sold',
            exit_decided_at: pending,
            exited_at: now,
            exit_fill: basis,
          });
          open.contracts -= contracts;
          if (open.contracts > 1e-12) continue;
          open = null;
        }
      }
      pending = null;
    }
    const position: Held | null = open === null ? null : { side, since: open.filled_at, cost: open.entry_price };
    if (open === null) {
      const mayEnter = rule.entries_max === null || entries + 1 <= number(rule.entries_max);
      if (mayEnter && isTrue(rule.entry, known, strategy, null)) pending = now;
    } else if (rule.exit !== null && isTrue(rule.exit, known, strategy, position)) pending = now;
  }
  if (open !== null) {
    const { settlement } = series;
    const last = knownAt(series, moments.at(-1)!).p.at(-1)!;
    const settled = settlement !== null && settlement.at < span.to;
    close(open.contracts, worthOf(side, settled ? settlement.outcome : Math.min(1, Math.max(0, last))), 0, {
      exit_fill: null,
      exit_reason: settled ? 'settled' : 'open',
      exit_decided_at: null,
      exited_at: settled ? settlement.at : moments.at(-1)!,
    });
  }
  return trades;
}
