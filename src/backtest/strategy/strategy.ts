/**
 * A strategy, as data: what it does follows from values alone, and nothing of it is run as code. Times and windows are
 * milliseconds, prices are those of a contract that pays 1 if the market resolves to yes.
 */
export interface Strategy {
  /** What its numbers may refer to by name, with the value that holds where a run names none. */
  readonly parameters: Readonly<Record<string, number>>;
  /** Each of them holds one position a symbol at a time, whatever the others do. */
  readonly rules: readonly Rule[];
  readonly fees: Fees;
  /** What a fill at a tick costs beyond its price, either way; none where an order book tells the price. */
  readonly slippage: Quantity;
}

/** A number, or the parameter that has it; `times` so much, 1 by default. */
export type Quantity = number | { readonly parameter: string; readonly times?: number };

export interface Rule {
  /** What it buys: contracts that pay 1 at yes, or such that pay 1 at no and cost 1 less the price. */
  readonly side: Side;
  readonly entry: Condition;
  /** Null: what was bought is held until it is settled, or the run ends. */
  readonly exit: Condition | null;
  readonly size: Size;
  /** Times that it may enter a symbol; null: without bound. */
  readonly entries_max: Quantity | null;
}

/** Contracts of one order, whatever money would buy. */
export const contractsMax = 1e9;

export type Side = 'yes' | 'no';

/** So many contracts, or as many as so much money buys at the price of the fill. */
export type Size = { readonly contracts: Quantity } | { readonly dollars: Quantity };

/** Of every contract that is bought or sold; a settlement is free. All are added up. */
export interface Fees {
  /** Dollars a contract. */
  readonly per_contract: Quantity;
  /** A share of what is paid or got. */
  readonly of_notional: Quantity;
  /** A share of p (1 - p), as Kalshi takes it (0.07 there, rounded up by the order, which is left out here). */
  readonly of_variance: Quantity;
}

/** `all` of none holds always, `any` of none never. */
export type Condition =
  | { readonly all: readonly Condition[] }
  | { readonly any: readonly Condition[] }
  | NumberTest
  | CategoryTest;

/** Holds where every bound that is named does; never where a measure is not known. */
export interface NumberTest extends Measure {
  readonly above?: Operand;
  readonly at_least?: Operand;
  readonly below?: Operand;
  readonly at_most?: Operand;
}

export const boundNames = ['above', 'at_least', 'below', 'at_most'] as const;
export type Bound = (typeof boundNames)[number];

/** Holds where the market's category is known and among these, or not among those. */
export interface CategoryTest {
  readonly measure: 'category';
  readonly in?: readonly string[];
  readonly not_in?: readonly string[];
}

/** What a measure is compared with. */
export type Operand = Quantity | Measure;

/** What can be known of a symbol at the moment of a tick. `window_ms` where `windowed` names it, and only there. */
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

/** Measures that look back over a window, which ends with the tick and leaves its own start out. */
export const windowedMeasures: ReadonlySet<string> = new Set<MeasureName>([
  'return',
  'moving_average',
  'z_score',
  'venue_spread',
]);

/** Measures of a position, which only an exit has. */
export const positionMeasures: ReadonlySet<string> = new Set<MeasureName>(['held_ms', 'gain']);

/** Bounds of a strategy: rules, conditions in all of it, how deep they stand in each other, parameters, categories. */
export const strategyLimits = { rules: 8, conditions: 100, depth: 8, parameters: 20, categories: 100 } as const;

/** The longest window: a year. */
export const windowMsMax = 366 * 86_400_000;
