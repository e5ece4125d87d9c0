import type { Clock, Random } from '../../base/ports.ts';

/**
 * Tables of the service's database, as migrations.ts creates them. Columns are text and numbers only, which every database
 * supports. Times are epoch milliseconds.
 */
export interface Tables {
  keys: {
    id: string;
    name: string;
    created_at: number;
    expires_at: number | null;
    revoked_at: number | null;
    /** With a resolution of a minute. */
    last_used_at: number | null;
    requests_per_minute: number | null;
    /** Separated by spaces; see src/contract/key-scopes.ts. */
    scopes: string;
    /** Separated by spaces; null for all datasets. */
    datasets: string | null;
  };
  /** The secrets of keys. A key has several while a rotation overlaps. */
  key_secrets: {
    /** SHA-256 of the secret, in hex: the secret itself is shown once and not stored. */
    digest: string;
    key_id: string;
    created_at: number;
    /** Null for the secret that the key was created or last rotated with. */
    expires_at: number | null;
  };
  /** Counts of the last days, added up over all services. */
  key_usage: {
    key_id: string;
    /** Start of a UTC day, epoch milliseconds. */
    day: number;
    requests: number;
    bytes: number;
  };
  /** Revocations of user tokens: of one token, or of all tokens of a user that were issued before a time. */
  revoked_tokens: {
    /** A digest of the two columns that follow; only one of them has a value. */
    id: string;
    jti: string | null;
    user_id: string | null;
    /** Null for a revocation of one token. */
    issued_before: number | null;
    revoked_at: number;
    /** Expiry time of the token, after which the row is removed; null if it is not known. */
    expires_at: number | null;
  };
  owners: OwnerRow;
  strategies: StrategyRow;
  bots: BotRow;
  backtests: BacktestRow;
  archive_leases: {
    /** See jobs/archive-lease.ts. */
    lease_id: string;
    /** Identity of the archive that last held the lease; copies share the lease ID. */
    archive: string;
    served_at: number;
  };
}

/** The last two are final. */
export type JobState = 'waiting' | 'running' | 'done' | 'failed';

/** The owner of an object; only the owner can find it. */
export interface OwnerColumns {
  /** User of the token that created it. */
  owner: string;
  /** Workspace of that token; '' if there is none, because nulls are distinct in a unique index. */
  workspace: string;
}

/** An owner of strategies or bots. */
interface OwnerRow extends OwnerColumns {
  /** Number of changes of the owner's strategies and bots; updating it serializes them. */
  changes: number;
}

interface ObjectRow extends OwnerColumns {
  id: string;
  /** Increases with every object of its table, in order of creation. */
  ordinal: number;
  idempotency_key: string | null;
  created_at: number;
}

/** A version of a strategy; immutable. */
export interface StrategyRow extends ObjectRow {
  name: string;
  /** From 1, per owner and name. */
  version: number;
  /** Highest version that was assigned to this name, so that no number is reused. */
  versions_assigned: number;
  /** JSON of a Strategy (src/contract/strategy-language.ts). */
  definition: string;
  /** SHA-256 of the request body, to detect another request with the same idempotency key. */
  body_sha256: string;
}

export interface BotRow extends ObjectRow {
  name: string;
  strategy_id: string;
  /** A JSON list of symbols; null for every symbol that matches the filter. */
  symbols: string | null;
  /** JSON: categories and sources. */
  filter: string;
  mode: 'paper';
  status: 'active' | 'paused';
  updated_at: number;
  /** See StrategyRow. */
  body_sha256: string;
}

/** A saved research backtest; its states are those of every job. */
export interface BacktestRow extends ObjectRow {
  /** Lease ID of its archive: several services may share a database. */
  lease_id: string;
  state: JobState;
  /** JSON of a BacktestSpec (src/contract/backtest-request.ts). */
  request: string;
  /** SHA-256 of the request body; null without a request. */
  body_sha256: string | null;
  /** JSON: the strategy as resolved at the time of the request. */
  strategy: string;
  /** Version of a stored strategy, else null. */
  strategy_version: number | null;
  /** Process ID of its runner. */
  runner: number | null;
  /** Number of starts, not counting those after which a clean stop returned the job to the queue. */
  attempts: number;
  started_at: number | null;
  finished_at: number | null;
  batches_done: number;
  batches_total: number | null;
  error: string | null;
  /** The objective's value, for lists. */
  value: number | null;
  /** A backtest result as JSON; see src/backtest/result.ts. */
  result: string | null;
  /** Number of trades of the result; null until it is done. */
  trades_rows: number | null;
  /** The file with all trades; null if there is none. */
  trades_bytes: number | null;
  trades_sha256: string | null;
}

/** A page of a list, newest first. */
export interface PageRequest {
  readonly limit: number;
  /** Ordinal of the last row of the previous page; null for the first page. */
  readonly before: number | null;
}

export interface RowPage<Row> {
  readonly rows: Row[];
  /** Value of `before` for the next page; null on the last page. */
  readonly next: number | null;
}

/** Makes a page from up to `limit` + 1 rows. */
export function toRowPage<Row extends { readonly ordinal: number }>(rows: readonly Row[], limit: number): RowPage<Row> {
  const page = rows.slice(0, limit);
  return { rows: page, next: rows.length > limit ? page.at(-1)!.ordinal : null };
}

/** Ten characters of 0-9 and a-z. */
export const generateRandomId = (random: Random): string =>
  Math.floor(random() * 36 ** 10)
    .toString(36)
    .padStart(10, '0');

/** A new ID of an object or a job; later ones sort after it. */
export const createObjectId = ({ clock, random }: { readonly clock: Clock; readonly random: Random }): string =>
  `${clock.nowMs().toString(36)}${generateRandomId(random)}`;
