import type { Proof } from './proofs.ts';

// Which test proves which promise of the service: its commands, settings and routes.

const at =
  (file: string) =>
  (title: string): Proof => [file, title];

const e2eKeys = at('e2e/keys.test.ts');
const ticks = at('server/ticks.test.ts');
const markets = at('server/markets.test.ts');
const operations = at('server/operations.test.ts');
const files = at('server/export-files.test.ts');
const jobs = at('server/export-jobs.test.ts');
const jobsLong = at('server/export-jobs.long.test.ts');
const tokens = at('server/tokens.test.ts');
const keySets = at('server/key-sets.test.ts');
const strategies = at('server/strategies.test.ts');
const bots = at('server/bots.test.ts');
const rows = at('server/historical-rows.test.ts');
const catalogue = at('server/catalogue.test.ts');

const served = at('e2e/serve.test.ts')('serve prints its address and exits 0 when stopped');
const keyMade = e2eKeys('prints a key once, lists it without its secret, and rejects it once revoked');
const tokenIssued = e2eKeys('issues tokens signed with the service secret, for thirty days by default');
const database = e2eKeys('keys and service share the database of a URL, and never print its password');
const research = at('server/research.test.ts');
const researchLong = at('server/research.long.test.ts');
const backtests = at('server/backtests.test.ts');
const backtestsLong = at('server/backtests.long.test.ts');
const backtestLife = backtests('is asked for, followed and found with the result that the engine gives');
const strategyLife = strategies('is made, found at its address, listed and removed');
const botLife = bots('is made, found at its address, listed, paused, made active again and removed');
const botList = bots('bots are listed newest first, in pages that lose and repeat nothing while bots come in');
const jobLife = jobs('is asked for, followed and fetched');
const jobRemoved = jobs('are removed while they wait or run, and leave no file');
const fileServed = files('is served byte for byte, with what a client needs to keep and check it');

export const serviceCommands = {
  serve: served,
  'keys create': keyMade,
  'keys list': keyMade,
  'keys revoke': keyMade,
  'tokens issue': tokenIssued,
} as const;

export const serviceFlags = {
  'keys create --name': keyMade,
  'keys create --expires': keyMade,
  'keys create --requests-per-minute': keyMade,
  'tokens issue --user': tokenIssued,
  'tokens issue --workspace': tokenIssued,
  'tokens issue --scope': tokenIssued,
  'tokens issue --expires': tokenIssued,
} as const;

export const serviceVariables = { ODDSLAKE_DATABASE_URL: database, ODDSLAKE_TOKEN_SECRET: tokenIssued } as const;

export const serviceSettings = {
  'service.host': at('e2e/serve.test.ts')('serve listens on service.host, and reports why it cannot'),
  'service.port': served,
  'service.database_url': database,
  'service.requests_per_minute': at('server/rate.test.ts')(
    'a key without a rate of its own has that of the settings; each key and each user counts alone',
  ),
  'service.ticks_limit_max': ticks(
    'a limit beyond service.ticks_limit_max is cut to it, and without one no more are given either',
  ),
  'service.rows_limit_max': markets(
    'limit cuts what is given and not what is counted, and is itself cut to what is set',
  ),
  'service.lag_seconds_max': operations('a watermark further behind than allowed makes it not ready'),
  'service.cache_bytes_max': operations('what is kept of published files is told, and never more than is allowed'),
  'service.queries_at_once_max': at('server/historical-streams.test.ts')(
    'a stream that nobody takes holds up no page, and at most so many are under way',
  ),
  'service.exports.keep_hours': jobs('are gone with their files once their time is over'),
  'service.exports.bytes_max': jobsLong(
    'larger than what is left fails; where nothing is left, none is begun until one is removed',
  ),
  'service.exports.waiting_max': at('server/export-requests.test.ts')(
    'is refused with 429 where the key has too many that are not finished',
  ),
  'service.research.threads': researchLong('gives the same bytes in however many threads it is played'),
  'service.research.ticks_at_once_max': researchLong(
    'that is too large for it is told to be saved, by its ticks and the points of its grid',
  ),
  'service.research.ticks_job_max': researchLong(
    'or is to be kept, and is too large, is refused: by what it looks back on and each of its windows, too',
  ),
  'service.research.run_seconds_max': research('that takes too long is broken off, and told to be saved'),
  'service.research.runs_at_once_max': research(
    'ends when its client goes away; until then others wait, and beyond some are turned away',
  ),
  'service.research.waiting_max': backtestsLong(
    'backtests that are kept are so many of one user at most, waiting or kept',
  ),
  'service.research.kept_max': backtestsLong(
    'backtests that are kept are so many of one user at most, waiting or kept',
  ),
  'service.tokens.issuer': tokens('issuer and audience are those of the settings'),
  'service.tokens.audience': tokens('issuer and audience are those of the settings'),
  'service.tokens.secret': tokens('tokens that are forged, for others, or not good now are refused'),
  'service.tokens.jwks_url': keySets(
    'a key set from a URL is fetched once, again for a new kid, and not for every kid that somebody thinks of',
  ),
  'service.tokens.jwks_file': keySets('a key set checks RS256, ES256 and EdDSA, and nothing that is signed otherwise'),
} as const;

