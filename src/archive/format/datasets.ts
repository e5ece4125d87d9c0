/** Parquet types in the archive. `timestamp` is milliseconds and `timestamp_us` microseconds, UTC; `strings` is a list of strings. */
export type ColumnType = 'string' | 'timestamp' | 'timestamp_us' | 'double' | 'int32' | 'int64' | 'boolean' | 'strings';

/** The types in DuckDB's SQL. */
export const sqlTypes: Readonly<Record<ColumnType, string>> = {
  string: 'VARCHAR',
  timestamp: 'TIMESTAMPTZ',
  timestamp_us: 'TIMESTAMPTZ',
  double: 'DOUBLE',
  int32: 'INTEGER',
  int64: 'BIGINT',
  boolean: 'BOOLEAN',
  strings: 'VARCHAR[]',
};

export interface Column {
  readonly name: string;
  readonly type: ColumnType;
  readonly nullable: boolean;
  readonly meaning: string;
  /** The unit of a number; default: none. That of a time is part of its type. */
  readonly unit?: string;
}

/** The columns with the start and the end of a row's time; the same column twice if it is a moment. */
export interface TimeColumns {
  readonly first: string;
  readonly last: string;
  /** Whether the end belongs to the row's time. */
  readonly isLastIncluded: boolean;
}

/** A published dataset: the facts that its writer, its readers and its documentation share. */
export interface DatasetDefinition {
  /** Its content, in a clause. */
  readonly description: string;
  /** In file order. */
  readonly columns: readonly Column[];
  /** The columns that identify a row: no two rows of a dataset have the same key. */
  readonly key: readonly string[];
  /**
   * The columns by which the rows of a file are sorted, ascending; strings by their UTF-8 bytes, null as the empty string.
   * The first is a string. No two rows have the same values in them, so that the order of rows is unambiguous: they contain
   * the key, or a number that is counted within the others.
   */
  readonly order: readonly string[];
  /** Null if a window of time does not select rows. */
  readonly time: TimeColumns | null;
  /**
   * How the rows are split into files: by the UTC day of their time and, within a day, by the part of their symbol; by
   * day only; or not at all.
   */
  readonly partition: 'day and part' | 'day' | 'none';
  /**
   * `collected`: the rows are from responses and imports, and a repair keeps the intact ones. `derived`: a repair rebuilds
   * the rows from other datasets and the state database.
   */
  readonly source: 'collected' | 'derived';
  readonly mergeRule: MergeRule;
  /** Whether `coverage` lists the windows that were fetched. */
  readonly hasCoverage: boolean;
}

/**
 * What a publish does with a row whose key is already published.
 * - `precedence`: keeps the row with precedence; the other row goes to `conflicts`, `quote_conflicts` or `trade_conflicts`
 *   (`merge.ts`, `merge-series.ts`)
 * - `replace snapshot`: replaces all rows of the symbol and time by those of the snapshot with precedence (`order-book.ts`)
 * - `extend state`: extends the time of the row while the state stays the same, and begins a new row otherwise (`market.ts`)
 * - `overlay windows`: cuts windows so that no moment is in two rows; a proven window has precedence (`coverage.ts`)
 * - `replace row`: replaces the row
 * - `recompute`: computes all rows of the file again
 */
export type MergeRule =
  | 'precedence'
  | 'replace snapshot'
  | 'extend state'
  | 'overlay windows'
  | 'replace row'
  | 'recompute';

const column = (name: string, type: ColumnType, meaning: string, unit?: string): Column => ({
  name,
  type,
  nullable: false,
  meaning,
  ...(unit === undefined ? {} : { unit }),
});
const optional = (...facts: Parameters<typeof column>): Column => ({ ...column(...facts), nullable: true });

const fraction = 'fraction of 1';

/** Details of markets and, except for the text of the rules, of symbols. */
const detailColumns = [
  optional('outcome_source', 'string', 'reported if the record states the outcome, derived if it was computed'),
  optional('event', 'string', 'identifier of the event that the market belongs to'),
  optional('exclusive', 'boolean', 'whether the markets of the event exclude each other'),
  optional('strike_low', 'double', 'lower bound of the quantity for yes', 'as defined by the venue'),
  optional('strike_high', 'double', 'upper bound of the quantity for yes', 'as defined by the venue'),
  optional('expected_end', 'timestamp', 'when the outcome is expected to be known'),
  optional('rules', 'string', 'text of the rules by which the market is resolved'),
  optional('rules_sha256', 'string', 'SHA-256 of the UTF-8 text of the rules, in hexadecimal'),
  optional('fee_schedule', 'string', 'fee schedule, as the record names it'),
  optional('tick_size', 'double', 'smallest step of the price', fraction),
];

