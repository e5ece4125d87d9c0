import { Type } from 'typebox';
import { Count, epochMs, GeneratedAt, jobStates, nullable, oneOf, Sha256, text } from './export.ts';
import { pageQuery, pageResponse } from './strategies.ts';

/* Research backtests: what is asked, what comes of it, and those that are kept. */

export const objectives = ['avg_pnl', 'total_pnl', 'sharpe', 'max_drawdown', 'win_rate', 'brier'] as const;

const number = Type.Number();
const maybe = (description: string) => nullable(number, description);
const names = (description: string, most: number, length = 1000) =>
  Type.Array(Type.String({ minLength: 1, maxLength: length }), { maxItems: most, description });
const numbersByName = (description: string) => Type.Record(Type.String(), number, { description });

const Strategy = Type.Unsafe<object>({ $ref: '#/components/schemas/StrategyDefinition' });

const executable = { name: Type.String({ minLength: 1, maxLength: 200, description: 'Its name.' }) };

const filterFields = {
  categories: names('Only symbols of one of these categories, as last known; none: of all.', 100),
  sources: names('Only symbols of one of these sources; none: of all.', 100),
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
            'Of a strategy of yours; null, or without it, the latest.',
          ),
        ),
        strategy: Type.Optional(Strategy),
      },
      {
        additionalProperties: false,
        description:
          'The strategy that is run: with `strategy` that one, else the one of yours that has the name, else one of buy_and_hold, threshold, mean_reversion, momentum, favourite_longshot, cross_venue_spread.',
      },
    ),
    objective: oneOf(objectives, 'What the run is judged by.'),
    symbols: Type.Optional(
      nullable(
        Type.Array(Type.String({ minLength: 1, maxLength: 1000 }), { minItems: 1, maxItems: symbolsMax }),
        'Only these symbols, each of which has to be known; null, or without it, all that the filter leaves.',
      ),
    ),
    filter: Type.Optional(
      Type.Object(
        { categories: Type.Optional(filterFields.categories), sources: Type.Optional(filterFields.sources) },
        { additionalProperties: false, description: 'Which symbols; without it all.' },
      ),
    ),
    from: Type.Optional(
      nullable(
        Type.Integer({ minimum: 0, maximum: Date.UTC(2200, 0, 1) }),
        'Start of the span, included, epoch milliseconds; null, or without it, the first tick.',
      ),
    ),
    to: Type.Optional(
      nullable(
        Type.Integer({ minimum: 0, maximum: Date.UTC(2200, 0, 1) }),
        'Its end, excluded; null, or without it, behind the last tick and settlement.',
      ),
    ),
    parameters: Type.Optional(numbersByName("Values of the strategy's parameters; without one its default holds.")),
    grid: Type.Optional(
      Type.Record(Type.String(), Type.Array(number, { minItems: 1, maxItems: 1000 }), {
        description: 'Values of parameters that are tried in every combination, at most 1,000 of them.',
      }),
    ),
    held_out: Type.Optional(
      Type.Number({
        minimum: 0.05,
        maximum: 0.9,
        default: 0.3,
        description: 'The share of the span, its end, that a grid is judged on and not chosen by.',
      }),
    ),
    save: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'true: it is run as a job, and its result kept as an object of yours.',
      }),
    ),
  },
  {
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
    description: 'A strategy, what it is judged by, and what it is run on.',
  },
);

/** What was asked, every field with the value that holds. */
const RequestEcho = Type.Object(
  {
    entry_executable: Type.Object({
      ...executable,
      version: nullable(epochMs, 'As asked; null: the latest.'),
      strategy: nullable(Strategy, 'As asked; null: by its name.'),
    }),
    objective: oneOf(objectives, 'As asked.'),
    symbols: nullable(Type.Array(text), 'As asked, each once; null: all that the filter leaves.'),
    filter: Type.Object(filterFields, { description: 'As asked.' }),
    from: nullable(epochMs, 'As asked.'),
    to: nullable(epochMs, 'As asked.'),
    parameters: numbersByName('As asked.'),
    grid: Type.Record(Type.String(), Type.Array(number), { description: 'As asked; of no name: one run.' }),
    held_out: Type.Number({ description: 'As asked.' }),
  },
  { description: 'What was asked, with what holds where nothing was said.' },
);

