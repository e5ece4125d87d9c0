/*
 * The fields of a trade of a backtest, in results and pages, and as columns of its files. Without TypeBox, which takes 0.15 s of CPU
 * time to load: every thread of a backtest writes trades.
 */

interface TradeField {
  /** Of its column; a timestamp is in epoch milliseconds. */
  readonly type: 'string' | 'timestamp' | 'double' | 'int32';
  readonly values?: readonly string[];
  readonly nullable?: true;
  readonly meaning: string;
}

const sides = ['yes', 'no'] as const;
const fillBases = ['tick', 'book', 'quote'] as const;

const tradeFields = {
  symbol: { type: 'string', meaning: 'Market ticker at its venue.' },
  rule: { type: 'int32', meaning: "Index of the strategy's rule, from 0." },
  side: { type: 'string', values: sides, meaning: 'Side that was bought.' },
  contracts: { type: 'double', meaning: 'Number of contracts.' },
  decided_at: { type: 'timestamp', meaning: 'Tick at which the entry was decided.' },
  filled_at: { type: 'timestamp', meaning: 'Tick at which the entry was filled.' },
  price: { type: 'double', meaning: 'Price of yes at the tick of the fill.' },
  entry_price: { type: 'double', meaning: 'Dollars paid per contract of the side that was bought, without fees.' },
  exit_price: {
    type: 'double',
    meaning:
      'Dollars received per contract: at the sale or settlement, or the value of an open trade at the last price.',
  },
  entry_fill: {
    type: 'string',
    values: fillBases,
    meaning: 'Whether the entry was filled at the price of a tick, from an order book, or at a quote.',
  },
  exit_fill: {
    type: 'string',
    values: fillBases,
    nullable: true,
    meaning:
      'Whether the contracts were sold at the price of a tick, to an order book, or at a quote; null if they were not sold.',
  },
  exit_reason: { type: 'string', values: ['sold', 'settled', 'open'], meaning: 'How the trade ended.' },
  exit_decided_at: {
    type: 'timestamp',
    nullable: true,
    meaning: 'Tick at which the exit was decided; null if the contracts were not sold.',
  },
  exited_at: { type: 'timestamp', meaning: 'Tick of the sale, time of settlement, or last tick of an open trade.' },
  entry_fees: {
    type: 'double',
    meaning:
      'Dollars paid at the entry; if the position is sold in parts, the share of this part in the fee of the order.',
  },
  exit_fees: {
    type: 'double',
    meaning: 'Dollars paid at the exit, which is an order with its own fee; 0 for a settled or open trade.',
  },
  pnl: { type: 'double', meaning: 'P&L in dollars, net of fees.' },
} as const satisfies Readonly<Record<string, TradeField>>;

type ValueOf<F extends TradeField> =
  | (F extends { values: readonly (infer V)[] } ? V : F['type'] extends 'string' ? string : number)
  | (F extends { nullable: true } ? null : never);

type Fields = typeof tradeFields;

/** A trade: an entry and its exit. A position sold in parts gives one trade per part. Times in epoch milliseconds. */
export type Trade = { readonly [Name in keyof Fields]: ValueOf<Fields[Name]> };

/** What an order was filled at: the price of a tick, an order book, or a quote. */
export type FillBasis = Trade['entry_fill'];

/** The columns of a file of trades, in file order. */
export const tradeColumns = Object.entries<TradeField>(tradeFields).map(([name, field]) => ({
  nullable: false,
  ...field,
  name: name as keyof Trade,
}));