const quoteNumbers = [
  optional('bid', 'double', 'highest price at which somebody offers to buy', fraction),
  optional('ask', 'double', 'lowest price at which somebody offers to sell', fraction),
  optional('bid_size', 'double', 'quantity offered at the bid', 'as defined by the venue'),
  optional('ask_size', 'double', 'quantity offered at the ask', 'as defined by the venue'),
];

/** The columns of a trade besides its symbol and time. `seq` is not stored with the dropped ones. */
const tradeFacts = [
  column('trade_id', 'string', 'identifier of the trade; one that starts with = was made from the content of the row'),
  column('price', 'double', 'price', fraction),
  column('size', 'double', 'quantity traded', 'as defined by the venue'),
  optional('aggressor', 'string', 'side that took the offer: buy or sell'),
  optional('block', 'boolean', 'whether the trade was agreed outside the order book'),
  optional('tx_hash', 'string', 'hash of the transaction that settled the trade'),
];
const tradeTexts = [
  optional('price_text', 'string', 'the price as it arrived, if a double cannot hold it'),
  optional('size_text', 'string', 'the size as it arrived, if a double cannot hold it'),
];

/** Finer times of a row of a series, which are not compared: rows of one key share them (`merge-series.ts`). */
const seriesTimes = [
  optional('event_at', 'timestamp_us', "the venue's time, as precise as stated; of several, the latest"),
  optional('received_at', 'timestamp_us', 'when the recorder received it; of several times, the earliest'),
];

/** What most datasets have in common: rows that were collected, one per symbol and time. */
const perSymbolAndTime = {
  key: ['symbol', 't'],
  order: ['symbol', 't'],
  time: { first: 't', last: 't', isLastIncluded: true },
  partition: 'day and part',
  source: 'collected',
  mergeRule: 'precedence',
  hasCoverage: true,
} as const;

/** What the datasets of dropped rows have in common. */
const droppedRows = {
  ...perSymbolAndTime,
  key: ['symbol', 't', 'seen_at', 'seq'],
  order: ['symbol', 't', 'seen_at', 'seq'],
  mergeRule: 'replace row',
  hasCoverage: false,
} as const;

const defineCandles = (interval: string) =>
  ({
    description: `open, high, low and close of each ${interval} with ticks`,
    columns: [
      column('symbol', 'string', 'market ticker at its venue'),
      column('t', 'timestamp', `start of the ${interval}`),
      column('open', 'double', 'first price', fraction),
      column('high', 'double', 'highest price', fraction),
      column('low', 'double', 'lowest price', fraction),
      column('close', 'double', 'last price', fraction),
      column('ticks', 'int32', `ticks in the ${interval}, at least 1`, 'ticks'),
      column('covered', 'double', `covered share of the ${interval}`, '0 to 1'),
      // Of quotes and trades; null without them.
      optional('bid', 'double', `bid of the UTC day's last quote before the end of the ${interval}`, fraction),
      optional('ask', 'double', `ask of the UTC day's last quote before the end of the ${interval}`, fraction),
      optional('volume', 'double', `sum of the sizes of the trades in the ${interval}`, 'as defined by the venue'),
      optional('trades', 'int32', `trades in the ${interval}`, 'trades'),
      optional('vwap', 'double', `mean price of the trades in the ${interval}, weighted by their sizes`, fraction),
    ],
    ...perSymbolAndTime,
    source: 'derived',
    mergeRule: 'recompute',
    hasCoverage: false,
  }) as const satisfies DatasetDefinition;

/** The dropped rows of a series. `one`: what a row is; `key`: what identifies it; `facts`: its other columns but `seq`. */
const defineSeriesConflicts = (one: string, key: string, facts: readonly Column[]) =>
  ({
    description: `${one}s that were dropped because another ${one} of the same ${key} has precedence`,
    columns: [
      column('symbol', 'string', 'market ticker at its venue'),
      column('t', 'timestamp', `time of the ${one} that was dropped`),
      column(
        'seen_at',
        'timestamp',
        `when the ${one} that arrived last was observed; if both arrived at once, the later time`,
      ),
      column('seq', 'int32', `from 0, among the dropped ${one}s of the same symbol, t and seen_at`, `${one}s`),
      ...facts,
    ],
    ...droppedRows,
  }) as const satisfies DatasetDefinition;

