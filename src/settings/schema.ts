import type { Static } from 'typebox';
import { selectorPattern, selectorRule } from '../base/symbol-selector.ts';

/** Jobs whose end is reported. `push` is that of a schedule. */
const notifyingJobs = [
  'nightly',
  'markets',
  'ticks',
  'orderbook',
  'backfill',
  'import',
  'publish',
  'repair',
  'verify',
  'push',
] as const;

/** Description of settings that are cron expressions. load.ts validates settings with this description. */
export const cronDescription = 'a cron expression';

/**
 * All settings with bounds and defaults, as JSON Schema with the snake_case names of the config file. TypeBox is imported only
 * for types: loading it at run time would double the start-up time of every command.
 */
export const settingsSchema = createSection({
  upstream: createSection({
    base_url: createNullable({ type: 'string', minLength: 1 }),
    api_key: createNullable({ type: 'string', minLength: 1, secret: true }),
    api_key_file: createNullable({ type: 'string', minLength: 1 }),
    requests_per_second: createNumber(5, 0.001, 100_000),
    concurrency: createInteger(4, 1, 256),
    request_deadline_seconds: { type: 'number', exclusiveMinimum: 0, maximum: 3600, default: 60 },
    response_bytes_max: createInteger(64 * 1024 * 1024, 1024, 1024 * 1024 * 1024),
    retry_attempts_max: createInteger(6, 1, 100),
    retry_delay_seconds_min: createNumber(0.25, 0, 3600),
    retry_delay_seconds_max: createNumber(30, 0, 3600),
    retry_after_seconds_max: createNumber(900, 0, 86_400),
  }),
  source: createSection({
    name: createNullable({ type: 'string', minLength: 1, maxLength: 200 }),
    views: createTextList(['matched', 'resolving']),
    include: createSelectorList(),
    exclude: createSelectorList(),
    symbol_paths: createTextList(['symbol', 'symbols/*', 'ticker', 'venues/*/ticker', 'venues/*/symbol']),
    field_paths: createSection({
      question: createTextList(['question', 'title']),
      source: createTextList(['source', 'venue', 'venues/*/source', 'venues/*/venue']),
      opens_at: createTextList(['opens_at', 'open_time']),
      closes_at: createTextList(['closes_at', 'close_time', 'end_date']),
      resolved_at: createTextList(['resolved_at', 'resolution_time']),
      outcome: createTextList(['outcome', 'result']),
      outcome_source: createTextList(['outcome_source', 'resolution_source']),
      event: createTextList(['event', 'event_ticker', 'event_id', 'events/0/id']),
      exclusive: createTextList(['exclusive', 'mutually_exclusive', 'neg_risk', 'negRisk']),
      strike_low: createTextList(['strike_low', 'floor_strike']),
      strike_high: createTextList(['strike_high', 'cap_strike']),
      expected_end: createTextList(['expected_end', 'expected_expiration_time', 'endDate']),
      rules: createTextList(['rules', 'rules_primary', 'description']),
      fee_schedule: createTextList(['fee_schedule', 'fee_type', 'feeType']),
      tick_size: createTextList(['tick_size', 'minimum_tick_size', 'orderPriceMinTickSize']),
    }),
    markets_limit: createInteger(1000, 1, 1_000_000),
    linger_days: createNumber(7, 0, 3650),
    suspend_after_days: createInteger(3, 1, 365),
    first_lookback_days: createNumber(7, 0, 3650),
    downsampled_after_days: { anyOf: [{ type: 'number', minimum: 0, maximum: 3650 }, { type: 'null' }], default: 7 },
    lifetime_margin_hours: createNumber(24, 0, 8760),
  }),
  symbols: createTextList([]),
  poll: createSection({
    overlap_minutes: createNumber(60, 0, 10_080),
    overlap_minutes_max: createNumber(1440, 0, 10_080),
    recheck_share: createNumber(0.01, 0, 1),
    page_limit: createInteger(5000, 1, 1_000_000),
    future_skew_seconds: createNumber(300, 0, 86_400),
    confirm: { type: 'string', enum: ['next', 'now'], default: 'next' },
  }),
  orderbooks: createSection({
    symbols: createTextList([]),
    all_live: createFlag(false),
  }),
  publish: createSection({
    journal_ticks_max: createInteger(5_000_000, 1, 1_000_000_000),
  }),
  archive: createSection({
    output: { type: 'string', minLength: 1, default: 'output/archive' },
    parts: createInteger(4, 1, 1024),
    part_rows: createInteger(0, 0, 1_000_000_000),
    settle_minutes: createNumber(60, 0, 10_080),
    candles: createChoiceList(['1h', '1d']),
    verify_days: createInteger(30, 1, 3650),
  }),
  raw: createSection({
    keep_days: createInteger(7, 0, 3650),
    bytes_max: createInteger(2 * 1024 * 1024 * 1024, 1, 64 * 1024 * 1024 * 1024 * 1024),
  }),
  quarantine: createSection({
    bytes_max: createInteger(256 * 1024 * 1024, 1, 64 * 1024 * 1024 * 1024 * 1024),
    run_bytes_max: createInteger(16 * 1024 * 1024, 0, 1024 * 1024 * 1024 * 1024),
    file_bytes_max: createInteger(4 * 1024 * 1024, 0, 1024 * 1024 * 1024 * 1024),
  }),
  bucket: createSection({
    url: createNullable({
      type: 'string',
      minLength: 1,
      maxLength: 1100,
      description: 'an address such as s3://BUCKET/PREFIX',
    }),
    keep_generations: createInteger(30, 1, 10_000),
    keep_days: createNumber(7, 1, 3650),
    push_minutes_max: createNumber(60, 0.01, 10_080),
    single_writer: createFlag(false),
    path_style: createFlag(false),
    sse: createNullable({ type: 'string', enum: ['AES256', 'aws:kms'] }),
    kms_key: createNullable({ type: 'string', minLength: 1, maxLength: 2048 }),
    cache_dir: createNullable({ type: 'string', minLength: 1 }),
    cache_bytes_max: createInteger(20_000_000_000, 0, 1_000_000_000_000_000),
  }),
  import: createSection({
    rejected_share_max: createNumber(0.01, 0, 1),
  }),
  repair: createSection({
    from_api_key: createNullable({ type: 'string', minLength: 1, secret: true }),
    from_api_key_file: createNullable({ type: 'string', minLength: 1 }),
  }),
  drops: createSection({
    markets_share_max: createNumber(0.5, 0, 1),
    ticks_share_max: createNumber(0.8, 0, 1),
  }),
  report: createSection({
    nightly: createFlag(true),
    days: createInteger(60, 1, 1000),
    catalogue_url: createNullable({
      type: 'string',
      minLength: 1,
      maxLength: 2000,
      description: 'an address such as https://lake.example.org/',
    }),
  }),
  schedule: createSection({
    nightly: createCron('17 3 * * *'),
    markets: createCron(null),
    ticks: createCron(null),
    orderbook: createCron(null),
    publish: createCron(null),
    jitter_seconds: createNumber(60, 0, 3600),
    catch_up_hours: createNumber(24, 0, 8760),
    host: { type: 'string', minLength: 1, maxLength: 255, default: '127.0.0.1' },
    port: createNullable({ type: 'integer', minimum: 0, maximum: 65_535 }),
    late_hours_max: createNumber(6, 0.01, 8760),
  }),
  metrics: createSection({
    textfile: createNullable({ type: 'string', minLength: 1, description: 'a path that ends with .prom' }),
  }),
  notify: createSection({
    webhook_url: createNullable({ type: 'string', minLength: 1, maxLength: 4096, secret: true }),
    webhook_url_file: createNullable({ type: 'string', minLength: 1 }),
    when: { type: 'string', enum: ['failure', 'warning', 'always'], default: 'failure' },
    ping_url: createNullable({ type: 'string', minLength: 1, maxLength: 4096, secret: true }),
    ping_url_file: createNullable({ type: 'string', minLength: 1 }),
    ping_start_url: createNullable({ type: 'string', minLength: 1, maxLength: 4096, secret: true }),
    ping_fail_url: createNullable({ type: 'string', minLength: 1, maxLength: 4096, secret: true }),
    ping_jobs: createChoiceList(notifyingJobs, ['nightly']),
    email: createSection({
      to: createTextList([]),
      from: createNullable({ type: 'string', minLength: 1, maxLength: 320 }),
      when: { type: 'string', enum: ['failure', 'warning', 'always'], default: 'failure' },
      smtp_url: createNullable({ type: 'string', minLength: 1, maxLength: 4096, secret: true }),
      smtp_url_file: createNullable({ type: 'string', minLength: 1 }),
      sendmail: createNullable({ type: 'string', minLength: 1, maxLength: 4096 }),
    }),
  }),
  service: createSection({
    host: { type: 'string', minLength: 1, maxLength: 255, default: '127.0.0.1' },
    port: createInteger(8080, 0, 65_535),
    database_url: createNullable({ type: 'string', minLength: 1, secret: true }),
    connections_per_address_max: createInteger(1000, 1, 2000),
    requests_per_minute: createInteger(600, 1, 10_000_000),
    public_catalogue: {
      anyOf: [{ type: 'boolean' }, { type: 'string', enum: ['auto'] }],
      default: 'auto',
    },
    ticks_limit_max: createInteger(10_000, 1, 1_000_000),
    rows_limit_max: createInteger(10_000, 1, 1_000_000),
    lag_seconds_max: createNumber(172_800, 0, 31_536_000),
    cache_bytes_max: createInteger(256 * 1024 * 1024, 0, 64 * 1024 * 1024 * 1024),
    queries_concurrent_max: createInteger(4, 1, 256),
    live: createSection({
      enabled: createFlag(false),
      max_age_seconds: createNumber(5, 0.1, 86_400),
      timeout_ms: createInteger(1000, 1, 60_000),
      rate_share: createNumber(0.2, 0.01, 0.9),
    }),
    stream: createSection({
      keep_hours: createNumber(24, 0.1, 720),
      streams_max: createInteger(1000, 1, 2000),
      streams_per_key_max: createInteger(100, 1, 2000),
    }),
    research: createSection({
      threads: createInteger(2, 1, 64),
      ticks_sync_max: createInteger(50_000_000, 1, 1_000_000_000_000_000),
      ticks_job_max: createInteger(20_000_000_000, 1, 1_000_000_000_000_000),
      run_seconds_max: createNumber(60, 0.001, 86_400),
      runs_concurrent_max: createInteger(2, 1, 64),
      waiting_max: createInteger(10, 1, 1000),
      saved_backtests_max: createInteger(100, 1, 10_000),
      trades_bytes_max: createInteger(1024 * 1024 * 1024, 0, 64 * 1024 * 1024 * 1024 * 1024),
    }),
    metrics_key: createNullable({
      type: 'string',
      minLength: 16,
      maxLength: 4096,
      pattern: '^[\\x21-\\x7e]+$',
      secret: true,
      description: 'a string of 16 to 4096 printable ASCII characters without spaces',
    }),
    tokens: createSection({
      issuer: { type: 'string', minLength: 1, maxLength: 1000, default: 'oddslake' },
      audience: { type: 'string', minLength: 1, maxLength: 1000, default: 'oddslake' },
      secret: createNullable({
        type: 'string',
        minLength: 32,
        maxLength: 4096,
        secret: true,
        description: 'a string of 32 to 4096 characters',
      }),
      jwks_url: createNullable({ type: 'string', minLength: 1, maxLength: 2000 }),
      jwks_file: createNullable({ type: 'string', minLength: 1 }),
    }),
  }),
  log: createSection({
    level: { type: 'string', enum: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], default: 'info' },
    format: { type: 'string', enum: ['auto', 'text', 'json'], default: 'auto' },
  }),
});

