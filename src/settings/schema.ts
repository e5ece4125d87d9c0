import type { Static } from 'typebox';

/** What a cron expression is called; load.ts looks into the expression itself. */
export const cronText = 'a cron expression';

/**
 * Every setting with its bounds and default, as JSON Schema in the file's snake_case. TypeBox gives the types; it is not
 * loaded at run time, as that alone would double the start-up of every command.
 */
export const settingsSchema = section({
  upstream: section({
    base_url: nullable({ type: 'string', minLength: 1 }),
    api_key: nullable({ type: 'string', minLength: 1, secret: true }),
    api_key_file: nullable({ type: 'string', minLength: 1 }),
    requests_per_second: number(5, 0.001, 100_000),
    concurrency: whole(4, 1, 256),
    request_deadline_seconds: { type: 'number', exclusiveMinimum: 0, maximum: 3600, default: 60 },
    response_bytes_max: whole(64 * 1024 * 1024, 1024, 1024 * 1024 * 1024),
    retry_attempts_max: whole(6, 1, 100),
    retry_delay_seconds_min: number(0.25, 0, 3600),
    retry_delay_seconds_max: number(30, 0, 3600),
    retry_after_seconds_max: number(900, 0, 86_400),
  }),
  source: section({
    name: nullable({ type: 'string', minLength: 1, maxLength: 200 }),
    views: texts(['matched', 'resolving']),
    symbol_paths: texts(['symbol', 'symbols/*', 'ticker', 'venues/*/ticker', 'venues/*/symbol']),
    field_paths: section({
      question: texts(['question', 'title']),
      source: texts(['source', 'venue', 'venues/*/source', 'venues/*/venue']),
      opens_at: texts(['opens_at', 'open_time']),
      closes_at: texts(['closes_at', 'close_time', 'end_date']),
      resolved_at: texts(['resolved_at', 'resolution_time']),
      outcome: texts(['outcome', 'result']),
    }),
    markets_limit: whole(1000, 1, 1_000_000),
    linger_days: number(7, 0, 3650),
    suspend_after_days: whole(3, 1, 365),
    first_lookback_days: number(7, 0, 3650),
    thins_after_days: { anyOf: [{ type: 'number', minimum: 0, maximum: 3650 }, { type: 'null' }], default: 7 },
    lifetime_margin_hours: number(24, 0, 8760),
  }),
  symbols: texts([]),
  poll: section({
    overlap_minutes: number(60, 0, 10_080),
    overlap_minutes_max: number(1440, 0, 10_080),
    recheck_share: number(0.01, 0, 1),
    page_limit: whole(5000, 1, 1_000_000),
    future_skew_seconds: number(300, 0, 86_400),
    confirm: { type: 'string', enum: ['next', 'now'], default: 'next' },
  }),
  orderbooks: section({
    symbols: texts([]),
    all_live: flag(false),
  }),
  publish: section({
    journal_ticks_max: whole(5_000_000, 1, 1_000_000_000),
  }),
  archive: section({
    output: { type: 'string', minLength: 1, default: 'output/archive' },
    parts: whole(4, 1, 1024),
    settle_minutes: number(60, 0, 10_080),
    candles: someOf(['1h', '1d']),
    verify_days: whole(30, 1, 3650),
  }),
  raw: section({
    keep_days: whole(7, 0, 3650),
    bytes_max: whole(2 * 1024 * 1024 * 1024, 1, 64 * 1024 * 1024 * 1024 * 1024),
  }),
  quarantine: section({
    bytes_max: whole(256 * 1024 * 1024, 1, 64 * 1024 * 1024 * 1024 * 1024),
    run_bytes_max: whole(16 * 1024 * 1024, 0, 1024 * 1024 * 1024 * 1024),
    file_bytes_max: whole(4 * 1024 * 1024, 0, 1024 * 1024 * 1024 * 1024),
  }),
  import: section({
    rejected_share_max: number(0.01, 0, 1),
  }),
  repair: section({
    from_api_key: nullable({ type: 'string', minLength: 1, secret: true }),
    from_api_key_file: nullable({ type: 'string', minLength: 1 }),
  }),
  falls: section({
    markets_share_max: number(0.5, 0, 1),
    ticks_share_max: number(0.8, 0, 1),
  }),
  report: section({
    nightly: flag(true),
    days: whole(60, 1, 1000),
  }),
  schedule: section({
    nightly: cron('17 3 * * *'),
    markets: cron(null),
    ticks: cron(null),
    orderbook: cron(null),
    publish: cron(null),
    jitter_seconds: number(60, 0, 3600),
    catch_up_hours: number(24, 0, 8760),
    host: { type: 'string', minLength: 1, maxLength: 255, default: '127.0.0.1' },
    port: nullable({ type: 'integer', minimum: 0, maximum: 65_535 }),
    late_hours_max: number(6, 0.01, 8760),
  }),
  metrics: section({
    textfile: nullable({ type: 'string', minLength: 1, description: 'a path that ends with .prom' }),
  }),
  notify: section({
    webhook_url: nullable({ type: 'string', minLength: 1, maxLength: 4096, secret: true }),
    webhook_url_file: nullable({ type: 'string', minLength: 1 }),
    when: { type: 'string', enum: ['failure', 'warning', 'always'], default: 'failure' },
  }),
  service: section({
    host: { type: 'string', minLength: 1, maxLength: 255, default: '127.0.0.1' },
    port: whole(8080, 0, 65_535),
    database_url: nullable({ type: 'string', minLength: 1, secret: true }),
    requests_per_minute: whole(600, 1, 10_000_000),
    ticks_limit_max: whole(10_000, 1, 1_000_000),
    rows_limit_max: whole(10_000, 1, 1_000_000),
    lag_seconds_max: number(172_800, 0, 31_536_000),
    cache_bytes_max: whole(256 * 1024 * 1024, 0, 64 * 1024 * 1024 * 1024),
    queries_at_once_max: whole(4, 1, 256),
    exports: section({
      keep_hours: number(24, 0, 8760),
      bytes_max: whole(10 * 1024 * 1024 * 1024, 1, 64 * 1024 * 1024 * 1024 * 1024),
      waiting_max: whole(10, 1, 1000),
    }),
    research: section({
      threads: whole(2, 1, 64),
      ticks_at_once_max: whole(50_000_000, 1, 1_000_000_000_000_000),
      ticks_job_max: whole(20_000_000_000, 1, 1_000_000_000_000_000),
      run_seconds_max: number(60, 0.001, 86_400),
      runs_at_once_max: whole(2, 1, 64),
      waiting_max: whole(10, 1, 1000),
      kept_max: whole(100, 1, 10_000),
    }),
    tokens: section({
      issuer: { type: 'string', minLength: 1, maxLength: 1000, default: 'oddslake' },
      audience: { type: 'string', minLength: 1, maxLength: 1000, default: 'oddslake' },
      secret: nullable({
        type: 'string',
        minLength: 32,
        maxLength: 4096,
        secret: true,
        description: 'a text of 32 to 4096 characters',
      }),
      jwks_url: nullable({ type: 'string', minLength: 1, maxLength: 2000 }),
      jwks_file: nullable({ type: 'string', minLength: 1 }),
    }),
  }),
  log: section({
    level: { type: 'string', enum: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], default: 'info' },
  }),
});