/** Every published dataset (CONTRACT, section 3). The manifest, views.sql and README.md list them in this order. */
export const datasets = {
  ticks: {
    description: 'every tick once: one row per (symbol, t)',
    columns: [
      column('symbol', 'string', 'market ticker at its venue'),
      column('t', 'timestamp', 'time of the tick'),
      column('p', 'double', 'price', fraction),
    ],
    ...perSymbolAndTime,
  },
  symbols: {
    description: 'one row per symbol, with its last known state',
    columns: [
      column('symbol', 'string', 'market ticker at its venue'),
      optional('canonical_id', 'string', 'market identifier across venues'),
      optional('source', 'string', 'venue'),
      optional('question', 'string', 'what the market asks'),
      optional('category', 'string', 'market category'),
      optional('is_active', 'boolean', 'whether the market was active at the last poll'),
      optional('opens_at', 'timestamp', 'opening of the market'),
      optional('closes_at', 'timestamp', 'close of the market'),
      optional('resolved_at', 'timestamp', 'when the outcome was settled'),
      optional('outcome', 'double', 'settlement: 1, 0, or between', fraction),
      column('first_seen', 'timestamp', 'first poll or import that contained it'),
      column('last_seen', 'timestamp', 'last poll or import that contained it'),
      optional('first_tick', 'timestamp', 'earliest published tick'),
      optional('last_tick', 'timestamp', 'latest published tick'),
      column('ticks', 'int64', 'published ticks', 'ticks'),
      ...detailColumns.filter(({ name }) => name !== 'rules'),
    ],
    key: ['symbol'],
    order: ['symbol'],
    time: null,
    partition: 'none',
    source: 'derived',
    mergeRule: 'recompute',
    hasCoverage: false,
  },
  markets: {
    description: 'the market lists, by day; a market has a new row whenever its state changes',
    columns: [
      column('canonical_id', 'string', 'market identifier across venues'),
      optional('symbol', 'string', 'market ticker at its venue'),
      optional('source', 'string', 'venue'),
      column('views', 'strings', 'market lists that named it'),
      optional('category', 'string', 'market category'),
      optional('confidence', 'double', 'confidence of the match', '0 to 1'),
      optional('is_active', 'boolean', 'whether the market is active'),
      optional('question', 'string', 'what the market asks'),
      optional('closes_at', 'timestamp', 'close of the market'),
      optional('resolved_at', 'timestamp', 'when the outcome was settled'),
      optional('outcome', 'double', 'settlement: 1, 0, or between', fraction),
      column('first_seen', 'timestamp', 'first poll of the day that showed this state'),
      column('last_seen', 'timestamp', 'last poll of the day that showed this state'),
      optional('extra', 'string', 'JSON object of every field that has no column'),
      ...detailColumns,
    ],
    key: ['canonical_id', 'symbol', 'first_seen'],
    order: ['canonical_id', 'symbol', 'first_seen'],
    time: { first: 'first_seen', last: 'last_seen', isLastIncluded: true },
    partition: 'day',
    source: 'collected',
    mergeRule: 'extend state',
    hasCoverage: false,
  },
  orderbooks: {
    description:
      'order book snapshots of YES, one row per level; if a venue has only bids for both outcomes, an ask is 1 minus a bid for NO',
    columns: [
      column('symbol', 'string', 'market ticker at its venue'),
      column('t', 'timestamp', 'time of the snapshot'),
      column('side', 'string', 'bid or ask'),
      column('level', 'int32', 'from 0, best first; -1 in the one row of an empty book, whose side is bid', 'levels'),
      column('price', 'double', 'price; NaN in an empty book', fraction),
      column(
        'quantity',
        'double',
        'quantity at that price, in the unit of the venue; 0 in an empty book',
        'as defined by the venue',
      ),
    ],
    ...perSymbolAndTime,
    key: ['symbol', 't', 'side', 'level'],
    order: ['symbol', 't', 'side', 'level'],
    mergeRule: 'replace snapshot',
  },
  quotes: {
    description: 'best bid and ask, one row per (symbol, t); null where a side has no offer, or where no size is known',
    columns: [
      column('symbol', 'string', 'market ticker at its venue'),
      column('t', 'timestamp', 'time of the quote'),
      ...quoteNumbers,
      ...seriesTimes,
    ],
    ...perSymbolAndTime,
  },
  trades: {
    description: 'every trade once: one row per (symbol, trade_id)',
    columns: [
      column('symbol', 'string', 'market ticker at its venue'),
      column('t', 'timestamp', 'time of the trade'),
      ...tradeFacts,
      column('seq', 'int32', 'from 0, among the trades of the same symbol and t', 'trades'),
      ...tradeTexts,
      ...seriesTimes,
    ],
    ...perSymbolAndTime,
    key: ['symbol', 'trade_id'],
    order: ['symbol', 't', 'seq'],
  },
  candles_1h: defineCandles('hour'),
  candles_1d: defineCandles('UTC day'),
  coverage: {
    description:
      'the windows that were fetched; the archive has all ticks of these windows, and may lack ticks of other windows',
    columns: [
      column('dataset', 'string', 'dataset that was fetched: ticks, orderbooks, quotes or trades'),
      column('symbol', 'string', 'market ticker at its venue'),
      column('t_from', 'timestamp', 'start of the window, inclusive'),
      column('t_to', 'timestamp', 'end of the window, exclusive'),
      column(
        'ticks',
        'int32',
        'published ticks in the window; of quotes and trades, their rows; of order books, the snapshots in its responses',
        'ticks',
      ),
      column('fetched_at', 'timestamp', 'when its response was generated; the earliest such time for joined windows'),
      column('origin', 'string', 'poll, backfill or import'),
      column('evidence', 'string', 'why it counts as covered: stated, confirmed, repeated, declared or inferred'),
      // Reserved: no writer sets it yet.
      optional(
        'grain_ms',
        'int64',
        "the source's time step in milliseconds, if it does not provide individual ticks",
        'ms',
      ),
    ],
    key: ['dataset', 'symbol', 't_from'],
    order: ['dataset', 'symbol', 't_from'],
    time: { first: 't_from', last: 't_to', isLastIncluded: false },
    partition: 'day and part',
    source: 'derived',
    mergeRule: 'overlay windows',
    hasCoverage: false,
  },
  conflicts: {
    description: 'prices that were dropped because another price of the same (symbol, t) has precedence',
    columns: [
      column('symbol', 'string', 'market ticker at its venue'),
      column('t', 'timestamp', 'time of the tick'),
      column('kept', 'double', 'the price that was kept', fraction),
      column('dropped', 'double', 'the price that was dropped', fraction),
      column('seen_at', 'timestamp', 'when the other price was observed'),
      column('seq', 'int32', 'from 0, among the dropped prices of the same symbol, t and seen_at', 'prices'),
    ],
    ...droppedRows,
  },
  quote_conflicts: defineSeriesConflicts('quote', '(symbol, t)', quoteNumbers),
  trade_conflicts: defineSeriesConflicts('trade', '(symbol, trade_id)', [...tradeFacts, ...tradeTexts]),
} as const satisfies Record<string, DatasetDefinition>;

