import { expect, test } from 'vitest';
import { clockAt } from '../archive/scratch.ts';
import { collected } from '../e2e/books.ts';
import { fixedNow } from '../e2e/lake.ts';
import { claims, crafted, hs256, secret } from '../server/forged-tokens.ts';
import { serving } from '../server/serving.ts';

// Every statement of the upstream interface, with a request to our service that shows it.

/** Maximum number of ticks in a response, small enough to exceed. */
const ticksMax = 10;

/** A service over an archive that was filled from the sandbox. */
async function start() {
  const { archive } = await collected();
  // Time passes, so that backtests have an order.
  let nowMs = fixedNow;
  const clock = { ...clockAt(fixedNow), nowMs: () => nowMs++ };
  const set = [`service.tokens.secret=${secret}`, `service.ticks_limit_max=${ticksMax}`];
  const { ask, key } = await serving(archive, { clock, set });
  const times = { iat: fixedNow / 1000, exp: fixedNow / 1000 + 600 };
  const credentials = {
    KEY: key,
    TOKEN: crafted(hs256, { ...claims, ...times, scope: 'research' }),
    wrong: 'wrong',
    none: '',
  };
  return { ask, credentials };
}

type Json = Record<string, unknown>;
type Credential = keyof Awaited<ReturnType<typeof start>>['credentials'];

interface Row {
  readonly statement: string;
  /** `GET /path` or `POST /path`; `{symbol}` and the other names of a known market are replaced. */
  readonly request: string;
  readonly body?: Json;
  /** Default: `KEY`. */
  readonly as?: Credential;
  readonly status: number;
  /** Fields that the body has at least. */
  readonly fields?: readonly string[];
  /** What else holds, and the check of it. */
  readonly shows?: readonly [string, (body: Json, known: Json) => boolean];
}

const listOf = (body: Json, name: string): Json[] => body[name] as Json[];
const isInteger = Number.isSafeInteger;
const isFraction = (value: unknown): boolean => typeof value === 'number' && value >= 0 && value <= 1;
const problemFields = ['type', 'code', 'title', 'status', 'detail'];
const tickFields = ['symbol', 'ticks', 'count', 'from', 'to', 'generated_at'];
const definition = {
  rules: [{ side: 'yes', entry: { measure: 'price', below: 0.4 }, size: { contracts: 1 } }],
};
const strategy = { name: 'dips', definition };
const backtest = { entry_executable: { name: 'dips' }, objective: 'avg_pnl' };

