import { Type } from 'typebox';
import { type BacktestSpec, backtestSpec } from './backtest-request.ts';
import { BacktestTrade } from './backtest-trades.ts';
import {
  Count,
  closed,
  described,
  epochMs,
  GeneratedAt,
  nullable,
  oneOf,
  Sha256,
  text,
  titled,
} from './export-manifest.ts';
import { pageQuery, pageResponse } from './strategies.ts';
import { type Strategy, strategyDefinition } from './strategy-language.ts';

/* Research backtests: requests, results and saved jobs. */

const number = Type.Number();
const nullableNumber = (description: string) => nullable(number, description);
const numbersByName = (description: string) =>
  Type.Unsafe<Record<string, number>>({ type: 'object', additionalProperties: number, description });

/** The schema of what a schema is parsed to: every field is present, and more may be added. Strategies have one schema for both. */
function toParsedJson(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(toParsedJson);
  if (typeof json !== 'object' || json === null) return json;
  const { default: _, ...rest } = json as Readonly<Record<string, unknown>>;
  const inner = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, toParsedJson(value)]));
  const { properties, additionalProperties: __, title, ...keywords } = inner;
  if (properties === undefined) return inner;
  const echoTitle = String(title).replace(/(Echo)?$/, 'Echo');
  return { ...keywords, title: echoTitle, properties, required: Object.keys(properties as object) };
}

const RequestEcho = Type.Unsafe<BacktestSpec>(toParsedJson(backtestSpec.json) as object);

const Summary = titled('BacktestSummary', {
  symbols: Count('Symbols that were replayed.'),
  symbols_traded: Count('Symbols with at least one trade.'),
  ticks: Count('Ticks of these symbols in the window.'),
  trades: Count('Number of trades.'),
  contracts: Type.Number({ minimum: 0, description: 'Contracts bought.' }),
  fees: Type.Number({ description: 'Fees, dollars.' }),
  total_pnl: Type.Number({ description: 'Total P&L in dollars, net of fees.' }),
  avg_pnl: nullableNumber('Mean P&L of a trade, dollars; null without trades.'),
  sharpe: nullableNumber(
    'Mean daily P&L (UTC days) divided by its standard deviation, times the square root of 365; null for fewer than two days.',
  ),
  max_drawdown: nullableNumber('Largest drawdown of the equity curve, dollars; null without trades.'),
  win_rate: nullableNumber('Share of trades with a profit; null without trades.'),
  brier: nullableNumber('Mean of (price - outcome)² at the fills of settled trades; null without settled trades.'),
});

const SymbolRow = titled('BacktestSymbol', {
  symbol: text,
  ticks: Count('Ticks of the symbol in the window.'),
  trades: Count('Trades of the symbol.'),
  contracts: Type.Number({ minimum: 0, description: 'Contracts bought.' }),
  fees: Type.Number({ description: 'Fees, dollars.' }),
  pnl: Type.Number({ description: 'P&L in dollars, net of fees.' }),
  outcome: nullableNumber('Outcome that the market settled at within the window; null: not settled.'),
});

const Assumptions = titled('BacktestAssumptions', {
  note: nullable(
    text,
    'What the result leaves out, in one sentence, such as fills at tick prices without fees or spread; null if nothing, or without trades.',
  ),
  fees: oneOf(
    ['none', 'per_contract', 'kalshi', 'polymarket'],
    'The fees in the result: `per_contract` are numbers of the strategy, the others are fee schedules.',
  ),
  slippage: Type.Number({ description: 'Dollars per contract that were added to or subtracted from tick prices.' }),
  whole_contracts: Type.Boolean({ description: 'Whether orders were rounded down to whole contracts.' }),
  tick_fills: Count('Fills at the price of a tick, which is neither bid nor ask.'),
  book_fills: Count('Fills from an order book.'),
  quote_fills: Count('Fills at a quote: buys at its ask, sales at its bid.'),
});

const Calibration = titled('CalibrationBin', {
  price_from: Type.Number({ description: 'Lower bound of the bin, inclusive.' }),
  price_to: Type.Number({ description: 'Upper bound of the bin, exclusive; the last bin includes it.' }),
  ticks: Count('Ticks of settled symbols with a price in the bin.'),
  mean_price: nullableNumber('Mean price of these ticks; null without ticks.'),
  mean_outcome: nullableNumber('Mean outcome of these ticks; null without ticks.'),
  brier: nullableNumber('Mean of (price - outcome)² of these ticks; null without ticks.'),
});

const Grid = titled('BacktestGrid', {
  split_at: Type.Integer({ description: 'Start of the held-out part, epoch milliseconds.' }),
  best: nullable(
    Type.Integer({ minimum: 0 }),
    'Index of the point with the best value before the split; null if no point has a value.',
  ),
  points: Type.Array(
    titled('GridPoint', {
      parameters: numbersByName('Parameter values of the point.'),
      value: nullableNumber('Value of the objective before the split.'),
      trades: Count('Trades before the split.'),
      held_out_value: nullableNumber('Value of the objective on the held-out part.'),
      held_out_trades: Count('Trades in the held-out part.'),
    }),
    { description: 'Every point of the grid; the values of the last name change fastest.' },
  ),
});

const itemsMax = 1000;

