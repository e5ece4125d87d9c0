import type { Proof } from './proofs.ts';

// Which test proves which promise of the service: its commands, settings and routes.

const at =
  (file: string) =>
  (title: string): Proof => [file, title];

const e2eKeys = at('e2e/keys.test.ts');
const ticks = at('server/ticks.long.test.ts');
const markets = at('server/markets.long.test.ts');
const operations = at('server/operations.long.test.ts');
const live = at('server/live/live-reads.long.test.ts');
const stream = at('server/live/ticks-stream.long.test.ts');
const files = at('server/export-files.long.test.ts');
const tokens = at('server/tokens.test.ts');
const keySets = at('server/key-sets.test.ts');
const strategies = at('server/strategies.test.ts');
const bots = at('server/bots.long.test.ts');
const rows = at('server/historical-rows.long.test.ts');
const publicAccess = at('server/public-access.test.ts');
const catalogue = at('server/catalogue.test.ts');

const served = at('e2e/serve.test.ts')('serve prints its address and exits 0 when stopped');
const keyMade = e2eKeys('prints a key once, lists it without its secret, and rejects it once revoked');
const keyRotated = e2eKeys('a key has the given permissions, and keeps them when it is rotated');
const usageShown = e2eKeys('shows the usage of keys that a stopped service has counted');
const tokenIssued = e2eKeys('issues tokens signed with the service secret, for thirty days by default');
const tokenRevoked = e2eKeys('revokes a token by its ID or itself, and all tokens of a user');
const database = e2eKeys('keys and service share the database of a URL, and never print its password');
const research = at('server/research.long.test.ts');
const researchLong = at('server/research.long.test.ts');
const backtests = at('server/backtests.long.test.ts');
const backtestsLong = at('server/backtests.long.test.ts');
const backtestTrades = at('server/backtest-trades.long.test.ts');
const backtestLife = backtests('is created, followed, and has the result of the engine');
const strategyLife = strategies('is created, found at its URL, listed and removed');
const botLife = bots('is created, found at its URL, listed, paused, resumed and removed');
const botList = bots('lists bots newest first; pages stay consistent while bots are added');
const fileServed = files('is served byte for byte, with headers for caching and verifying it');

export const serviceCommands = {
  serve: served,
  'keys create': keyMade,
  'keys list': keyMade,
  'keys rotate': keyRotated,
  'keys revoke': keyMade,
  'keys usage': usageShown,
  'tokens issue': tokenIssued,
  'tokens list': tokenRevoked,
  'tokens revoke': tokenRevoked,
} as const;

export const serviceFlags = {
  'keys create --name': keyMade,
  'keys create --scope': keyRotated,
  'keys create --dataset': keyRotated,
  'keys usage --since': usageShown,
  'keys rotate --overlap': keyRotated,
  'keys rotate --expires': keyRotated,
  'keys create --expires': keyMade,
  'keys create --requests-per-minute': keyMade,
  'tokens revoke --user': tokenRevoked,
  'tokens revoke --issued-before': tokenRevoked,
  'tokens issue --user': tokenIssued,
  'tokens issue --workspace': tokenIssued,
  'tokens issue --scope': tokenIssued,
  'tokens issue --expires': tokenIssued,
} as const;

const metricsKey = at('server/operations.long.test.ts')('metrics require their own key if it is set');

export const serviceVariables = {
  ODDSLAKE_DATABASE_URL: database,
  ODDSLAKE_TOKEN_SECRET: tokenIssued,
  ODDSLAKE_METRICS_KEY: metricsKey,
} as const;

export const serviceSettings = {
  'service.host': at('e2e/serve.test.ts')('serve listens on service.host, and reports why it cannot'),
  'service.port': served,
  'service.database_url': database,
  'service.connections_per_address_max': at('server/crowded.long.test.ts')(
    'an address above its maximum loses an idle connection, and a new one if all are in use',
  ),
  'service.metrics_key': metricsKey,
  'service.requests_per_minute': at('server/rate.long.test.ts')(
    'a key without its own rate limit has that of the settings; each key and user is counted separately',
  ),
  'service.public_catalogue': publicAccess('true opens the catalogue to everyone, and false to nobody'),
  'service.ticks_limit_max': ticks('service.ticks_limit_max bounds the limit, and the default limit'),
  'service.rows_limit_max': markets('limit bounds the markets and not the total, and is bounded by the setting'),
  'service.lag_seconds_max': operations('is not ready if the watermark is too far behind'),
  'service.cache_bytes_max': operations('reports the size of the file cache, which stays within its limit'),
  'service.queries_concurrent_max': at('server/historical-streams.long.test.ts')(
    'a stream that is not read blocks no page, and the number of streams is limited',
  ),
  'service.live.enabled': live('ticks are as fresh as the upstream, and history the next moment'),
  'service.live.max_age_seconds': live('asks nothing for the past, nor for data that is fresh'),
  'service.live.timeout_ms': live('a slow upstream costs one timeout; what it returns later is journaled'),
  'service.live.rate_share': live('live reads and the collector have their own shares of the request rate'),
  'service.stream.keep_hours': stream('old rows are removed, and symbols that nobody streams are no longer logged'),
  'service.stream.streams_max': stream('bounds the streams of a key and of the service'),
  'service.stream.streams_per_key_max': stream('bounds the streams of a key and of the service'),
  'service.research.threads': researchLong('gives the same bytes with any number of threads'),
  'service.research.runs_concurrent_max': research(
    'ends when its client disconnects; meanwhile a limited number of others wait',
  ),
  'service.tokens.issuer': tokens('checks issuer and audience of the settings'),
  'service.tokens.audience': tokens('checks issuer and audience of the settings'),
  'service.tokens.secret': tokens('rejects tokens that are forged, of others, expired or not valid yet'),
  'service.tokens.jwks_url': keySets(
    'a key set from a URL is fetched once and again for a new kid, but not for every unknown kid',
  ),
  'service.tokens.jwks_file': keySets('a key set accepts RS256, ES256 and EdDSA signatures only'),
} as const;

