// Calls every operation of the service through the client that openapi-typescript and openapi-fetch make of its document,
// and prints one line of JSON for each response. The compiler checks every use of a parsed response.
import createClient from 'openapi-fetch';
import type { components, paths } from './api.d.ts';

const { ODDSLAKE_URL: baseUrl = '', ODDSLAKE_KEY: key = '', ODDSLAKE_TOKEN: token = '' } = process.env;

type Json = 'application/json' | 'application/problem+json';

/** Bodies of requests, which are no longer readable when the response arrives. */
const sent = new WeakMap<Request, string>();

/** @typeParam Media the content types of the responses that the caller requests */
const clientWith = <Media extends `${string}/${string}` = Json>(credential: string) => {
  const client = createClient<paths, Media>({ baseUrl, headers: { authorization: `Bearer ${credential}` } });
  client.use({
    async onRequest({ request }) {
      sent.set(request, await request.clone().text());
    },
    async onResponse({ request, schemaPath, response }) {
      const { status, headers } = response;
      const method = request.method.toLowerCase();
      const isJson = headers.get('content-type')?.includes('json');
      let received = isJson ? await response.clone().json() : undefined;
      // The document itself is too long to print.
      if (schemaPath === '/api/v1/openapi.json')
        received = { openapi: received.openapi, info: { title: received.info.title } };
      const body = sent.get(request) || 'null';
      console.log(JSON.stringify({ method, path: schemaPath, status, sent: JSON.parse(body), received }));
    },
  });
  return client;
};
const market = clientWith(key);
const files = clientWith<`${string}/${string}`>(key);
const user = clientWith(token);

/** The parsed body of a successful response. */
async function data<T>(call: Promise<{ data?: T; error?: components['schemas']['Problem'] }>): Promise<T> {
  const { data: parsed, error } = await call;
  if (parsed === undefined) throw new Error(`${error?.code}: ${error?.detail}`);
  return parsed;
}

const require = (holds: boolean, what: string): void => {
  if (!holds) throw new Error(what);
};
const wait = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 200));

const document = await data(market.GET('/api/v1/openapi.json'));
require(document.openapi === '3.1.0', 'the document is OpenAPI 3.1');
require((await data(market.GET('/healthz'))).status === 'ok', 'healthy');
require((await data(market.GET('/readyz'))).generation > 0, 'ready');
require((await data(files.GET('/metrics', { parseAs: 'text' }))).includes('# TYPE'), 'metrics');
require((await data(files.GET('/', { parseAs: 'text' }))).startsWith('<!doctype html>'), 'catalogue');
await data(
  files.GET('/assets/{stamp}/{name}', { params: { path: { stamp: 'any', name: 'main.js' } }, parseAs: 'text' }),
);
require((await data(market.GET('/api/v1/me'))).kind === 'key', 'a key');

const markets = await data(market.GET('/api/v1/markets', { params: { query: { limit: 5 } } }));
require(markets.markets.every(({ canonical_id }) => canonical_id.length > 0) && markets.count > 0, 'markets');
const books = await data(market.GET('/api/v1/historical/orderbooks'));
const withBooks = new Set(books.orderbooks.map((snapshot) => snapshot.symbol));
const known = await data(market.GET('/api/v1/historical/markets'));
const traded = known.markets.find((found) => withBooks.has(found.symbol ?? '') && found.ticks > 100);
const symbol = traded?.symbol ?? '';
require((traded?.history.length ?? 0) > 0, 'historical markets');
const found = await data(market.GET('/api/v1/symbols', { params: { query: { q: symbol, sort: 'name' } } }));
require(found.symbols[0]?.symbol === symbol, 'symbols');
const ticks = await data(market.GET('/api/v1/ticks', { params: { query: { symbol, limit: 10 } } }));
require(ticks.ticks.every(({ t, p }) => t > 0 && p >= 0) && ticks.count === ticks.ticks.length, 'ticks');
const events = await data(
  market.GET('/api/v1/ticks/stream', {
    params: { query: { symbol: [symbol], duration_seconds: 1 } },
    parseAs: 'text',
  }),
);
require(events.startsWith('retry: '), 'a stream');
const book = await data(market.GET('/api/v1/orderbook', { params: { query: { symbol } } }));
require(book.bids.every(({ price, quantity }) => price + quantity > 0), 'order book');
const past = await data(market.GET('/api/v1/historical/ticks', { params: { query: { symbol: [symbol], limit: 3 } } }));
require(past.ticks.length === 3 && typeof past.next_cursor === 'string', 'a page of ticks');
const candles = await data(
  market.GET('/api/v1/historical/candles', { params: { query: { symbol: [symbol], interval: '1h' } } }),
);
require(candles.candles.every(({ low, high }) => low <= high) && candles.count > 0, 'candles');
const { quotes } = await data(market.GET('/api/v1/historical/quotes'));
require(quotes.length === 2 && quotes.every(({ ask, bid }) => ask !== null && (bid === null || bid < ask)), 'quotes');
const { trades } = await data(market.GET('/api/v1/historical/trades', { params: { query: { limit: 2 } } }));
const [full, bare] = trades;
require(trades.length === 2 && full?.trade_id === '9' && bare?.trade_id === '10', 'trades');
require(full?.block === false && full.aggressor === 'buy' && full.price_text === null, 'a trade with all facts');
require(bare?.block === null && bare.aggressor === null && bare.price_text !== null, 'a trade of unknown facts');
const dropped = await data(market.GET('/api/v1/historical/conflicts'));
require(dropped.conflicts.every((one) => one.kept !== one.dropped), 'conflicts');
const coverage = await data(market.GET('/api/v1/historical/coverage', { params: { query: { symbol: [symbol] } } }));
require(coverage.coverage.every(({ t_from, t_to }) => t_from < t_to), 'coverage');