const Summary = Type.Object({
  symbols: Count('Symbols that were played.'),
  traded: Count('Those of them with a trade.'),
  ticks: Count('Their ticks in the span.'),
  trades: Count('Trades.'),
  contracts: Type.Number({ minimum: 0, description: 'Contracts bought.' }),
  fees: Type.Number({ description: 'Dollars.' }),
  total_pnl: Type.Number({ description: 'Dollars gained in all, fees taken off.' }),
  avg_pnl: maybe('Dollars gained a trade; null where there is none.'),
  sharpe: maybe(
    'Mean of what UTC days gained over its standard deviation, times the square root of 365; null for fewer than two days.',
  ),
  max_drawdown: maybe('The deepest fall of the equity curve, dollars; null where there is no trade.'),
  win_rate: maybe('Share of the trades that gained; null where there is none.'),
  brier: maybe('Mean of (price - outcome)² at the fills of trades that were settled; null where there is none.'),
});

const SymbolRow = Type.Object({
  symbol: text,
  ticks: Count('Its ticks in the span.'),
  trades: Count('Its trades.'),
  contracts: Type.Number({ minimum: 0, description: 'Contracts bought.' }),
  fees: Type.Number({ description: 'Dollars.' }),
  pnl: Type.Number({ description: 'Dollars, fees taken off.' }),
  outcome: maybe('What it was settled at within the span; null: it was not.'),
});

const Trade = Type.Object({
  symbol: text,
  rule: Count("Which of the strategy's rules, from 0."),
  side: oneOf(['yes', 'no'], 'What was bought.'),
  contracts: Type.Number({ description: 'How many.' }),
  decided_at: Type.Integer({ description: 'Time of the tick that the entry was decided at.' }),
  filled_at: Type.Integer({ description: 'Time of the tick that it was filled at.' }),
  price: Type.Number({ description: 'The price of yes at that tick.' }),
  paid: Type.Number({ description: 'For a contract, dollars.' }),
  got: Type.Number({ description: 'For a contract: at a sale, at the settlement, or as it stood at the end.' }),
  exit: oneOf(['sold', 'settled', 'open'], 'How it ended.'),
  exit_decided_at: nullable(epochMs, 'Time of the tick that the exit was decided at; null where none was.'),
  exited_at: Type.Integer({ description: 'When it ended.' }),
  entry_fees: Type.Number({ description: 'Dollars.' }),
  exit_fees: Type.Number({ description: 'Dollars; none at a settlement.' }),
  pnl: Type.Number({ description: 'Dollars, fees taken off.' }),
});

const Calibration = Type.Object({
  from: Type.Number({ description: 'Prices from here,' }),
  to: Type.Number({ description: 'to below here.' }),
  ticks: Count('Ticks of settled symbols with such a price.'),
  mean_price: maybe('Their mean price; null where there is none.'),
  mean_outcome: maybe('The mean outcome over them.'),
  brier: maybe('The mean of (price - outcome)² over them.'),
});

const Grid = Type.Object({
  split_at: Type.Integer({ description: 'Where what was held out begins, epoch milliseconds.' }),
  best: nullable(Type.Integer({ minimum: 0 }), 'Index of the point with the best value before it; null: none has one.'),
  points: Type.Array(
    Type.Object({
      parameters: numbersByName('The values of the grid.'),
      value: maybe('Of the objective, before the split.'),
      trades: Count('Trades before it.'),
      held_out_value: maybe('Of the objective, on what was held out.'),
      held_out_trades: Count('Trades on it.'),
    }),
    { description: "Every point, the last name's values changing first." },
  ),
});

const listedMax = 1000;

