import type { ContractFees, KalshiFees, PolymarketFees, Strategy } from '../../contract/strategy-language.ts';
import { resolveQuantity } from '../strategy/strategy.ts';

/** Contracts that were filled at one price. */
export interface FilledLevel {
  readonly contracts: number;
  /** Dollars per contract of the side that is bought or sold, from 0 to 1. */
  readonly contractPrice: number;
}

/** A filled order: the total contracts, their mean price without fees, and the levels at which they were filled. */
export interface Fill extends FilledLevel {
  readonly levels: readonly FilledLevel[];
}

/** The fees of a strategy, in dollars. */
export interface FeeModel {
  /** Fee of a whole order, at least 0. */
  computeFee(fill: Fill, action: OrderAction): number;
  /** Divides the fee of a buy order among the parts in which its contracts are sold, in proportion to their contracts. */
  divideFee(fill: Fill): DividedFee;
}

export type OrderAction = 'buy' | 'sell';

/** Returns the share of a part with this number of contracts. */
export type DividedFee = (contracts: number) => number;

export function createFeeModel(strategy: Strategy): FeeModel {
  const { fees } = strategy;
  if (!('schedule' in fees)) return createContractFeeModel(fees, strategy);
  const computeFee =
    fees.schedule === 'kalshi' ? createKalshiFees(fees, strategy) : createPolymarketFees(fees, strategy);
  return {
    computeFee,
    divideFee(fill) {
      const fee = computeFee(fill, 'buy');
      return (contracts) => fee * (contracts / fill.contracts);
    },
  };
}

/** Fees per contract at the mean price of the order. */
function createContractFeeModel(fees: ContractFees, strategy: Strategy): FeeModel {
  const [perContract, ofNotional, ofVariance] = [fees.per_contract, fees.of_notional, fees.of_variance].map((fee) =>
    resolveQuantity(fee, strategy),
  );
  const computeFeeAt = (each: number): number => perContract! + ofNotional! * each + ofVariance! * each * (1 - each);
  return {
    computeFee: ({ contracts, contractPrice }) => contracts * computeFeeAt(contractPrice),
    divideFee({ contractPrice }) {
      const each = computeFeeAt(contractPrice);
      return (contracts) => contracts * each;
    },
  };
}

// The fees of venues are rounded, and a product of doubles may be on the wrong side of a cent: 0.07 × 100 × 0.6 × 0.4 is
// 1.6800000000000002. They are therefore computed with integers. A double counts as the decimal to which it is closest, of
// nine places for a price or a rate and six for a number of contracts, which is finer than any venue's step.

const rateScale = 1e9;
const priceScale = 1e9;
const contractScale = 1e6;

const toInteger = (value: number, scale: number): bigint => BigInt(Math.round(value * scale));

/** Unit of dollar amounts: a contract of the smallest size at the smallest price, 1e-15 dollars. */
const unitsPerDollar = 10n ** 15n;
const toDollars = (units: bigint): number => Number(`${units}e-15`);

/** Sums over the levels of an order: contracts × price, and contracts × (price × (1 - price))^exponent. */
function sumLevels({ levels }: Fill, exponent: number): { notionalUnits: bigint; variance: bigint } {
  const one = BigInt(priceScale);
  let [notionalUnits, variance] = [0n, 0n];
  for (const { contracts, contractPrice } of levels) {
    const [count, price] = [toInteger(contracts, contractScale), toInteger(contractPrice, priceScale)];
    notionalUnits += count * price;
    variance += count * (price * (one - price)) ** BigInt(exponent);
  }
  return { notionalUnits, variance };
}

/** Rates of Kalshi per contract, times 10,000. */
const kalshiRates = { taker: 700n, maker: 175n } as const;

/**
 * Kalshi: the fee of an order is rate × multiplier × Σ contracts × price × (1 - price), with the rate 0.07 for takers and
 * 0.0175 for makers. It is rounded up to 0.000001 dollars, and then so that the balance changes by whole cents (or
 * centicents): with whole contracts at prices in cents, the fee is rounded up to the next cent. The levels of an order are
 * rounded together, because Kalshi refunds what their separate rounding would add.
 * https://kalshi.com/docs/kalshi-fee-schedule.pdf of 7 July 2026, https://docs.kalshi.com/getting_started/fee_rounding
 */
function createKalshiFees(fees: KalshiFees, strategy: Strategy): FeeModel['computeFee'] {
  const multiplier = toInteger(resolveQuantity(fees.multiplier, strategy), rateScale);
  const rate = kalshiRates[fees.liquidity] * multiplier;
  // Decimal places of the rate 13, of the contracts 6, of the two prices 18; of a micro-dollar 6.
  const perMicroDollar = 10n ** (13n + 6n + 18n - 6n);
  const unitsPerMicroDollar = unitsPerDollar / 1_000_000n;
  const step = unitsPerDollar / (fees.rounding === 'cent' ? 100n : 10_000n);
  return (fill, action) => {
    const { notionalUnits, variance } = sumLevels(fill, 1);
    const tradeFee = divideUp(rate * variance, perMicroDollar) * unitsPerMicroDollar;
    const roundUp = (units: bigint): bigint => divideUp(units, step) * step;
    // What a buy costs is rounded up, and what a sale brings is rounded down.
    const cost = action === 'buy' ? notionalUnits : -notionalUnits;
    return toDollars(roundUp(cost + tradeFee) - cost);
  };
}

/**
 * Polymarket: the taker fee of an order is rate × Σ contracts × (price × (1 - price))^exponent, in steps of 0.00001 dollars.
 * Polymarket's page says that fees are rounded to five places and that smaller fees are 0; they are rounded down here, as
 * NautilusTrader does to match the charges of the venue. Makers pay nothing, and rebates are not modelled.
 * https://docs.polymarket.com/trading/fees,
 * https://nautilustrader.io/docs/rust-api-latest/nautilus_polymarket/execution/parse/fn.compute_commission.html
 */
function createPolymarketFees(fees: PolymarketFees, strategy: Strategy): FeeModel['computeFee'] {
  const { exponent } = fees;
  const rate = toInteger(resolveQuantity(fees.rate, strategy), rateScale);
  // Decimal places of the rate 9, of the contracts 6, of each pair of prices 18; of a step 5.
  const perStep = 10n ** (9n + 6n + 18n * BigInt(exponent) - 5n);
  const unitsPerStep = unitsPerDollar / 100_000n;
  return (fill) => toDollars(((rate * sumLevels(fill, exponent).variance) / perStep) * unitsPerStep);
}

/** Rounds the quotient towards positive infinity. The divisor is positive. */
function divideUp(dividend: bigint, divisor: bigint): bigint {
  const quotient = dividend / divisor;
  return dividend > 0n && dividend % divisor !== 0n ? quotient + 1n : quotient;
}
