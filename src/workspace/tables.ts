/**
 * Tables of the service's database, as migrations.ts makes them. Columns hold text and whole numbers only, so that every
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
}

/** The last three are final. */
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
  rows_done: number;
  rows_total: number | null;
  bytes: number | null;
  sha256: string | null;
  rows: number | null;
  generation: number | null;
  error: string | null;
}