const rows: readonly Row[] = [
  {
    statement: 'Lists markets: canonical_id, confidence, category, is_active',
    request: 'GET /api/v1/markets',
    status: 200,
    fields: ['markets', 'count', 'total', 'view', 'generated_at'],
    shows: [
      'every market has the four fields with their types',
      (body) =>
        listOf(body, 'markets').length > 0 &&
        listOf(body, 'markets').every(
          (market) =>
            typeof market.canonical_id === 'string' &&
            isFraction(market.confidence) &&
            typeof market.category === 'string' &&
            typeof market.is_active === 'boolean',
        ),
    ],
  },
  ...['matched', 'resolving'].map(
    (view): Row => ({
      statement: `view=${view}`,
      request: `GET /api/v1/markets?view=${view}`,
      status: 200,
      shows: [`view is ${view}`, (body) => body.view === view],
    }),
  ),
  {
    statement: 'Another view is rejected',
    request: 'GET /api/v1/markets?view=other',
    status: 400,
    fields: problemFields,
  },
  {
    statement: 'source filters by venue',
    request: 'GET /api/v1/markets?source={source}',
    status: 200,
    shows: [
      'only markets of this venue',
      (body, known) =>
        Number(body.count) > 0 &&
        listOf(body, 'markets').every(({ canonical_id: id }) => (known.ofSource as unknown[]).includes(id)),
    ],
  },
  {
    statement: 'limit bounds the number of markets; total counts all',
    request: 'GET /api/v1/markets?limit=1',
    status: 200,
    shows: [
      'count is 1, total is larger',
      (body) => body.count === 1 && listOf(body, 'markets').length === 1 && Number(body.total) > 1,
    ],
  },
  {
    statement: 'Recent ticks of a symbol, each with t and p',
    request: 'GET /api/v1/ticks?symbol={symbol}',
    status: 200,
    fields: tickFields,
    shows: [
      'symbol is echoed, t is an integer, p a fraction',
      (body, known) =>
        body.symbol === known.symbol &&
        Number(body.count) > 0 &&
        listOf(body, 'ticks').every(({ t, p }) => isInteger(t) && isFraction(p)),
    ],
  },
  {
    statement: 'from and to bound the window',
    request: 'GET /api/v1/ticks?symbol={symbol}&from={first_tick}&to={last_tick}',
    status: 200,
    shows: [
      'every tick is in the window, half-open',
      (body, known) =>
        Number(body.count) > 0 &&
        listOf(body, 'ticks').every(
          ({ t }) => Number(t) >= Number(known.first_tick) && Number(t) < Number(known.last_tick),
        ),
    ],
  },
  {
    statement: 'limit bounds the number of ticks',
    request: 'GET /api/v1/ticks?symbol={symbol}&limit=3',
    status: 200,
    shows: ['count is 3', (body) => body.count === 3 && listOf(body, 'ticks').length === 3],
  },
  {
    statement: 'limit is capped by the service',
    request: `GET /api/v1/ticks?symbol={symbol}&limit=${ticksMax * 100}`,
    status: 200,
    shows: [`count is service.ticks_limit_max, here ${ticksMax}`, (body) => body.count === ticksMax],
  },
  { statement: 'symbol is required', request: 'GET /api/v1/ticks', status: 400, fields: problemFields },
  { statement: 'An unknown symbol', request: 'GET /api/v1/ticks?symbol=other', status: 404, fields: problemFields },
  {
    statement: 'Current order book of a symbol',
    request: 'GET /api/v1/orderbook?symbol={symbol}',
    status: 200,
    fields: ['symbol', 'bids', 'asks', 'generated_at'],
  },
  {
    statement: 'The realtime routes are read-only',
    request: 'POST /api/v1/markets',
    body: {},
    status: 405,
    fields: problemFields,
  },
  {
    statement: 'Historical markets by source, category, from and limit',
    request: 'GET /api/v1/historical/markets?source={source}&category={category}&from={first_seen}&limit=1',
    status: 200,
    fields: ['markets', 'count', 'generated_at'],
    shows: [
      'one market, of this source and category',
      (body, known) =>
        listOf(body, 'markets').length === 1 &&
        listOf(body, 'markets').every(({ source, category }) => source === known.source && category === known.category),
    ],
  },
  {
    statement: 'Historical markets before to',
    request: 'GET /api/v1/historical/markets?to=1',
    status: 200,
    shows: ['no market was seen before', (body) => body.count === 0 && listOf(body, 'markets').length === 0],
  },
  {
    statement: 'Creates a strategy',
    request: 'POST /api/v1/strategies',
    body: strategy,
    as: 'TOKEN',
    status: 201,
    fields: ['id', 'name', 'definition'],
  },
  {
    statement: 'Lists strategies',
    request: 'GET /api/v1/strategies',
    as: 'TOKEN',
    status: 200,
    shows: ['the new one is listed', (body) => listOf(body, 'strategies').some(({ name }) => name === 'dips')],
  },
  {
    statement: 'Creates a bot',
    request: 'POST /api/v1/bots',
    body: { name: 'dipper', strategy: { name: 'dips' }, symbols: ['{symbol}'] },
    as: 'TOKEN',
    status: 201,
    fields: ['id', 'name', 'strategy'],
  },
  {
    statement: 'Lists bots',
    request: 'GET /api/v1/bots',
    as: 'TOKEN',
    status: 200,
    shows: ['the new one is listed', (body) => listOf(body, 'bots').some(({ name }) => name === 'dipper')],
  },
  {
    statement: 'Runs a strategy against the research data; objective avg_pnl',
    request: 'POST /api/v1/research/backtest',
    body: backtest,
    as: 'TOKEN',
    status: 200,
    fields: ['summary', 'value', 'generated_at'],
    shows: ['ticks were read', ({ summary }) => Number((summary as Json).ticks) > 0],
  },
  ...['first', 'second'].map(
    (name): Row => ({
      statement: `Saves a backtest: the ${name}`,
      request: 'POST /api/v1/research/backtest',
      body: { ...backtest, save: true, symbols: ['{symbol}'] },
      as: 'TOKEN',
      status: 202,
      fields: ['id', 'state'],
    }),
  ),
  {
    statement: 'Lists the backtests of the user, newest first',
    request: 'GET /api/v1/backtest',
    as: 'TOKEN',
    status: 200,
    shows: [
      'both, the second first',
      (body, known) => JSON.stringify(listOf(body, 'backtests').map(({ id }) => id)) === JSON.stringify(known.saved),
    ],
  },
  ...['markets', 'ticks?symbol={symbol}', 'orderbook?symbol={symbol}', 'historical/markets'].flatMap((path): Row[] => [
    {
      statement: 'Market data requires a credential',
      request: `GET /api/v1/${path}`,
      as: 'none',
      status: 401,
      fields: problemFields,
    },
    { statement: 'A wrong one', request: `GET /api/v1/${path}`, as: 'wrong', status: 401, fields: problemFields },
  ]),
  ...['backtest', 'bots', 'strategies'].flatMap((path): Row[] => [
    {
      statement: 'Objects of users require a credential',
      request: `GET /api/v1/${path}`,
      as: 'none',
      status: 401,
      fields: problemFields,
    },
    {
      statement: 'A market data key is not a user token',
      request: `GET /api/v1/${path}`,
      status: 403,
      fields: problemFields,
    },
  ]),
  {
    statement: 'A research backtest requires a user token',
    request: 'POST /api/v1/research/backtest',
    body: backtest,
    status: 403,
    fields: problemFields,
  },
  {
    statement: 'Every path begins with /api/v1',
    request: 'GET /api/v2/markets',
    status: 404,
    fields: problemFields,
  },
];