const manifest = await data(market.GET('/api/v1/export'));
require('datasets' in manifest && (manifest.datasets.ticks?.files.length ?? 0) > 0, 'a manifest');
const changes = await data(market.GET('/api/v1/export', { params: { query: { since: 0 } } }));
const changed = 'files' in changes ? changes.files : [];
const file = changed.find(({ dataset }) => dataset === 'ticks');
const [date = '', part = ''] = file?.url.split('/').slice(-2) ?? [];
const published = await data(
  files.GET('/api/v1/export/files/{dataset}/{date}/{part}', {
    params: { path: { dataset: 'ticks', date, part } },
    parseAs: 'arrayBuffer',
  }),
);
require((published as unknown as ArrayBuffer).byteLength === file?.bytes, 'a published file');
await data(
  files.GET('/api/v1/export/files/symbols/{part}', {
    params: { path: { part: 'part-00.parquet' } },
    parseAs: 'arrayBuffer',
  }),
);

const dip: components['schemas']['Condition'] = {
  all: [
    { measure: 'price', below: { parameter: 'low' } },
    {
      any: [
        { measure: 'moving_average', window_ms: 3_600_000, above: 0 },
        { measure: 'category', not_in: ['x'] },
      ],
    },
  ],
};
const definition: components['schemas']['StrategyDefinition'] = {
  parameters: { low: 0.4 },
  rules: [
    { side: 'yes', entry: dip, exit: { measure: 'price', above: 0.6 }, size: { contracts: 1 } },
    {
      side: 'no',
      entry: { measure: 'price', above: { measure: 'moving_average', window_ms: 3_600_000 } },
      exit: { measure: 'price', below: { measure: 'price' } },
      size: { dollars: 10 },
    },
  ],
  fees: { per_contract: 0.01 },
};
const strategy = await data(user.POST('/api/v1/strategies', { body: { name: 'typescript dips', definition } }));
const strategyPath = { params: { path: { id: strategy.id } } };
const stored = await data(user.GET('/api/v1/strategies/{id}', strategyPath));
require(stored.definition.rules[0]?.side === 'yes', 'a strategy');
require((await data(user.GET('/api/v1/strategies'))).strategies.length > 0, 'strategies');

const bot = await data(
  user.POST('/api/v1/bots', {
    body: { name: 'typescript bot', strategy: { name: 'typescript dips' }, symbols: [symbol], mode: 'paper' },
  }),
);
const botPath = { params: { path: { id: bot.id } } };
require((await data(user.GET('/api/v1/bots/{id}', botPath))).symbols?.[0] === symbol, 'a bot');
require((await data(user.GET('/api/v1/bots'))).bots.length > 0, 'bots');
const paused = await data(user.PATCH('/api/v1/bots/{id}', { ...botPath, body: { status: 'paused' } }));
require(paused.status === 'paused', 'a paused bot');
await user.DELETE('/api/v1/bots/{id}', botPath);
const filter = { categories: [], sources: [traded?.source ?? ''] };
const broad = await data(
  user.POST('/api/v1/bots', { body: { name: 'broad', strategy: { name: 'typescript dips' }, filter } }),
);
await user.DELETE('/api/v1/bots/{id}', { params: { path: { id: broad.id } } });

const request: components['schemas']['BacktestRequest'] = {
  entry_executable: { name: 'typescript dips' },
  objective: 'total_pnl',
  symbols: [symbol],
};
const result = await data(user.POST('/api/v1/research/backtest', { body: request }));
require('summary' in result && result.summary.ticks > 0, 'a result');
const grid = { low: [0.3, 0.4, 0.5] };
const queued = await data(
  user.POST('/api/v1/research/backtest', { body: { ...request, grid, filter: {}, save: true } }),
);
const backtestPath = { params: { path: { id: 'id' in queued ? queued.id : '' } } };
let saved = await data(user.GET('/api/v1/backtest/{id}', backtestPath));
while (saved.state === 'waiting' || saved.state === 'running') {
  await wait();
  saved = await data(user.GET('/api/v1/backtest/{id}', backtestPath));
}
require((saved.result?.summary.ticks ?? 0) > 0, 'a saved backtest');
const allTrades = await data(
  user.GET('/api/v1/backtest/{id}/trades', { params: { ...backtestPath.params, query: { limit: 1 } } }),
);
require('trades' in allTrades && allTrades.total === saved.trades_file?.rows, 'all trades');
require('trades' in allTrades && allTrades.trades[0]?.symbol === symbol, 'a trade');
require((await data(user.GET('/api/v1/backtest'))).backtests.length > 0, 'backtests');
await user.DELETE('/api/v1/backtest/{id}', backtestPath);
await user.DELETE('/api/v1/strategies/{id}', strategyPath);

const { error } = await market.GET('/api/v1/ticks', { params: { query: { symbol: 'no such symbol' } } });
require(error?.code === 'unknown_symbol' && error.errors?.[0]?.name === 'symbol', 'a problem');
