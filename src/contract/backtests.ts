import { type TSchema, Type } from 'typebox';
import { BacktestTrade } from './backtest-trades.ts';
import { Count, epochMs, GeneratedAt, nullable, oneOf, Sha256, text } from './export-manifest.ts';
import { pageQuery, pageResponse } from './strategies.ts';

/* Research backtests: requests, results and saved jobs. */

export const objectives = ['avg_pnl', 'total_pnl', 'sharpe', 'max_drawdown', 'win_rate', 'brier'] as const;

const number = Type.Number();
const nullableNumber = (description: string) => nullable(number, description);
const nameList = (description: string, itemsMax: number, length = 1000) =>
  Type.Array(Type.String({ minLength: 1, maxLength: length }), { maxItems: itemsMax, description });
/** An object of named values. Type.Record would give a pattern of names, which client generators do not read. */
const byName = <S extends TSchema>(values: S, description: string) =>
  Type.Unsafe<Record<string, Type.Static<S>>>({ type: 'object', additionalProperties: values, description });
const numbersByName = (description: string) => byName(number, description);

const Strategy = Type.Unsafe<object>({ $ref: '#/components/schemas/StrategyDefinition' });
const Fees = Type.Unsafe<object>({ $ref: '#/components/schemas/StrategyFees' });

const executable = { name: Type.String({ minLength: 1, maxLength: 200, description: 'Name of the strategy.' }) };

const filterFields = {
  categories: nameList('Only symbols of these categories, by the last known category; an empty list selects all.', 100),
  sources: nameList('Only symbols of these sources; an empty list selects all.', 100),
};

const symbolsMax = 10_000;

export const BacktestRequest = Type.Object(
  {
    entry_executable: Type.Object(
      {
        ...executable,
        version: Type.Optional(
          nullable(
            Type.Integer({ minimum: 1, maximum: 1e9 }),
            'Version of a stored strategy; the latest if null or absent.',
          ),
        ),
        strategy: Type.Optional(Strategy),
      },
      {
        title: 'EntryExecutable',
        additionalProperties: false,
        description:
          'The strategy to run: `strategy` if present, else your stored strategy of this name, else one of the built-in strategies buy_and_hold, threshold, mean_reversion, momentum, favourite_longshot, cross_venue_spread.',
      },
    ),
    objective: oneOf(objectives, 'Objective that rates the run.'),
    symbols: Type.Optional(
      nullable(
        Type.Array(Type.String({ minLength: 1, maxLength: 1000 }), { minItems: 1, maxItems: symbolsMax }),
        'Only these symbols, which must be known; if null or absent, every symbol that matches the filter.',
      ),
    ),
    filter: Type.Optional(
      Type.Object(
        { categories: Type.Optional(filterFields.categories), sources: Type.Optional(filterFields.sources) },
        { title: 'BacktestFilter', additionalProperties: false, description: 'Selects symbols; all if absent.' },
      ),
    ),
    from: Type.Optional(
      nullable(
        Type.Integer({ minimum: 0, maximum: Date.UTC(2200, 0, 1) }),
        'Start of the window, inclusive, epoch milliseconds; the first tick if null or absent.',
      ),
    ),
    to: Type.Optional(
      nullable(
        Type.Integer({ minimum: 0, maximum: Date.UTC(2200, 0, 1) }),
        'End of the window, exclusive, epoch milliseconds; after the last tick and settlement if null or absent.',
      ),
    ),
    parameters: Type.Optional(
      numbersByName("Values of the strategy's parameters; a parameter without a value takes its default."),
    ),
    grid: Type.Optional(
      byName(
        Type.Array(number, { minItems: 1, maxItems: 1000 }),
        'Values to try for each parameter, in every combination; at most 1,000 combinations.',
      ),
    ),
    held_out: Type.Optional(
      Type.Number({
        minimum: 0.05,
        maximum: 0.9,
        default: 0.3,
        description:
          'Share of the window, at its end, that is held out. The best point of a grid is selected without it and rated on it.',
      }),
    ),
    fees: Type.Optional(
      nullable(Fees, 'Replaces the fees of the strategy; its numbers cannot be parameters. Null or absent: no change.'),
    ),
    whole_contracts: Type.Optional(
      nullable(Type.Boolean(), 'Replaces whole_contracts of the strategy. Null or absent: no change.'),
    ),
    save: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'If true, the backtest runs as a job and its result is saved.',
      }),
    ),
  },
  {
    title: 'BacktestRequest',
    additionalProperties: false,
    examples: [
      {
        entry_executable: { name: 'threshold' },
        objective: 'total_pnl',
        filter: {},
        parameters: { buy_below: 0.3, sell_above: 0.7 },
        save: true,
      },
    ],
    description: 'A strategy, the objective that rates it, and the data to run it on.',
  },
);

