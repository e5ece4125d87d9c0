import { Type } from 'typebox';
import { Count, epochMs, fileResponses, GeneratedAt, nullable, oneOf, text } from './export-manifest.ts';
import { CsvSafe, Limit } from './query-parameters.ts';

/* Trades of research backtests, in results and of their own. */

const fillBases = ['tick', 'book', 'quote'] as const;

export const BacktestTrade = Type.Object(
  {
    symbol: text,
    rule: Count("Index of the strategy's rule, from 0."),
    side: oneOf(['yes', 'no'], 'Side that was bought.'),
    contracts: Type.Number({ description: 'Number of contracts.' }),
    decided_at: Type.Integer({ description: 'Time of the tick at which the entry was decided, epoch milliseconds.' }),
    filled_at: Type.Integer({ description: 'Time of the tick at which the entry was filled, epoch milliseconds.' }),
    price: Type.Number({ description: 'Price of yes at the fill.' }),
    entry_price: Type.Number({ description: 'Dollars paid per contract of the side that was bought.' }),
    exit_price: Type.Number({
      description: 'Dollars received per contract: at the sale or settlement, or the value at the end of the window.',
    }),
    entry_fill: oneOf(
      fillBases,
      'Whether the entry was filled at the price of a tick, from an order book, or at a quote.',
    ),
    exit_fill: nullable(
      oneOf(fillBases, 'Whether the contracts were sold at the price of a tick, to an order book, or at a quote.'),
      'Null if they were not sold.',
    ),
    exit_reason: oneOf(['sold', 'settled', 'open'], 'How the trade ended.'),
    exit_decided_at: nullable(
      epochMs,
      'Time of the tick at which the exit was decided, epoch milliseconds; null without such a decision.',
    ),
    exited_at: Type.Integer({ description: 'When the trade ended, epoch milliseconds.' }),
    entry_fees: Type.Number({
      description:
        'Dollars paid at the entry; if the position is sold in parts, the share of this part in the fee of the order.',
    }),
    exit_fees: Type.Number({ description: 'Dollars paid at the exit; a settlement is free.' }),
    pnl: Type.Number({ description: 'P&L in dollars, net of fees.' }),
  },
  { title: 'BacktestTrade' },
);

export const backtestTradesFormats = ['json', 'csv', 'parquet'] as const;
export type BacktestTradesFormat = (typeof backtestTradesFormats)[number];

export const BacktestTradesQuery = Type.Object(
  {
    limit: Type.Optional(
      Limit(
        'Maximum number of trades in the response. The default is 1,000, and larger values are reduced to the maximum of the service. For JSON only; a file has all trades.',
      ),
    ),
    cursor: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'next_cursor of the previous page of the same backtest. For JSON only.',
      }),
    ),
    format: Type.Optional(
      Type.Unsafe<BacktestTradesFormat>({
        type: 'string',
        enum: [...backtestTradesFormats],
        description: 'Format of the response; overrides the Accept header. CSV and Parquet are files with all trades.',
      }),
    ),
    csv_safe: Type.Optional(CsvSafe),
  },
  { additionalProperties: false },
);

const BacktestTradesResponse = Type.Object(
  {
    trades: Type.Array(BacktestTrade, {
      description: 'Sorted by filled_at, symbol and rule; the parts of a position by exited_at.',
    }),
    count: Count('Number of trades in this response.'),
    total: Count('Number of trades of the backtest.'),
    next_cursor: nullable(Type.String(), 'Cursor of the next page; null on the last page.'),
    generated_at: GeneratedAt,
  },
  { title: 'BacktestTradesResponse' },
);

const file = { schema: { type: 'string', format: 'binary' } };

/** A page, or a file. Only the Parquet file is stored as it is sent, so that it has an ETag and ranges. */
export const backtestTradesResponses = {
  ...fileResponses(['application/vnd.apache.parquet']),
  200: {
    description: 'A page of trades as JSON, or all trades as a file.',
    headers: {
      etag: { type: 'string', description: 'The SHA-256 in hex; a strong ETag. Of the Parquet file only.' },
      'content-disposition': { type: 'string', description: 'Name of the file; for files only.' },
    },
    content: {
      'application/json': { schema: BacktestTradesResponse },
      'text/csv': file,
      'application/vnd.apache.parquet': file,
    },
  },
};