export type DatasetName = keyof typeof datasets;

export const datasetNames = Object.keys(datasets) as DatasetName[];

/** The names of the datasets whose definition has such a value in a field. */
export type DatasetsWith<Field extends keyof DatasetDefinition, Value extends DatasetDefinition[Field]> = {
  [Name in DatasetName]: (typeof datasets)[Name][Field] extends Value ? Name : never;
}[DatasetName];

/** Whether a dataset has a folder for each UTC day. */
export const isDated = (name: DatasetName): boolean => datasets[name].partition !== 'none';

/** Whether the files of a day are split by symbol. */
export const isSplitBySymbol = (name: DatasetName): boolean => datasets[name].partition === 'day and part';

/** A dataset whose fetched windows are listed in `coverage`. */
export type CoveredDataset = DatasetsWith<'hasCoverage', true>;

/** The covered datasets, in the sort order of `coverage`. */
export const coveredDatasets: readonly CoveredDataset[] = datasetNames
  .filter((name): name is CoveredDataset => datasets[name].hasCoverage)
  .sort();

/** The dataset that holds the candles of each interval. */
export const candleDatasets = {
  '1h': 'candles_1h',
  '1d': 'candles_1d',
} as const satisfies Record<string, DatasetName>;

export type CandleInterval = keyof typeof candleDatasets;