/** The request with its defaults. */
const RequestEcho = Type.Object(
  {
    entry_executable: Type.Object(
      {
        ...executable,
        version: nullable(epochMs, 'As requested; null: the latest.'),
        strategy: nullable(Strategy, 'As requested; null: found by its name.'),
      },
      { title: 'EntryExecutableEcho' },
    ),
    objective: oneOf(objectives, 'As requested.'),
    symbols: nullable(
      Type.Array(text),
      'As requested, without duplicates; null: every symbol that matches the filter.',
    ),
    filter: Type.Object(filterFields, { title: 'BacktestFilterEcho', description: 'As requested.' }),
    from: nullable(epochMs, 'As requested.'),
    to: nullable(epochMs, 'As requested.'),
    parameters: numbersByName('As requested.'),
    grid: byName(Type.Array(number), 'As requested; an empty grid is a single run.'),
    held_out: Type.Number({ description: 'As requested.' }),
    fees: nullable(Fees, 'As requested; null: those of the strategy.'),
    whole_contracts: nullable(Type.Boolean(), 'As requested; null: as in the strategy.'),
  },
  { title: 'BacktestRequestEcho', description: 'The request, with defaults filled in.' },
);

const Summary = Type.Object(
  {
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
  },
  { title: 'BacktestSummary' },
);

const SymbolRow = Type.Object(
  {
    symbol: text,
    ticks: Count('Ticks of the symbol in the window.'),
    trades: Count('Trades of the symbol.'),
    contracts: Type.Number({ minimum: 0, description: 'Contracts bought.' }),
    fees: Type.Number({ description: 'Fees, dollars.' }),
    pnl: Type.Number({ description: 'P&L in dollars, net of fees.' }),
    outcome: nullableNumber('Outcome that the market settled at within the window; null: not settled.'),
  },
  { title: 'BacktestSymbol' },
);

const Assumptions = Type.Object(
  {
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
  },
  { title: 'BacktestAssumptions' },
);

const Calibration = Type.Object(
  {
    price_from: Type.Number({ description: 'Lower bound of the bin, inclusive.' }),
    price_to: Type.Number({ description: 'Upper bound of the bin, exclusive; the last bin includes it.' }),
    ticks: Count('Ticks of settled symbols with a price in the bin.'),
    mean_price: nullableNumber('Mean price of these ticks; null without ticks.'),
    mean_outcome: nullableNumber('Mean outcome of these ticks; null without ticks.'),
    brier: nullableNumber('Mean of (price - outcome)² of these ticks; null without ticks.'),
  },
  { title: 'CalibrationBin' },
);

const Grid = Type.Object(
  {
    split_at: Type.Integer({ description: 'Start of the held-out part, epoch milliseconds.' }),
    best: nullable(
      Type.Integer({ minimum: 0 }),
      'Index of the point with the best value before the split; null if no point has a value.',
    ),
    points: Type.Array(
      Type.Object(
        {
          parameters: numbersByName('Parameter values of the point.'),
          value: nullableNumber('Value of the objective before the split.'),
          trades: Count('Trades before the split.'),
          held_out_value: nullableNumber('Value of the objective on the held-out part.'),
          held_out_trades: Count('Trades in the held-out part.'),
        },
        { title: 'GridPoint' },
      ),
      { description: 'Every point of the grid; the values of the last name change fastest.' },
    ),
  },
  { title: 'BacktestGrid' },
);

const itemsMax = 1000;

