import type { Static } from 'typebox';
import { priceFormulaPattern } from '../base/price-formula.ts';
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

/**
 * All settings: names of the config file, types, bounds, defaults, and how they are given and read (`SettingTraits`). It is a JSON
 * Schema too. TypeBox is imported only for types: loading it takes 0.2 s of CPU time, which would double the start of every command.
 */
export const settingsSchema = createSection({
  upstream: createSection({
    base_url: createText({}, { isCommon: true, variable: 'ODDSLAKE_BASE_URL', kind: 'address' }),
    api_key: createText({}, { isCommon: true, variable: 'ODDSLAKE_API_KEY', kind: 'key', isSecret: true }),
    api_key_file: createText({}, { isCommon: true, variable: 'ODDSLAKE_API_KEY_FILE', kind: 'path' }),
    requests_per_second: createNumber(5, 0.001, 100_000, { isCommon: true, variable: 'ODDSLAKE_REQUESTS_PER_SECOND' }),
    concurrency: createInteger(4, 1, 256),
    request_deadline_seconds: { type: 'number', exclusiveMinimum: 0, maximum: 3600, default: 60 },
    response_bytes_max: createInteger(64 * 1024 * 1024, 1024, 1024 * 1024 * 1024),
    retry_attempts_max: createInteger(6, 1, 100),
    retry_delay_seconds_min: createNumber(0.25, 0, 3600),
    retry_delay_seconds_max: createNumber(30, 0, 3600),
    retry_after_seconds_max: createNumber(900, 0, 86_400),
  }),
  source: createSection({
    name: createText({ maxLength: 200 }, { isCommon: true, isOfArchive: true }),
    views: createTextList(['matched', 'resolving']),
    include: createSelectorList({ isCommon: true }),
    exclude: createSelectorList({ isCommon: true }),
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
    linger_days: createNumber(7, 0, 3650, { isOfArchive: true }),
    suspend_after_days: createInteger(3, 1, 365),
    first_lookback_days: createNumber(7, 0, 3650, { isOfArchive: true }),
    mirror: createFlag(false),
    price: createText({ pattern: priceFormulaPattern, description: 'a formula such as p, p/100 or 1-p' }),
    downsampled_after_days: { anyOf: [{ type: 'number', minimum: 0, maximum: 3650 }, { type: 'null' }], default: 7 },
  }),
  symbols: createTextList([], { isCommon: true }),
  poll: createSection({
    overlap_minutes: createNumber(60, 0, 10_080),
    overlap_minutes_max: createNumber(1440, 0, 10_080),
    settle_hours: createNumber(24, 0, 168),
    pieces: createFlag(true),
    recheck_share: createNumber(0.01, 0, 1),
    page_limit: createInteger(5000, 1, 1_000_000),
    future_skew_seconds: createNumber(300, 0, 86_400),
  }),
  orderbooks: createSection({
    symbols: createTextList([], { isCommon: true }),
    all_live: createFlag(false, { isCommon: true }),
  }),
  publish: createSection({
    journal_ticks_max: createInteger(5_000_000, 1, 1_000_000_000),
  }),
  archive: createSection({
    output: createPresetText('output/archive', { isCommon: true, variable: 'ODDSLAKE_OUTPUT', kind: 'archive' }),
    parts: createInteger(4, 1, 1024),
    candles: createChoiceList(['1h', '1d']),
    verify_days: createInteger(30, 1, 3650),
  }),
  raw: createSection({
    keep_days: createInteger(7, 0, 3650, { isCommon: true }),
    bytes_max: createInteger(2 * 1024 * 1024 * 1024, 1, 64 * 1024 * 1024 * 1024 * 1024),
  }),
  bucket: createSection({
    url: createText({ maxLength: 1100, description: 'an address such as s3://BUCKET/PREFIX' }, { isCommon: true }),
    keep_generations: createInteger(30, 1, 10_000, { isCommon: true }),
    keep_days: createNumber(7, 1, 3650, { isCommon: true }),
    push_minutes_max: createNumber(60, 0.01, 10_080),
    single_writer: createFlag(false),
    path_style: createFlag(false, { isCommon: true }),
    sse: createNullable({ type: 'string', enum: ['AES256', 'aws:kms'] }),
    kms_key: createText({ maxLength: 2048 }),
    cache_dir: createText({}, { kind: 'path' }),
    cache_bytes_max: createInteger(20_000_000_000, 0, 1_000_000_000_000_000),
  }),
  import: createSection({
    rejected_share_max: createNumber(0.01, 0, 1),
  }),
  repair: createSection({
    from_api_key: createText({}, { variable: 'ODDSLAKE_FROM_API_KEY', kind: 'key', isSecret: true }),
    from_api_key_file: createText({}, { variable: 'ODDSLAKE_FROM_API_KEY_FILE', kind: 'path' }),
  }),
  report: createSection({
    nightly: createFlag(true),
    days: createInteger(60, 1, 1000),
    catalogue_url: createText(
      { maxLength: 2000, description: 'an address such as https://lake.example.org/' },
      { kind: 'link' },
    ),
  }),
  schedule: createSection({
    nightly: createCron('17 3 * * *'),
    markets: createCron(null),
    ticks: createCron(null),
    orderbook: createCron(null),
    publish: createCron(null),
    jitter_seconds: createNumber(60, 0, 3600),
    catch_up_hours: createNumber(24, 0, 8760),
    host: createPresetText('127.0.0.1', {}, 255),
    port: createNullable({ type: 'integer', minimum: 0, maximum: 65_535 }),
    late_hours_max: createNumber(6, 0.01, 8760),
  }),
  notify: createSection({
    webhook_url: createSecretUrl({ isCommon: true, variable: 'ODDSLAKE_WEBHOOK_URL' }),
    webhook_url_file: createText({}, { isCommon: true, variable: 'ODDSLAKE_WEBHOOK_URL_FILE', kind: 'path' }),
    when: createChoice(['failure', 'warning', 'always'], 'failure', { isCommon: true }),
    ping_url: createSecretUrl({ isCommon: true, variable: 'ODDSLAKE_PING_URL' }),
    ping_url_file: createText({}, { isCommon: true, variable: 'ODDSLAKE_PING_URL_FILE', kind: 'path' }),
    ping_start_url: createSecretUrl(),
    ping_fail_url: createSecretUrl(),
    ping_jobs: createChoiceList(notifyingJobs, ['nightly']),
  }),
  service: createSection({
    host: createPresetText('127.0.0.1', { isCommon: true }, 255),
    port: createInteger(8080, 0, 65_535, { isCommon: true }),
    database_url: createText({}, { variable: 'ODDSLAKE_DATABASE_URL', kind: 'database', isSecret: true }),
    connections_per_address_max: createInteger(1000, 1, 2000),
    requests_per_minute: createInteger(600, 1, 10_000_000, { isCommon: true }),
    public_catalogue: {
      anyOf: [{ type: 'boolean' }, { type: 'string', enum: ['auto'] }],
      default: 'auto',
      isCommon: true,
    },
    ticks_limit_max: createInteger(10_000, 1, 1_000_000),
    rows_limit_max: createInteger(10_000, 1, 1_000_000),
    lag_seconds_max: createNumber(172_800, 0, 31_536_000),
    cache_bytes_max: createInteger(256 * 1024 * 1024, 0, 64 * 1024 * 1024 * 1024),
    queries_concurrent_max: createInteger(4, 1, 256),
    live: createSection({
      enabled: createFlag(false, { isCommon: true }),
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
      runs_concurrent_max: createInteger(2, 1, 64),
    }),
    metrics_key: createText(
      {
        minLength: 16,
        maxLength: 4096,
        pattern: '^[\\x21-\\x7e]+$',
        description: 'a string of 16 to 4096 printable ASCII characters without spaces',
      },
      { variable: 'ODDSLAKE_METRICS_KEY', isSecret: true },
    ),
    tokens: createSection({
      issuer: createPresetText('oddslake', {}, 1000),
      audience: createPresetText('oddslake', {}, 1000),
      secret: createText(
        { minLength: 32, maxLength: 4096, description: 'a string of 32 to 4096 characters' },
        { isCommon: true, variable: 'ODDSLAKE_TOKEN_SECRET', isSecret: true },
      ),
      jwks_url: createText({ maxLength: 2000 }, { isCommon: true }),
      jwks_file: createText({}, { kind: 'path' }),
    }),
  }),
  log: createSection({
    level: createChoice(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], 'info', { isCommon: true }),
    format: createChoice(['auto', 'text', 'json'], 'auto', { isCommon: true }),
  }),
});

