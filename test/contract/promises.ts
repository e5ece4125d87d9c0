/** What oddslake promises to the outside, item by item, as data: tests hold the program to it, both ways. */

/** Flags of each command besides the common ones. */
export const commands: Readonly<Record<string, readonly string[]>> = {
  nightly: ['--date'],
  markets: [],
  ticks: ['--symbol'],
  orderbook: ['--symbol'],
  backfill: ['--from', '--to', '--symbol', '--symbols-file', '--dry-run', '--force', '--all-known'],
  import: [
    ...['--dataset', '--format', '--columns', '--time-unit', '--truncate-time', '--price-scale', '--tz', '--covers'],
    ...['--prefer', '--allow-rejected', '--dry-run'],
  ],
  schedule: [],
  publish: [],
  status: ['--max-lag'],
  report: ['--out'],
  gaps: ['--from', '--to', '--symbol'],
  'gaps accept': ['--from', '--to', '--reason'],
  'gaps revoke': ['--from', '--to'],
  symbols: [],
  'symbols retry': [],
  changes: ['--since'],
  doctor: ['--offline'],
  verify: ['--repair', '--from-url'],
  snapshot: [],
  export: ['--out', '--dataset', '--symbol', '--from', '--to', '--format'],
  sql: ['--format'],
  upgrade: [],
  serve: [],
  'keys create': ['--name', '--expires', '--requests-per-minute'],
  'keys list': [],
  'keys revoke': [],
  'tokens issue': ['--user', '--workspace', '--scope', '--expires'],
  'backtest run': [
    ...['--objective', '--symbol', '--symbols-file', '--category', '--source', '--from', '--to', '--param', '--grid'],
    ...['--held-out', '--out', '--save', '--user', '--workspace'],
  ],
  'backtest list': [],
  'backtest show': ['--out'],
  sandbox: [],
  init: [],
  demo: [],
};

/** Flags that work on every command they can matter to. */
export const commonFlags = [
  ...['--config', '--output', '--set', '--json', '--quiet', '--log-level', '--no-progress', '--wait', '--strict'],
  ...['--help'],
] as const;

export const exitCodes: Readonly<Record<number, string>> = {
  0: 'everything asked for is done',
  1: 'unexpected failure, a full disk included',
  2: 'bad usage or bad settings; nothing was done',
  3: 'the upstream refused the credential',
  4: 'incomplete; with --strict, warnings too',
  5: 'another run is writing and --wait is over',
  6: 'the archive is damaged',
  7: 'the upstream could not be reached at all',
  130: 'stopped by SIGINT, after a clean stop',
  143: 'stopped by SIGTERM, after a clean stop',
};

/** Variables of the environment and the setting that each one names; ODDSLAKE_CONFIG names a file. */
export const variables: Readonly<Record<string, string | null>> = {
  ODDSLAKE_BASE_URL: 'upstream.base_url',
  ODDSLAKE_API_KEY: 'upstream.api_key',
  ODDSLAKE_API_KEY_FILE: 'upstream.api_key_file',
  ODDSLAKE_OUTPUT: 'archive.output',
  ODDSLAKE_CONFIG: null,
  ODDSLAKE_DATABASE_URL: 'service.database_url',
  ODDSLAKE_TOKEN_SECRET: 'service.tokens.secret',
  ODDSLAKE_FROM_API_KEY: 'repair.from_api_key',
  ODDSLAKE_FROM_API_KEY_FILE: 'repair.from_api_key_file',
  ODDSLAKE_WEBHOOK_URL: 'notify.webhook_url',
  ODDSLAKE_WEBHOOK_URL_FILE: 'notify.webhook_url_file',
  ODDSLAKE_REQUESTS_PER_SECOND: 'upstream.requests_per_second',
};

/** Fields of the JSON object that a job's last line is. */
export const summaryFields = [
  ...['version', 'job', 'run_id', 'outcome', 'exit_code', 'started_at', 'finished_at', 'requests', 'retries'],
  ...['throttled_ms', 'pages', 'ticks.fetched', 'ticks.accepted', 'ticks.duplicates', 'ticks.conflicts'],
  ...['ticks.quarantined', 'recovered', 'symbols.planned', 'symbols.done', 'symbols.failed', 'symbols.suspended'],
  ...['published.files', 'published.rows', 'published.bytes', 'published.dates', 'published.added'],
  ...['published.lost', 'markets', 'generation', 'watermark', 'gaps'],
  ...['warnings', 'failures', 'schema_drift', 'rate.allowed_per_second', 'rate.used', 'rate.waited_ms'],
  ...['night.nights', 'night.ticks.new', 'night.ticks.late', 'night.ticks.conflicts', 'night.markets.new'],
  ...['night.markets.gone', 'night.markets.resolved', 'night.markets.overdue', 'night.covered.symbols'],
  ...['night.covered.gap_minutes', 'night.too_late', 'rechecks.requests', 'rechecks.windows'],
  ...['rechecks.contradicted', 'rechecks.new_ticks', 'rechecks.withdrawn_windows', 'rechecks.reread_windows'],
  ...['rechecks.doubtful_windows', 'rechecks.lateness_ms', 'rechecks.overlap_ms', 'next_action'],
] as const;

