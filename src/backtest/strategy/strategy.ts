import { dayMs } from '../../base/window.ts';

/**
 * A strategy as data. It contains no code to execute. Times and windows in milliseconds; prices are those of a contract that
 * pays 1 if the market resolves to yes.
 */
export interface Strategy {
  /** Parameters by name, with their default values. Quantities can refer to them. */
  readonly parameters: Readonly<Record<string, number>>;
  /** Each rule holds at most one position per symbol, independent of other rules. */
  readonly rules: readonly Rule[];
  readonly fees: Fees;
  /** Added to the price of a buy and subtracted from that of a sale. Does not apply to fills from an order book or at a quote. */
  readonly slippage: Quantity;
  /**
   * Whether orders are rounded down to whole contracts, and not placed below one contract. Null: as the fee schedule implies
   * (`tradesWholeContracts`).
   */
  readonly whole_contracts: boolean | null;
}

/** A number, or a parameter multiplied by `times` (default 1). */
export type Quantity = number | { readonly parameter: string; readonly times?: number };

export interface Rule {
  /**
   * `yes` contracts pay 1 if the market resolves to yes; `no` contracts pay 1 if it resolves to no, and cost 1 minus
   * the price.
   */
  readonly side: Side;
  readonly entry: Condition;
  /** Null: holds until settlement or the end of the run. */
  readonly exit: Condition | null;
  readonly size: Size;
  /** Maximum entries per symbol; null: unlimited. */
  readonly entries_max: Quantity | null;
}

/** Maximum contracts of one order. */
export const contractsMax = 1e9;

export type Side = 'yes' | 'no';

/** Size in contracts, or in dollars at the price of the fill. */
export type Size = { readonly contracts: Quantity } | { readonly dollars: Quantity };

/** A settlement is free. */
export type Fees = ContractFees | KalshiFees | PolymarketFees;

/** Fees per contract bought or sold, not rounded; their sum applies. */
export interface ContractFees {
  /** Dollars per contract. */
  readonly per_contract: Quantity;
  /** Share of the price paid or received. */
  readonly of_notional: Quantity;
  /** Share of p (1 - p), where p is the price. */
  readonly of_variance: Quantity;
}

/**
 * The trading fees of Kalshi for series with a quadratic fee, of each order: `engine/fees.ts` has the formula and its sources.
 * Series with a flat fee are not covered.
 */
export interface KalshiFees {
  readonly schedule: 'kalshi';
  /** A taker pays 0.07 p (1 - p) per contract, a maker 0.0175 p (1 - p). Most series have no fee for makers. */
  readonly liquidity: (typeof kalshiLiquidities)[number];
  /** Factor of the series, `fee_multiplier` in Kalshi's list of series: usually 1. */
  readonly multiplier: Quantity;
  /** Precision of the member's balance: a cent, or a centicent (0.0001 dollars) for direct members. */
  readonly rounding: (typeof kalshiRoundings)[number];
}

/** The taker fees of Polymarket, of each order: `engine/fees.ts` has the formula and its sources. */
export interface PolymarketFees {
  readonly schedule: 'polymarket';
  /** `feeSchedule.rate` of the market. It differs between categories and has changed over time. */
  readonly rate: Quantity;
  /** `feeSchedule.exponent` of the market, a whole number: usually 1. */
  readonly exponent: number;
}

export const feeSchedules = ['kalshi', 'polymarket'] as const;
export const kalshiLiquidities = ['taker', 'maker'] as const;
export const kalshiRoundings = ['cent', 'centicent'] as const;

/** Maximum multiplier of a series, and exponent of a market. */
export const feeLimits = { multiplier: 10, exponent: 4 } as const;

/**
 * Whether a strategy trades whole contracts only. By default it does with the fees of Kalshi, whose contracts are whole in
 * most markets; shares of Polymarket are not.
 */
export const tradesWholeContracts = ({ fees, whole_contracts }: Pick<Strategy, 'fees' | 'whole_contracts'>): boolean =>
  whole_contracts ?? ('schedule' in fees && fees.schedule === 'kalshi');

/** An empty `all` is true, an empty `any` is false. */
export type Condition =
  | { readonly all: readonly Condition[] }
  | { readonly any: readonly Condition[] }
  | NumberTest
  | CategoryTest;

/** True if all given bounds hold; false if a measure is unknown. */
export interface NumberTest extends Measure {
  readonly above?: Operand;
  readonly at_least?: Operand;
  readonly below?: Operand;
  readonly at_most?: Operand;
}

export const boundNames = ['above', 'at_least', 'below', 'at_most'] as const;
export type Bound = (typeof boundNames)[number];

/** True if the category is known and in `in`, or not in `not_in`. */
export interface CategoryTest {
  readonly measure: 'category';
  readonly in?: readonly string[];
  readonly not_in?: readonly string[];
}

/** Right side of a comparison. */
export type Operand = Quantity | Measure;

/** A value known at a tick. `window_ms` is required for `windowedMeasures` and not allowed for others. */
export interface Measure {
  readonly measure: MeasureName;
  readonly window_ms?: Quantity;
}

export const measureNames = [
  'price',
  'return',
  'moving_average',
  'z_score',
  'venue_spread',
  'time_to_close_ms',
  'confidence',
  'held_ms',
  'gain',
] as const;
export type MeasureName = (typeof measureNames)[number];

/** Measures over a window (t - window_ms, t]. */
export const windowedMeasures: ReadonlySet<string> = new Set<MeasureName>([
  'return',
  'moving_average',
  'z_score',
  'venue_spread',
]);

/** Measures of the position, allowed only in exits. */
export const positionMeasures: ReadonlySet<string> = new Set<MeasureName>(['held_ms', 'gain']);

/** Maximum number of rules, of conditions in total, nesting depth, parameters, and categories per test. */
export const strategyLimits = { rules: 8, conditions: 100, depth: 8, parameters: 20, categories: 100 } as const;

/** Maximum window: one year. */
export const windowMsMax = 366 * dayMs;
