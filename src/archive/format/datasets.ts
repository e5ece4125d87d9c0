import type { CandleInterval } from './candles.ts';
/** Parquet types in the archive. `timestamp` is milliseconds, UTC; `strings` is a list of strings. */
export type ColumnType = 'string' | 'timestamp' | 'double' | 'int32' | 'int64' | 'boolean' | 'strings';

export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  readonly nullable: boolean;
  readonly meaning: string;
  /** The version of the format that added the column; files of older formats do not have it. Default: the first. */
  readonly since?: number;
  /** The value for files of older formats, which do not have the column. */
  readonly absent?: string;
}

const column = (name: string, type: ColumnType, meaning: string): Column => ({ name, type, nullable: false, meaning });
const optional = (name: string, type: ColumnType, meaning: string): Column => ({ name, type, nullable: true, meaning });

const defineCandleColumns = (interval: string): readonly Column[] => [
  column('symbol', 'string', 'market ticker at its venue'),
  column('t', 'timestamp', `start of the ${interval}`),
  column('open', 'double', 'first price'),
  column('high', 'double', 'highest price'),
  column('low', 'double', 'lowest price'),
  column('close', 'double', 'last price'),
  column('ticks', 'int32', `ticks in the ${interval}, at least 1`),
  column('covered', 'double', `covered share of the ${interval}`),
];

/** Every published dataset, with its columns in file order (CONTRACT, section 3). */
export const datasets = {
  ticks: [
    column('symbol', 'string', 'market ticker at its venue'),
    column('t', 'timestamp', 'time of the tick'),
    column('p', 'double', 'price'),
  ],
  symbols: [
    column('symbol', 'string', 'market ticker at its venue'),
    optional('canonical_id', 'string', 'market identifier across venues'),
    optional('source', 'string', 'venue'),
    optional('question', 'string', 'what the market asks'),
    optional('category', 'string', 'market category'),
    optional('is_active', 'boolean', 'whether the market was active at the last poll'),
    optional('opens_at', 'timestamp', 'opening of the market'),
    optional('closes_at', 'timestamp', 'close of the market'),
    optional('resolved_at', 'timestamp', 'when the outcome was settled'),
    optional('outcome', 'double', 'settlement: 1, 0, or between'),
    column('first_seen', 'timestamp', 'first poll or import that contained it'),
    column('last_seen', 'timestamp', 'last poll or import that contained it'),
    optional('first_tick', 'timestamp', 'earliest published tick'),
    optional('last_tick', 'timestamp', 'latest published tick'),
    column('ticks', 'int64', 'published ticks'),
  ],
  markets: [
    column('canonical_id', 'string', 'market identifier across venues'),
    optional('symbol', 'string', 'market ticker at its venue'),
    optional('source', 'string', 'venue'),
    column('views', 'strings', 'market lists that named it'),
    optional('category', 'string', 'market category'),
    optional('confidence', 'double', 'confidence of the match'),
    optional('is_active', 'boolean', 'whether the market is active'),
    optional('question', 'string', 'what the market asks'),
    optional('closes_at', 'timestamp', 'close of the market'),
    optional('resolved_at', 'timestamp', 'when the outcome was settled'),
    optional('outcome', 'double', 'settlement: 1, 0, or between'),
    column('first_seen', 'timestamp', 'first poll of the day that showed this state'),
    column('last_seen', 'timestamp', 'last poll of the day that showed this state'),
    optional('extra', 'string', 'JSON object of every field that has no column'),
  ],
  orderbooks: [
    column('symbol', 'string', 'market ticker at its venue'),
    column('t', 'timestamp', 'time of the snapshot'),
    column('side', 'string', 'bid or ask'),
    column('level', 'int32', 'from 0, best first; -1 in the one row of an empty book, whose side is bid'),
    column('price', 'double', 'price; NaN in an empty book'),
    column('quantity', 'double', 'quantity at that price, in the unit of the venue; 0 in an empty book'),
  ],
  candles_1h: defineCandleColumns('hour'),
  candles_1d: defineCandleColumns('UTC day'),
  coverage: [
    column('dataset', 'string', 'dataset that was fetched: ticks or orderbooks'),
    column('symbol', 'string', 'market ticker at its venue'),
    column('t_from', 'timestamp', 'start of the window, inclusive'),
    column('t_to', 'timestamp', 'end of the window, exclusive'),
    column('ticks', 'int32', 'published ticks in the window; for order books, the snapshots in its responses'),
    column('fetched_at', 'timestamp', 'when its response was generated; the earliest such time for joined windows'),
    column('origin', 'string', 'poll, backfill or import'),
    {
      ...column('evidence', 'string', 'why it counts as covered: stated, confirmed, declared or inferred'),
      since: 3,
      absent: 'inferred',
    },
    {
      ...optional(
        'grain_ms',
        'int64',
        "the source's time step in milliseconds, if it does not provide individual ticks",
      ),
      since: 3,
    },
  ],
  conflicts: [
    column('symbol', 'string', 'market ticker at its venue'),
    column('t', 'timestamp', 'time of the tick'),
    column('kept', 'double', 'the price that was kept'),
    column('dropped', 'double', 'the price that was dropped'),
    column('seen_at', 'timestamp', 'when the other price was observed'),
  ],
} as const satisfies Record<string, readonly Column[]>;

/**
 * The coverage columns that readers decode: all but `grain_ms`, which is never set and would need the slow decoder,
 * since it is nullable.
 */
export const readCoverageColumns: readonly Column[] = datasets.coverage.filter(({ name }) => name !== 'grain_ms');

export type DatasetName = keyof typeof datasets;

/** The columns of a dataset, with a constant for those that files of this format version do not have. */
export const listFileColumns = (
  name: DatasetName,
  formatVersion: number,
): readonly (Column & { readonly constant?: string | null })[] =>
  (datasets[name] as readonly Column[]).map((column) =>
    (column.since ?? 1) > formatVersion ? { ...column, constant: column.absent ?? null } : column,
  );

export const datasetNames = Object.keys(datasets) as DatasetName[];

/** The dataset that holds the candles of each interval. */
export const candleDatasets = {
  '1h': 'candles_1h',
  '1d': 'candles_1d',
} as const satisfies Record<CandleInterval, DatasetName>;