/** The JSON Schema keywords that settings use. The value of a `secret` is not shown in messages. */
export interface LeafSchema {
  readonly type?: 'string' | 'number' | 'integer' | 'boolean' | 'array' | 'null';
  readonly anyOf?: readonly LeafSchema[];
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  /** A regular expression with the flag u. */
  readonly pattern?: string;
  readonly maxItems?: number;
  readonly items?: LeafSchema;
  readonly secret?: boolean;
  /** Expected format of a string, for messages. */
  readonly description?: string;
  readonly default?: unknown;
}

export interface SectionSchema {
  readonly type: 'object';
  readonly properties: { readonly [key: string]: SectionSchema | LeafSchema };
}

type CamelCase<K> = K extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelCase<Tail>>}` : K;

/** The values that a schema describes, deeply read-only, with camelCase names. */
export type SchemaValues<S> = S extends { readonly properties: infer P }
  ? { readonly [K in keyof P as CamelCase<K>]: SchemaValues<P[K]> }
  : S extends { readonly items: infer I }
    ? readonly Static<I & object>[]
    : Static<S & object>;

function createSection<const P extends SectionSchema['properties']>(properties: P) {
  return { type: 'object', additionalProperties: false, required: Object.keys(properties), properties } as const;
}

function createNullable<const S extends LeafSchema>(schema: S) {
  return { anyOf: [schema, { type: 'null' }], default: null } as const;
}

/** The schedule of a job; null: it is not scheduled. */
function createCron(value: string | null) {
  const text = { type: 'string', minLength: 1, maxLength: 200, description: cronDescription } as const;
  return { anyOf: [text, { type: 'null' }], default: value } as const;
}

function createInteger(value: number, minimum: number, maximum: number) {
  return { type: 'integer', minimum, maximum, default: value } as const;
}

function createNumber(value: number, minimum: number, maximum: number) {
  return { type: 'number', minimum, maximum, default: value } as const;
}

function createFlag(value: boolean) {
  return { type: 'boolean', default: value } as const;
}

/** A list of some of these names; all of them by default. */
function createChoiceList<const N extends string>(names: readonly N[], value: readonly N[] = names) {
  return { type: 'array', items: { type: 'string', enum: names }, maxItems: 100, default: value } as const;
}

/** A list of selectors of symbols; none by default. */
function createSelectorList() {
  const items = {
    type: 'string',
    minLength: 1,
    maxLength: 1000,
    pattern: selectorPattern,
    description: selectorRule,
  } as const;
  return { type: 'array', items, maxItems: 10_000, default: [] } as const;
}

function createTextList(value: readonly string[]) {
  const items = { type: 'string', minLength: 1, maxLength: 1000 } as const;
  return { type: 'array', items, maxItems: 1_000_000, default: value } as const;
}