/** By method and path, as the OpenAPI document has them. */
export const serviceRoutes = {
  'GET /api/v1/markets': markets('returns the last poll with its time, journaled or published'),
  'GET /api/v1/ticks': ticks('returns published and journaled ticks of a window in ascending order'),
  'GET /api/v1/ticks/stream': stream('sends each tick when it is journaled, once, however often it is fetched'),
  'GET /api/v1/orderbook': at('server/orderbook.long.test.ts')(
    'returns the latest snapshot with best levels first, journaled or published',
  ),
  'GET /api/v1/symbols': at('server/symbol-search.long.test.ts')(
    'finds symbols by words, filters and sorts, page by page',
  ),
  'GET /api/v1/historical/markets': at('server/historical-markets.test.ts')(
    'returns a market in its last known state with its history',
  ),
  'GET /api/v1/historical/ticks': rows(
    'returns ticks of one symbol in [from, to), in order of time, from one generation',
  ),
  'GET /api/v1/historical/candles': at('server/historical-candles.long.test.ts')(
    'returns the candles of the archive for every interval, by symbol, window and page',
  ),
  'GET /api/v1/historical/coverage': rows('returns coverage, and for one symbol the gaps of oddslake gaps'),
  'GET /api/v1/historical/orderbooks': rows(
    'returns complete order book snapshots with best levels first, including empty ones',
  ),
  'GET /api/v1/historical/quotes': rows(
    'returns quotes sorted by symbol and time, with null for a missing side or size',
  ),
  'GET /api/v1/historical/trades': at('server/historical-trades.long.test.ts')(
    'returns trades sorted by symbol, time and identifier, on pages of any size',
  ),
  'GET /api/v1/historical/conflicts': at('server/historical-conflicts.test.ts')(
    'returns every dropped price once, on pages of any size and as files',
  ),
  'GET /api/v1/export': at('server/export-manifest.test.ts')(
    'serves the manifest byte for byte, and 304 if the client has it',
  ),
  'GET /api/v1/export/files/{dataset}/{date}/{part}': fileServed,
  'GET /api/v1/export/files/symbols/{part}': fileServed,
  'POST /api/v1/research/backtest': research(
    'returns the result of the engine, and the same bytes again except for the time',
  ),
  'GET /api/v1/backtest': backtestsLong(
    'lists saved backtests newest first; pages stay consistent while backtests come and go',
  ),
  'GET /api/v1/backtest/{id}': backtestLife,
  'GET /api/v1/backtest/{id}/trades': backtestTrades(
    'are all trades of the result, in the same order, as pages, CSV and Parquet',
  ),
  'DELETE /api/v1/backtest/{id}': backtests('can be removed while it waits or runs, and is then not run'),
  'GET /api/v1/bots': botList,
  'POST /api/v1/bots': botLife,
  'GET /api/v1/bots/{id}': botLife,
  'PATCH /api/v1/bots/{id}': botLife,
  'DELETE /api/v1/bots/{id}': botLife,
  'GET /api/v1/strategies': strategies('has pages that stay consistent while strategies are added and removed'),
  'POST /api/v1/strategies': strategyLife,
  'GET /api/v1/strategies/{id}': strategyLife,
  'DELETE /api/v1/strategies/{id}': bots('stays bound to its version, which cannot be removed before the bot'),
  'GET /api/v1/me': at('server/keys.test.ts')(
    'describes the key of a request; a missing or invalid one gives 401 with a challenge',
  ),
  'GET /api/v1/openapi.json': at('server/openapi.long.test.ts')('the document is valid OpenAPI 3.1 and public'),
  'GET /healthz': at('server/route-access.test.ts')('the health check requires no credential'),
  'GET /readyz': operations('is not ready before the first publish, and says so without a key'),
  'GET /metrics': operations('metrics follow changes of the archive'),
  'GET /': catalogue('serves the page without a key, with a strict content security policy'),
  'GET /assets/{stamp}/{name}': catalogue('serves every file of the page as immutable'),
} as const;
