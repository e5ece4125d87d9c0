import {
  boolean,
  type Fault,
  integer,
  list,
  nullable,
  number,
  object,
  oneOf,
  optional,
  type Parsed,
  parseBy,
  record,
  refine,
  type Schema,
  text,
  unique,
} from './parsed-schema.ts';
import { strategyDefinition, strategyFees, strategyLimits } from './strategy-language.ts';

/* Requests of backtests, from POST /api/v1/research/backtest, `oddslake backtest run` and the library. */

export const objectiveNames = ['avg_pnl', 'total_pnl', 'sharpe', 'max_drawdown', 'win_rate', 'brier'] as const;
export type ObjectiveName = (typeof objectiveNames)[number];

/** A backtest request with its defaults. Times in epoch milliseconds, half-open. */
export type BacktestSpec = Parsed<typeof backtestSpec>;

/** A built-in or saved strategy by name, or a strategy in the request. */
export type ExecutableSpec = BacktestSpec['entry_executable'];

/** Maximum number of grid points of a run. */
const pointsMax = 1000;

export const countPoints = (grid: Readonly<Record<string, readonly unknown[]>>): number =>
  Object.values(grid).reduce((product, values) => product * values.length, 1);

const nameList = (description: string) => optional(unique(list(text(1000), { maxItems: 100, description })), []);
const time = (description: string) =>
  optional(nullable(integer({ minimum: 0, maximum: Date.UTC(2200, 0, 1) }), description), null);
/** Numbers by parameter name. The names are checked later, against the strategy. */
const byName = <T>(values: Schema<T>, description: string) =>
  record(values, strategyLimits.parameters, { description });

const heldOutShareDefault = 0.3;

const fields = {
  entry_executable: object(
    {
      name: text(200, { description: 'Name of the strategy.' }),
      version: optional(
        nullable(integer({ minimum: 1, maximum: 1e9 }), 'Version of a stored strategy; the latest if null or absent.'),
        null,
      ),
      strategy: optional(nullable(strategyDefinition, 'The strategy itself; if null or absent, `name` is used.'), null),
    },
    {
      title: 'EntryExecutable',
      description:
        'The strategy to run: `strategy` if present, else your stored strategy of this name, else one of the built-in strategies buy_and_hold, threshold, mean_reversion, momentum, favourite_longshot, cross_venue_spread.',
    },
  ),
  objective: oneOf(objectiveNames, 'Objective that rates the run.'),
  symbols: optional(
    nullable(
      unique(list(text(1000), { minItems: 1, maxItems: 10_000 })),
      'Only these symbols, which must be known; if null or absent, every symbol that matches the filter.',
    ),
    null,
  ),
  filter: optional(
    object(
      {
        categories: nameList(
          'Only symbols of these categories, by the last known category; an empty list selects all.',
        ),
        sources: nameList('Only symbols of these sources; an empty list selects all.'),
      },
      { title: 'BacktestFilter', description: 'Selects symbols; all if absent.' },
    ),
    { categories: [], sources: [] },
  ),
  from: time('Start of the window, inclusive, epoch milliseconds; the first tick if null or absent.'),
  to: time('End of the window, exclusive, epoch milliseconds; after the last tick and settlement if null or absent.'),
  parameters: optional(
    byName(number(), "Values of the strategy's parameters; a parameter without a value takes its default."),
    {},
  ),
  grid: optional(
    refine(
      byName(
        unique(list(number(), { minItems: 1, maxItems: 1000 })),
        'Values to try for each parameter, in every combination; at most 1,000 combinations.',
      ),
      (grid) => {
        const points = countPoints(grid);
        return points <= pointsMax ? null : `has ${points} points, more than ${pointsMax}`;
      },
    ),
    {},
  ),
  held_out: optional(
    number({
      minimum: 0.05,
      maximum: 0.9,
      default: heldOutShareDefault,
      description:
        'Share of the window, at its end, that is held out. The best point of a grid is selected without it and rated on it.',
    }),
    heldOutShareDefault,
  ),
  fees: optional(
    nullable(
      strategyFees,
      'Replaces the fees of the strategy; its numbers cannot be parameters. Null or absent: no change.',
    ),
    null,
  ),
  whole_contracts: optional(
    nullable(boolean(), 'Replaces whole_contracts of the strategy. Null or absent: no change.'),
    null,
  ),
};

const requireOrder = <T extends { readonly from: number | null; readonly to: number | null }>(schema: Schema<T>) =>
  refine(schema, ({ from, to }, _at, reader) => {
    if (from !== null && to !== null && from >= to) reader.fault('to', 'must be after from');
    return null;
  });

export const backtestSpec = requireOrder(
  object(fields, { title: 'BacktestRequestEcho', description: 'The request, with defaults filled in.' }),
);

/** The body of a request to the service. */
export const backtestRequest = requireOrder(
  object(
    {
      ...fields,
      save: optional(
        boolean({ default: false, description: 'If true, the backtest runs as a job and its result is saved.' }),
        false,
      ),
    },
    {
      title: 'BacktestRequest',
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
  ),
);

/** Parses a backtest request. Returns all faults of an invalid request. */
export function parseBacktestSpec(json: unknown): { spec: BacktestSpec } | { faults: readonly Fault[] } {
  const parsed = parseBy(backtestSpec, json);
  return 'faults' in parsed ? parsed : { spec: parsed.value };
}
