/**
 * Tables of the service's database, as migrations.ts makes them. Columns hold text and numbers only, so that every
 * database has them. Times are epoch milliseconds.
 */
export interface Tables {
  keys: {
    id: string;
    name: string;
    /** sha256 of the secret, in hex: the secret itself is shown once and kept nowhere. */
    digest: string;
    created_at: number;
    expires_at: number | null;
    revoked_at: number | null;
    /** To the minute, not to the request. */
    last_used_at: number | null;
    requests_per_minute: number | null;
  };
  export_jobs: ExportJobRow;
  owners: OwnerRow;
  strategies: StrategyRow;
  bots: BotRow;
  backtests: BacktestRow;
  places: {
    /** The word that an archive's jobs are kept under. */
    place: string;
    /** Which archive of that word was served last: a copy has the same one. */
    archive: string;
    served_at: number;
  };
}

/** The last three are final; no job becomes cancelled any more. */
export type JobState = 'waiting' | 'running' | 'done' | 'failed' | 'cancelled';

/** An export job, as `Tables` has it. */
export interface ExportJobRow {
  id: string;
  /** Grows with every job; two may share one. */
  ordinal: number;
  key_id: string;
  idempotency_key: string | null;
  /** Which archive it is of: several services may share a database. */
  place: string;
  state: JobState;
  dataset: string;
  /** A JSON list. */
  symbols: string;
  from_ms: number | null;
  to_ms: number | null;
  format: string;
  created_at: number;
  finished_at: number | null;
  expires_at: number | null;
  /** The process that is at it. */
  runner: number | null;
  /** How often it was begun, but for those times that it was put back in good order. */
  attempts: number;
  rows_done: number;
  rows_total: number | null;
  bytes: number | null;
  sha256: string | null;
  rows: number | null;
  generation: number | null;
  error: string | null;
}

/** Whose an object is: nobody else finds it. */
export interface OwnerColumns {
  /** The user of the token that made it. */
  owner: string;
  /** The workspace of that token; '' for none, as absent ones would all be different. */
  workspace: string;
}

/** Who has made a strategy or a bot. */
interface OwnerRow extends OwnerColumns {
  /** Counts the changes of the owner's strategies and bots, which take turns by it. */
  made: number;
}

interface ObjectRow extends OwnerColumns {
  id: string;
  /** Grows with every object of its table: the order in which they were made. */
  ordinal: number;
  idempotency_key: string | null;
  created_at: number;
}

/** A version of a strategy: it never changes. */
export interface StrategyRow extends ObjectRow {
  name: string;
  /** From 1, without a hole, by owner and name. */
  version: number;
  /** The highest version that this name had when this one was the newest, or a newer one was removed: none is given twice. */
  versions_given: number;
  /** JSON, as src/backtest/strategy/strategy.ts has it. */
  definition: string;
  /** Of the request that made it: whether another one with its idempotency key says the same. */
  body_sha256: string;
}

export interface BotRow extends ObjectRow {
  name: string;
  strategy_id: string;
  /** A JSON list; null: those that the filter leaves. */
  symbols: string | null;
  /** JSON: categories and sources. */
  filter: string;
  mode: 'paper';
  status: 'active' | 'paused';
  updated_at: number;
  /** As of a strategy. */
  body_sha256: string;
}

/** A research backtest that is kept; its states are those of every job. */
export interface BacktestRow extends ObjectRow {
  /** Which archive it is run on: several services may share a database. */
  place: string;
  state: JobState;
  /** JSON, as src/backtest/backtest-spec.ts has it. */
  asked: string;
  /** What the request was, to be known by; null where there was none. */
  body_sha256: string | null;
  /** JSON: the strategy as it was found when it was asked for. */
  strategy: string;
  /** Its version where it is one of the owner's. */
  strategy_version: number | null;
  /** The process that is at it. */
  runner: number | null;
  /** How often it was begun, but for those times that it was put back in good order. */
  attempts: number;
  started_at: number | null;
  finished_at: number | null;
  batches_done: number;
  batches_total: number | null;
  error: string | null;
  /** The objective's value, for lists. */
  value: number | null;
  /** JSON, as src/backtest/result.ts has it. */
  result: string | null;
}

/** A page of a list, newest first: at most so many, of those that were made before one. */
export interface PageRequest {
  readonly limit: number;
  /** The ordinal of the last one of the page before; null: from the newest on. */
  readonly before: number | null;
}

export interface RowPage<Row> {
  readonly rows: Row[];
  /** What the next page is before; null where there is none. */
  readonly next: number | null;
}

/** A page out of one row more than it has, where there is one more. */
export function toRowPage<Row extends { readonly ordinal: number }>(rows: readonly Row[], limit: number): RowPage<Row> {
  const page = rows.slice(0, limit);
  return { rows: page, next: rows.length > limit ? page.at(-1)!.ordinal : null };
}