const time = 'Timestamp<MILLISECOND, UTC>';
const text = 'Utf8';
const number = 'Float64';
const candle = {
  ...{ symbol: text, t: time, open: number, high: number, low: number, close: number, ticks: 'Int32', covered: number },
};

/** Columns of each dataset in their order with their types as Arrow names them; `?`: may be null. */
export const columns: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  ticks: { symbol: text, t: time, p: number },
  symbols: {
    ...{ symbol: text, canonical_id: '?Utf8', source: '?Utf8', question: '?Utf8', category: '?Utf8' },
    ...{ is_active: '?Bool', opens_at: `?${time}`, closes_at: `?${time}`, resolved_at: `?${time}` },
    ...{ outcome: '?Float64', first_seen: time, last_seen: time, first_tick: `?${time}`, last_tick: `?${time}` },
    ...{ ticks: 'Int64' },
  },
  markets: {
    ...{ canonical_id: text, symbol: '?Utf8', source: '?Utf8', views: 'List<Utf8>', category: '?Utf8' },
    ...{ confidence: '?Float64', is_active: '?Bool', question: '?Utf8', closes_at: `?${time}` },
    ...{ resolved_at: `?${time}`, outcome: '?Float64', first_seen: time, last_seen: time, extra: '?Utf8' },
  },
  orderbooks: { symbol: text, t: time, side: text, level: 'Int32', price: number, quantity: number },
  candles_1h: candle,
  candles_1d: candle,
  coverage: {
    ...{ dataset: text, symbol: text, t_from: time, t_to: time, ticks: 'Int32', fetched_at: time, origin: text },
    ...{ evidence: text, grain_ms: '?Int64' },
  },
  conflicts: { symbol: text, t: time, kept: number, dropped: number, seen_at: time },
};

/** The columns by which each dataset is sorted and unique. */
export const keys: Readonly<Record<string, readonly string[]>> = {
  ticks: ['symbol', 't'],
  symbols: ['symbol'],
  markets: ['canonical_id', 'symbol', 'first_seen'],
  orderbooks: ['symbol', 't', 'side', 'level'],
  candles_1h: ['symbol', 't'],
  candles_1d: ['symbol', 't'],
  coverage: ['dataset', 'symbol', 't_from'],
  conflicts: ['symbol', 't', 'seen_at', 'dropped'],
};

export const manifestFields = [
  ...['format_version', 'generation', 'created_at', 'writer', 'upstream', 'parts', 'previous_sha256', 'watermark'],
  ...['reached', 'verified_through', 'commit_id', 'days', 'verdict', 'datasets'],
] as const;

/** Fields that the manifest has where there is something to say: windows of which ticks were lost. */
export const manifestFieldsAtTimes = ['lost'] as const;

/** Fields of one day in the manifest, and of one file. */
export const dayFields = ['state', 'expected', 'covered', 'missing', 'exceptions'] as const;
export const fileFields = [
  ...['path', 'date', 'rows', 'bytes', 'sha256', 't_min', 't_max', 'symbols', 'generation'],
] as const;

/** Files at the archive's root. */
export const rootFiles = ['README.md', 'manifest.json', 'SHA256SUMS', 'views.sql'] as const;

/** Routes of the service, by method and path as the OpenAPI document has them. */
export const routes = [
  ...['GET /api/v1/markets', 'GET /api/v1/ticks', 'GET /api/v1/orderbook'],
  ...['GET /api/v1/historical/markets', 'GET /api/v1/historical/ticks', 'GET /api/v1/historical/candles'],
  ...['GET /api/v1/historical/coverage', 'GET /api/v1/historical/orderbooks'],
  ...['GET /api/v1/export', 'POST /api/v1/export', 'GET /api/v1/export/files/{dataset}/{date}/{part}'],
  ...['GET /api/v1/export/files/symbols/{part}', 'GET /api/v1/export/jobs', 'GET /api/v1/export/jobs/{id}'],
  ...['DELETE /api/v1/export/jobs/{id}', 'GET /api/v1/export/jobs/{id}/file'],
  ...['POST /api/v1/research/backtest', 'GET /api/v1/backtest', 'GET /api/v1/backtest/{id}'],
  ...['DELETE /api/v1/backtest/{id}', 'GET /api/v1/bots', 'POST /api/v1/bots'],
  ...['GET /api/v1/bots/{id}', 'PATCH /api/v1/bots/{id}', 'DELETE /api/v1/bots/{id}'],
  ...['GET /api/v1/strategies', 'POST /api/v1/strategies', 'GET /api/v1/strategies/{id}'],
  ...['DELETE /api/v1/strategies/{id}', 'GET /api/v1/me', 'GET /api/v1/openapi.json'],
  ...['GET /healthz', 'GET /readyz', 'GET /metrics', 'GET /', 'GET /assets/{stamp}/{name}'],
] as const;