/** By method and path, as the OpenAPI document has them. */
export const serviceRoutes = {
  'GET /api/v1/markets': markets(
    'the last poll is answered, with the moment it was answered, journaled and published alike',
  ),
  'GET /api/v1/ticks': ticks('published and journaled ticks of a window come ascending, as documented'),
  'GET /api/v1/orderbook': at('server/orderbook.test.ts')(
    'the latest snapshot is answered, journaled and published alike, its levels best first',
  ),
  'GET /api/v1/historical/markets': at('server/historical-markets.test.ts')(
    'a market is told as last known, with the states it went through',
  ),
  'GET /api/v1/historical/ticks': rows(
    "one symbol's ticks come in order of time, from included and to excluded, from one generation",
  ),
  'GET /api/v1/historical/candles': at('server/historical-candles.test.ts')(
    'candles of every interval are those of the archive, with symbol, window and pages',
  ),
  'GET /api/v1/historical/coverage': rows(
    'coverage tells what was asked for, and of one symbol the gaps that oddslake gaps finds',
  ),
  'GET /api/v1/historical/orderbooks': rows('order books come as whole snapshots, best first, empty ones too'),
  'GET /api/v1/export': at('server/export-manifest.test.ts')(
    'the manifest is served byte for byte, and not again where the client has it',
  ),
  'POST /api/v1/export': jobLife,
  'GET /api/v1/export/files/{dataset}/{date}/{part}': fileServed,
  'GET /api/v1/export/files/symbols/{part}': fileServed,
  'GET /api/v1/export/jobs': jobs('are listed newest first, and are there for their own key only'),
  'GET /api/v1/export/jobs/{id}': jobLife,
  'DELETE /api/v1/export/jobs/{id}': jobRemoved,
  'GET /api/v1/export/jobs/{id}/file': jobLife,
  'POST /api/v1/research/backtest': research(
    'gives what the engine gives, and the same bytes again but for the moment',
  ),
  'GET /api/v1/backtest': backtestsLong(
    'backtests that are kept are listed newest first, page by page, whatever comes and goes',
  ),
  'GET /api/v1/backtest/{id}': backtestLife,
  'DELETE /api/v1/backtest/{id}': backtests('is removed while it waits or runs, and then not run any more'),
  'GET /api/v1/bots': botList,
  'POST /api/v1/bots': botLife,
  'GET /api/v1/bots/{id}': botLife,
  'PATCH /api/v1/bots/{id}': botLife,
  'DELETE /api/v1/bots/{id}': botLife,
  'GET /api/v1/strategies': strategies('comes in pages that lose and repeat nothing while strategies come in and go'),
  'POST /api/v1/strategies': strategyLife,
  'GET /api/v1/strategies/{id}': strategyLife,
  'DELETE /api/v1/strategies/{id}': bots('stays bound to its version, which is not removed before it'),
  'GET /api/v1/me': at('server/keys.test.ts')(
    'a key says what it is, and a missing or bad one is a problem with a challenge',
  ),
  'GET /api/v1/openapi.json': at('server/openapi.test.ts')('the document is valid OpenAPI 3.1, for everybody'),
  'GET /healthz': at('server/route-access.test.ts')('everybody may ask whether the service is there'),
  'GET /readyz': operations('an archive that nothing was published in is not ready, and says so without a key'),
  'GET /metrics': operations('metrics follow the archive while it changes'),
  'GET /': catalogue('everybody gets the page, with a policy that allows only what is its own'),
  'GET /assets/{stamp}/{name}': catalogue(
    'every file that the page and its modules name is there, to be kept for good',
  ),
} as const;
