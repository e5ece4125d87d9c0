import { Type } from 'typebox';
import { Count, closed, fileResponses, GeneratedAt, nullable, titled } from './export-manifest.ts';
import { CsvSafe, Limit } from './query-parameters.ts';
import { type Trade, tradeColumns } from './trade-fields.ts';

/* Trades of research backtests, in results and of their own. */

const jsonTypes = { string: 'string', timestamp: 'integer', int32: 'integer', double: 'number' } as const;

const tradeProperties = tradeColumns.map(({ name, type, nullable, meaning, values }) => {
  const json = { type: jsonTypes[type], ...(values && { enum: values }), ...(type === 'int32' && { minimum: 0 }) };
  const description = type === 'timestamp' ? `${meaning} Epoch milliseconds.` : meaning;
  return [name, nullable ? { anyOf: [json, { type: 'null' }], description } : { ...json, description }] as const;
});

export const BacktestTrade = Type.Unsafe<Trade>({
  type: 'object',
  title: 'BacktestTrade',
  required: tradeProperties.map(([name]) => name),
  properties: Object.fromEntries(tradeProperties),
});

export const backtestTradesFormats = ['json', 'csv', 'parquet'] as const;
export type BacktestTradesFormat = (typeof backtestTradesFormats)[number];

export const BacktestTradesQuery = closed({
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
});

const BacktestTradesResponse = titled('BacktestTradesResponse', {
  trades: Type.Array(BacktestTrade, {
    description: 'Sorted by filled_at, symbol and rule; the parts of a position by exited_at.',
  }),
  count: Count('Number of trades in this response.'),
  total: Count('Number of trades of the backtest.'),
  next_cursor: nullable(Type.String(), 'Cursor of the next page; null on the last page.'),
  generated_at: GeneratedAt,
});

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