const resultFields = {
  asked: RequestEcho,
  strategy: Strategy,
  strategy_version: nullable(Type.Integer({ minimum: 1 }), 'Of a strategy of yours; else null.'),
  from: Type.Integer({ description: 'The span that all of it is of: of a grid what was held out.' }),
  to: Type.Integer({ description: 'Its end, excluded.' }),
  value: maybe("The objective's; null where there was nothing to take it of."),
  summary: Summary,
  equity: Type.Object(
    {
      step_ms: Type.Integer({ minimum: 1, description: 'Between two samples, but for the first and the last.' }),
      t: Type.Array(epochMs, { description: 'When: what happened before counts.' }),
      value: Type.Array(number, { description: 'Dollars gained by then, what is held at its last price.' }),
    },
    { description: 'The equity curve.' },
  ),
  symbols: Type.Object({
    count: Count('Symbols with a trade.'),
    listed: Type.Array(SymbolRow, {
      maxItems: listedMax,
      description: 'By pnl, the greatest first; of more than 1,000 the first and the last 500.',
    }),
  }),
  trades: Type.Object({
    count: Count('Trades.'),
    listed: Type.Array(Trade, { maxItems: listedMax, description: 'By the time of their fill; the first 1,000.' }),
  }),
  calibration: Type.Array(Calibration, { description: 'Prices of settled symbols against their outcomes, by decile.' }),
  grid: nullable(Grid, 'Null where there was none.'),
  coverage: Type.Object(
    {
      asked_ms: Count("Milliseconds of the symbols' lives in the span."),
      lacking_ms: Count('How many of them nothing was heard of: there may have been ticks.'),
      lacking_share: maybe('Their share; null where nothing was asked.'),
    },
    { description: 'What the archive lacks of what was run on.' },
  ),
  archive: Type.Object(
    {
      generation: Count('The generation of the archive.'),
      manifest_sha256: Sha256('Of its manifest.json.'),
      files: Count('Files that were read.'),
      files_sha256: Sha256(
        'Over their sha256 and paths, one a line as SHA256SUMS has them, in the order of the lines.',
      ),
    },
    { description: 'What it rests on.' },
  ),
};

const ran = 'The same archive, asked the same, gives the same bytes';

export const BacktestResult = Type.Object(resultFields, {
  description: `What came of it; \`strategy\` is what was run, its parameters bound, of a grid its best point. ${ran}.`,
});

export const BacktestResponse = Type.Object(
  { ...resultFields, generated_at: GeneratedAt },
  { description: `${ran}, but for generated_at.` },
);

const jobFields = {
  id: Type.String({ description: 'Names it.' }),
  state: oneOf(
    jobStates,
    'waiting and running go on by themselves; the others are final. cancelled: by an older version, as what is removed is gone.',
  ),
  asked: RequestEcho,
  strategy_version: nullable(Type.Integer({ minimum: 1 }), 'Of a strategy of yours; else null.'),
  value: maybe("The objective's, once it is done; null where there was nothing to take it of."),
  progress: Type.Object({
    batches_done: Count('Batches of symbols that were played.'),
    batches_total: nullable(Type.Integer({ minimum: 0 }), 'Batches to play; null until they are counted.'),
  }),
  created_at: Type.Integer({ description: 'When it was asked for, epoch milliseconds.' }),
  started_at: nullable(epochMs, 'When it was begun, the last time where it was begun again; else null.'),
  finished_at: nullable(epochMs, 'When it came to its end; else null.'),
  error: nullable(text, 'Why it failed; else null.'),
};

export const ListedBacktest = Type.Object(jobFields, { description: 'A backtest that is kept, without its result.' });

export const KeptBacktest = Type.Object(
  { ...jobFields, result: nullable(BacktestResult, 'Once it is done; else null.') },
  { description: 'A backtest that is kept.' },
);

export const BacktestsQuery = Type.Object(pageQuery, { additionalProperties: false });

export const BacktestsResponse = Type.Object({
  backtests: Type.Array(ListedBacktest, { description: 'Newest first.' }),
  ...pageResponse,
});