/** The JSON Schema keywords that settings use; `secret` keeps a value out of messages. */
export interface LeafSchema {
  readonly type?: 'string' | 'number' | 'integer' | 'boolean' | 'array' | 'null';
  readonly anyOf?: readonly LeafSchema[];
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly items?: LeafSchema;
  readonly secret?: boolean;
  /** What a text has to be, where its length does not say it. */
  readonly description?: string;
  readonly default?: unknown;
}

export interface SectionSchema {
  readonly type: 'object';
  readonly properties: { readonly [key: string]: SectionSchema | LeafSchema };
}

type Camel<K> = K extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : K;

/** The values that a schema describes, deeply read-only, their names in camelCase. */
export type ValuesOf<S> = S extends { readonly properties: infer P }
  ? { readonly [K in keyof P as Camel<K>]: ValuesOf<P[K]> }
  : S extends { readonly items: infer I }
    ? readonly Static<I & object>[]
    : Static<S & object>;

function section<const P extends SectionSchema['properties']>(properties: P) {
  return { type: 'object', additionalProperties: false, required: Object.keys(properties), properties } as const;
}

function nullable<const S extends LeafSchema>(schema: S) {
  return { anyOf: [schema, { type: 'null' }], default: null } as const;
}

/** When a job runs. */
function cron(value: string | null) {
  const text = { type: 'string', minLength: 1, maxLength: 200, description: cronText } as const;
  return { anyOf: [text, { type: 'null' }], default: value } as const;
}

function whole(value: number, minimum: number, maximum: number) {
  return { type: 'integer', minimum, maximum, default: value } as const;
}

function number(value: number, minimum: number, maximum: number) {
  return { type: 'number', minimum, maximum, default: value } as const;
}

function flag(value: boolean) {
  return { type: 'boolean', default: value } as const;
}

/** A list of some of these names, by default of all. */
function someOf<const N extends string>(names: readonly N[]) {
  return { type: 'array', items: { type: 'string', enum: names }, maxItems: 100, default: names } as const;
}

function texts(value: readonly string[]) {
  const items = { type: 'string', minLength: 1, maxLength: 1000 } as const;
  return { type: 'array', items, maxItems: 1_000_000, default: value } as const;
}