/** What JSON Schema does not say of a setting. */
interface SettingTraits {
  /** Whether users choose it; the others are for the few whose service, disk or memory differs. */
  readonly isCommon?: boolean;
  /** Environment variable. Those of `upstream` exist for each source too, with its name at the end. */
  readonly variable?: string;
  /** Whether several sources cannot have it each, though its section is one of theirs. */
  readonly isOfArchive?: boolean;
  /** Whether messages must not show it. */
  readonly isSecret?: boolean;
  /**
   * What a text is: load.ts checks and resolves it. A `key` and a `secret-url` may also stand in the file that the setting with
   * `_file` at the end of its name gives.
   */
  readonly kind?: 'address' | 'archive' | 'cron' | 'database' | 'key' | 'link' | 'path' | 'secret-url';
}

/** The JSON Schema keywords that settings use. */
export interface LeafSchema extends SettingTraits {
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

export function createNullable<const S extends LeafSchema>(schema: S, traits: SettingTraits = {}) {
  return { anyOf: [schema, { type: 'null' }], default: null, ...traits } as const;
}

/** A text that is not set by default. */
function createText(bounds: LeafSchema = {}, traits: SettingTraits = {}) {
  return createNullable({ minLength: 1, ...bounds, type: 'string' } as const, traits);
}

/** The address of a webhook or of a ping: anyone who knows it can post to it. */
function createSecretUrl(traits: SettingTraits = {}) {
  return createText({ maxLength: 4096 }, { ...traits, kind: 'secret-url', isSecret: true });
}

function createPresetText(value: string, traits: SettingTraits, maxLength = 4096) {
  return { type: 'string', minLength: 1, maxLength, default: value, ...traits } as const;
}

/** The schedule of a job; null: it is not scheduled. */
function createCron(value: string | null) {
  const text = { type: 'string', minLength: 1, maxLength: 200, description: 'a cron expression' } as const;
  return { anyOf: [text, { type: 'null' }], default: value, kind: 'cron', isCommon: true } as const;
}

export function createChoice<const N extends readonly string[]>(
  names: N,
  value: N[number],
  traits: SettingTraits = {},
) {
  return { type: 'string', enum: names, default: value, ...traits } as const;
}

export function createInteger(value: number, minimum: number, maximum: number, traits: SettingTraits = {}) {
  return { type: 'integer', minimum, maximum, default: value, ...traits } as const;
}

export function createNumber(value: number, minimum: number, maximum: number, traits: SettingTraits = {}) {
  return { type: 'number', minimum, maximum, default: value, ...traits } as const;
}

export function createFlag(value: boolean, traits: SettingTraits = {}) {
  return { type: 'boolean', default: value, ...traits } as const;
}

/** A list of some of these names; all of them by default. */
export function createChoiceList<const N extends string>(names: readonly N[], value: readonly N[] = names) {
  return { type: 'array', items: { type: 'string', enum: names }, maxItems: 100, default: value } as const;
}

/** A list of selectors of symbols; none by default. */
function createSelectorList(traits: SettingTraits) {
  const items = {
    type: 'string',
    minLength: 1,
    maxLength: 1000,
    pattern: selectorPattern,
    description: selectorRule,
  } as const;
  return { type: 'array', items, maxItems: 10_000, default: [], ...traits } as const;
}

function createTextList(value: readonly string[], traits: SettingTraits = {}) {
  const items = { type: 'string', minLength: 1, maxLength: 1000 } as const;
  return { type: 'array', items, maxItems: 1_000_000, default: value, ...traits } as const;
}