const resultFields = {
  request: RequestEcho,
  strategy: Strategy,
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
  equity: Type.Object(
    {
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
    },
    { title: 'EquityCurve', description: 'The equity curve.' },
  ),
  symbols: Type.Object(
    {
      count: Count('Symbols with a trade.'),
      items: Type.Array(SymbolRow, {
        maxItems: itemsMax,
        description: 'Highest pnl first; if there are more than 1,000, the first 500 and the last 500.',
      }),
    },
    { title: 'BacktestSymbols' },
  ),
  trades: Type.Object(
    {
      count: Count('Number of trades.'),
      items: Type.Array(BacktestTrade, {
        maxItems: itemsMax,
        description:
          'The first 1,000 in order of fill time. GET /api/v1/backtest/{id}/trades returns all trades of a saved backtest.',
      }),
    },
    { title: 'BacktestTrades' },
  ),
  calibration: Type.Array(Calibration, {
    description: 'Prices of settled symbols compared with their outcomes, by decile.',
  }),
  grid: nullable(Grid, 'Results of the grid; null without a grid.'),
  coverage: Type.Object(
    {
      lifetime_ms: Count("Milliseconds of the symbols' lifetimes within the window."),
      gap_ms: Count('Milliseconds of these lifetimes that are not covered; their ticks may be missing.'),
      gap_share: nullableNumber('gap_ms as a share of lifetime_ms; null if lifetime_ms is 0.'),
    },
    { title: 'BacktestCoverage', description: 'Coverage of the data of the backtest.' },
  ),
  archive: Type.Object(
    {
      generation: Count('The generation of the archive.'),
      manifest_sha256: Sha256('SHA-256 of its manifest.json.'),
      files: Count('Files that were read.'),
      files_sha256: Sha256('SHA-256 over the sorted lines of checksum and path, in the format of SHA256SUMS.'),
    },
    { title: 'BacktestArchive', description: 'The data that the results were computed from.' },
  ),
};

const reproducibleNote = 'The same request to the same archive gives the same bytes';

export const BacktestResult = Type.Object(resultFields, {
  title: 'BacktestResult',
  description: `Result of a backtest; \`strategy\` is the strategy that was run, with its parameters bound (for a grid, those of the best point). ${reproducibleNote}.`,
});

export const BacktestResponse = Type.Object(
  { ...resultFields, generated_at: GeneratedAt },
  { title: 'BacktestResponse', description: `${reproducibleNote}, except for generated_at.` },
);

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
  progress: Type.Object(
    {
      batches_done: Count('Batches of symbols that are finished.'),
      batches_total: nullable(Type.Integer({ minimum: 0 }), 'Total number of batches; null until they are counted.'),
    },
    { title: 'BacktestProgress' },
  ),
  created_at: Type.Integer({ description: 'When it was requested, epoch milliseconds.' }),
  started_at: nullable(epochMs, 'When it last started, epoch milliseconds; null before that.'),
  finished_at: nullable(epochMs, 'When it ended, epoch milliseconds; null before that.'),
  trades_file: nullable(
    Type.Object(
      {
        url: Type.String({ description: 'URL of the file, relative to this service.' }),
        bytes: Count('Size in bytes.'),
        sha256: Sha256('SHA-256 of the file, in hex; also its ETag.'),
        rows: Count('Number of trades.'),
      },
      { title: 'BacktestTradesFile' },
    ),
    'All trades of the result as a Parquet file; null until the job is done, and if the trades were not stored.',
  ),
  error: nullable(text, 'Why it failed; null if it did not.'),
};

export const ListedBacktest = Type.Object(jobFields, {
  title: 'ListedBacktest',
  description: 'A saved backtest without its result.',
});

export const SavedBacktest = Type.Object(
  { ...jobFields, result: nullable(BacktestResult, 'The result when the job is done; null before that.') },
  { title: 'Backtest', description: 'A saved backtest.' },
);

export const BacktestsQuery = Type.Object(pageQuery, { additionalProperties: false });

export const BacktestsResponse = Type.Object(
  {
    backtests: Type.Array(ListedBacktest, { description: 'Newest first.' }),
    ...pageResponse,
  },
  { title: 'BacktestsResponse' },
);