test('every statement of the interface is shown by a request', async () => {
  const { ask, credentials } = await start();
  const markets = ((await (await ask('/api/v1/historical/markets')).json()) as { markets: Json[] }).markets;
  const { orderbooks } = (await (await ask('/api/v1/historical/orderbooks')).json()) as { orderbooks: Json[] };
  const withBooks = new Set(orderbooks.map(({ symbol }) => symbol));
  const market = markets.find(({ symbol, ticks }) => withBooks.has(symbol) && Number(ticks) > 100)!;
  const ofSource = markets.filter(({ source }) => source === market.source).map(({ canonical_id: id }) => id);
  expect(ofSource.length).toBeLessThan(markets.length);
  /** IDs of saved backtests, newest first. */
  const saved: unknown[] = [];
  const known = { ...market, ofSource, saved } as Json;
  const fill = (text: string, encode: (value: string) => string): string =>
    text.replace(/\{(symbol|source|category|first_tick|last_tick|first_seen)\}/g, (_, name) =>
      encode(String(known[name])),
    );
  for (const row of rows) {
    const { statement, request, body, as = 'KEY', status, fields = [], shows } = row;
    const [method, target] = request.split(' ') as [string, string];
    const response = await ask(fill(target, encodeURIComponent), {
      method,
      headers: {
        authorization: as === 'none' ? '' : `Bearer ${credentials[as]}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: fill(JSON.stringify(body), (text) => text) }),
    });
    const received = (await response.json()) as Json;
    const type = status < 400 ? 'application/json' : 'application/problem+json';
    const label = `${statement}: ${request}: ${JSON.stringify(received).slice(0, 300)}`;
    expect([response.status, response.headers.get('content-type')?.split(';')[0]], label).toEqual([status, type]);
    for (const field of fields) expect(received, label).toHaveProperty(field);
    if (status < 400 && 'generated_at' in received) expect(isInteger(received.generated_at), label).toBe(true);
    if (status >= 400) expect(received.status, label).toBe(status);
    if (status === 202) saved.unshift(received.id);
    if (shows !== undefined) expect(shows[1](received, known), `${label}: ${shows[0]}`).toBe(true);
  }
});