const resultFields = {
  request: RequestEcho,
  strategy: Type.Unsafe<Strategy>(strategyDefinition.json),
  strategy_version: nullable(
    Type.Integer({ minimum: 1 }),
    'Version of the stored strategy; null for any other strategy.',
  ),
  assumptions: Assumptions,
  from: Type.Integer({
    description: 'Start of the window of these results, epoch milliseconds; for a grid, of the held-out part.',
  }),
  to: Type.Integer({ description: 'End of the window, exclusive, epoch milliseconds.' }),
  value: nullableNumber('Value of the objective; null if it cannot be computed.'),
  summary: Summary,
  equity: described('EquityCurve', 'The equity curve.', {
    step_ms: Type.Integer({
      minimum: 1,
      description: 'Milliseconds between samples, except at the first and the last.',
    }),
    t: Type.Array(epochMs, {
      description: 'Time of the sample, epoch milliseconds; it includes everything before that time.',
    }),
    value: Type.Array(number, {
      description: 'P&L in dollars up to that time; open positions are valued at their last price.',
    }),
  }),
  symbols: titled('BacktestSymbols', {
    count: Count('Symbols with a trade.'),
    items: Type.Array(SymbolRow, {
      maxItems: itemsMax,
      description: 'Highest pnl first; if there are more than 1,000, the first 500 and the last 500.',
    }),
  }),
  trades: titled('BacktestTrades', {
    count: Count('Number of trades.'),
    items: Type.Array(BacktestTrade, {
      maxItems: itemsMax,
      description:
        'The first 1,000 in order of fill time. GET /api/v1/backtest/{id}/trades returns all trades of a saved backtest.',
    }),
  }),
  calibration: Type.Array(Calibration, {
    description: 'Prices of settled symbols compared with their outcomes, by decile.',
  }),
  grid: nullable(Grid, 'Results of the grid; null without a grid.'),
  coverage: described('BacktestCoverage', 'Coverage of the data of the backtest.', {
    lifetime_ms: Count("Milliseconds of the symbols' lifetimes within the window."),
    gap_ms: Count('Milliseconds of these lifetimes that are not covered; their ticks may be missing.'),
    gap_share: nullableNumber('gap_ms as a share of lifetime_ms; null if lifetime_ms is 0.'),
  }),
  archive: described('BacktestArchive', 'The data that the results were computed from.', {
    generation: Count('The generation of the archive.'),
    manifest_sha256: Sha256('SHA-256 of its manifest.json.'),
    files: Count('Files that were read.'),
    files_sha256: Sha256('SHA-256 over the sorted lines of checksum and path, in the format of SHA256SUMS.'),
  }),
};

type ReadonlyDeep<T> = T extends object ? { readonly [K in keyof T]: ReadonlyDeep<T[K]> } : T;

/** Result of a backtest. The same request on the same archive gives the same bytes. Times in epoch milliseconds. */
export type BacktestResult = ReadonlyDeep<Type.Static<typeof BacktestResult>>;

const reproducibleNote = 'The same request to the same archive gives the same bytes';

export const BacktestResult = Type.Object(resultFields, {
  title: 'BacktestResult',
  description: `Result of a backtest; \`strategy\` is the strategy that was run, with its parameters bound (for a grid, those of the best point). ${reproducibleNote}.`,
});

export const BacktestResponse = described('BacktestResponse', `${reproducibleNote}, except for generated_at.`, {
  ...resultFields,
  generated_at: GeneratedAt,
});

const jobFields = {
  id: Type.String({ description: 'ID of the backtest.' }),
  state: oneOf(
    ['waiting', 'running', 'done', 'failed'],
    'The states `waiting` and `running` change automatically; the other states are final.',
  ),
  request: RequestEcho,
  strategy_version: nullable(
    Type.Integer({ minimum: 1 }),
    'Version of the stored strategy; null for any other strategy.',
  ),
  value: nullableNumber('Value of the objective when the job is done; null before that, or if it cannot be computed.'),
  progress: titled('BacktestProgress', {
    batches_done: Count('Batches of symbols that are finished.'),
    batches_total: nullable(Type.Integer({ minimum: 0 }), 'Total number of batches; null until they are counted.'),
  }),
  created_at: Type.Integer({ description: 'When it was requested, epoch milliseconds.' }),
  started_at: nullable(epochMs, 'When it last started, epoch milliseconds; null before that.'),
  finished_at: nullable(epochMs, 'When it ended, epoch milliseconds; null before that.'),
  trades_file: nullable(
    titled('BacktestTradesFile', {
      url: Type.String({ description: 'URL of the file, relative to this service.' }),
      bytes: Count('Size in bytes.'),
      sha256: Sha256('SHA-256 of the file, in hex; also its ETag.'),
      rows: Count('Number of trades.'),
    }),
    'All trades of the result as a Parquet file; null until the job is done, and if the trades were not stored.',
  ),
  error: nullable(text, 'Why it failed; null if it did not.'),
};

export const ListedBacktest = Type.Object(jobFields, {
  title: 'ListedBacktest',
  description: 'A saved backtest without its result.',
});

export const SavedBacktest = described('Backtest', 'A saved backtest.', {
  ...jobFields,
  result: nullable(BacktestResult, 'The result when the job is done; null before that.'),
});

export const BacktestsQuery = closed(pageQuery);

export const BacktestsResponse = titled('BacktestsResponse', {
  backtests: Type.Array(ListedBacktest, { description: 'Newest first.' }),
  ...pageResponse,
});
