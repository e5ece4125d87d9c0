import { expect, test } from 'vitest';
import { waitFor } from '../harness/limits.ts';
import { archived } from './archived.ts';
import { claims, crafted, hs256 } from './forged-tokens.ts';
import { type Serving, serving } from './serving.ts';
import { alice, as, buyAndHold, type Reported, tokenOf, withTokens } from './users.ts';
import { freshDatabase, type Kind, overEachDatabase } from './workspace/databases.ts';

// Every users route in the OpenAPI document, requested by other users and workspaces.

interface Operation {
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly example?: unknown }>> };
}
interface Route extends Operation {
  readonly method: string;
  readonly path: string;
}

type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;

/** Routes that accept user tokens only. */
async function routesOf({ json }: Serving): Promise<Route[]> {
  const { body } = await json<{ paths: Paths }>('/api/v1/openapi.json');
  const routes = Object.entries(body.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ ...operation, method: method.toUpperCase(), path })),
  );
  const users = routes.filter(({ security }) => security.length > 0 && security.every((one) => 'token' in one));
  const heads = users.filter(({ method }) => method === 'GET').map((route) => ({ ...route, method: 'HEAD' }));
  return [...users, ...heads];
}

const bodyOf = ({ requestBody }: Route): unknown => requestBody?.content['application/json']?.example;

/** Other users, other workspaces, and similar names. */
const otherUsers: Readonly<Record<string, string>> = {
  'another user of the same workspace': tokenOf('bob', 'trading'),
  'the same user in another workspace': tokenOf('alice', 'home'),
  'the same user in no workspace': tokenOf('alice'),
  'a user called as the workspace': tokenOf('trading', 'alice'),
  'a user called nearly the same': tokenOf('Alice', 'trading'),
};

const research = '/api/v1/research/backtest';
const run = { entry_executable: { name: 'secret dip' }, objective: 'total_pnl', save: true };

/** An object of alice in each collection, by the path of the collection. */
async function objectsOf(service: Serving): Promise<Record<string, string>> {
  const made = async (path: string, body: unknown) => {
    const reported = await as<{ id: string }>(service, alice, 'POST', path, body, { 'idempotency-key': 'once' });
    expect(reported.status, path).toBeLessThan(300);
    return reported.body.id;
  };
  const strategy = await made('/api/v1/strategies', { name: 'secret dip', definition: buyAndHold });
  const bot = { name: 'secret bot', strategy: { name: 'secret dip' }, symbols: ['KX A'] };
  const backtest = await made(research, run);
  // An unfinished job still changes.
  await waitFor(
    async () => (await as(service, alice, 'GET', `/api/v1/backtest/${backtest}`)).body.state === 'done',
    'a backtest that is done',
  );
  return {
    '/api/v1/strategies': strategy,
    '/api/v1/bots': await made('/api/v1/bots', bot),
    '/api/v1/backtest': backtest,
  };
}

/** A response without the parts that differ per request. */
const toComparableResponse = ({ status, headers, body }: Reported): unknown => {
  const own = new Set(['x-request-id', 'date', 'ratelimit', 'content-length']);
  return { status, body, headers: [...headers].filter(([name]) => !own.has(name)) };
};

const nowhere = 'nosuchobject';

async function start(kind: Kind = 'sqlite') {
  const service = await serving(await archived(), { set: withTokens, database: await freshDatabase(kind) });
  const objects = await objectsOf(service);
  const routes = await routesOf(service);
  // The objects of alice as she sees them.
  const state = () =>
    Promise.all(
      routes
        .filter(({ method }) => method === 'GET')
        .map(async ({ path }) => {
          const { status, body } = await as(service, alice, 'GET', filled(path, objects));
          return { path, status, body };
        }),
    );
  return { service, objects, routes, state };
}

/** A path with IDs of objects filled in. */
const filled = (path: string, objects: Readonly<Record<string, string>>): string => {
  if (!path.includes('{')) return path;
  const collection = path.slice(0, path.indexOf('/{'));
  const id = objects[collection];
  // New kinds of objects must be added above.
  if (id === undefined) throw new Error(`there is no object of alice for ${path}`);
  return path.replace('{id}', id);
};
const emptied = (path: string): string => path.replaceAll(/\{[^}]+\}/g, nowhere);

const headersOf = ({ method }: Route): Record<string, string> =>
  method === 'POST' ? { 'idempotency-key': 'once' } : {};

overEachDatabase((kind) => {
  test('an object of another user behaves as if it did not exist, and stays unchanged', async () => {
    const { service, objects, routes, state } = await start(kind);
    const before = await state();
    const named = routes.filter(({ path }) => path.includes('{'));
    expect(named.length).toBeGreaterThanOrEqual(10);
    for (const [who, token] of Object.entries(otherUsers)) {
      for (const route of named) {
        const ask = (path: string) => as(service, token, route.method, path, bodyOf(route), headersOf(route));
        const reported = await ask(filled(route.path, objects));
        expect(reported.status, `${who}: ${route.method} ${route.path}`).toBe(404);
        expect(toComparableResponse(reported), `${who}: ${route.method} ${route.path}`).toEqual(
          toComparableResponse(await ask(emptied(route.path))),
        );
      }
    }
    expect(await state()).toEqual(before);
    // The owner gets the same response for a missing object, so that it reveals nothing.
    for (const route of named) {
      const own = await as(service, alice, route.method, emptied(route.path), bodyOf(route), headersOf(route));
      const theirs = await as(
        service,
        otherUsers['another user of the same workspace']!,
        route.method,
        filled(route.path, objects),
        bodyOf(route),
        headersOf(route),
      );
      expect(toComparableResponse(own)).toEqual(toComparableResponse(theirs));
    }
  });
});

test('every route rejects a missing or invalid token before any lookup', async () => {
  const { service, objects, routes, state } = await start();
  const before = await state();
  const { exp: _exp, ...endless } = claims;
  const credentials: [what: string, authorization: string, status: number][] = [
    ['no credential', '', 401],
    ['a market data key', `Bearer ${service.key}`, 403],
    ['a token of another secret', `Bearer ${crafted(hs256, { ...claims, workspace: 'trading' }, 'x'.repeat(40))}`, 401],
    ['a token without exp', `Bearer ${crafted(hs256, { ...endless, workspace: 'trading' })}`, 401],
    ['an expired token', `Bearer ${crafted(hs256, { ...claims, workspace: 'trading', exp: claims.iat - 1 })}`, 401],
    ['a token as Basic', `Basic ${alice}`, 401],
  ];
  for (const [n, [what, authorization, status]] of credentials.entries()) {
    // Too many invalid ones from one address would give another error.
    const from = { authorization, 'x-forwarded-for': `192.0.2.${n}` };
    for (const route of routes) {
      const ask = (path: string) =>
        as(service, '', route.method, path, bodyOf(route), { ...headersOf(route), ...from });
      const reported = await ask(filled(route.path, objects));
      expect(reported.status, `${what}: ${route.method} ${route.path}`).toBe(status);
      expect(toComparableResponse(reported)).toEqual(toComparableResponse(await ask(emptied(route.path))));
    }
  }
  // Research requires its scope, also of the owner.
  const plain = tokenOf('alice', 'trading', 'other');
  for (const route of routes.filter(({ security }) => security.some(({ token }) => token!.includes('research')))) {
    const reported = await as(
      service,
      plain,
      route.method,
      filled(route.path, objects),
      bodyOf(route),
      headersOf(route),
    );
    expect(reported.status, `${route.method} ${route.path}`).toBe(403);
  }
  expect(await state()).toEqual(before);
});

overEachDatabase((kind) => {
  test('lists and equal idempotency keys never reveal objects of other users', async () => {
    const { service, objects, routes, state } = await start(kind);
    const before = await state();
    const ids = Object.values(objects);
    for (const [who, token] of Object.entries(otherUsers)) {
      for (const route of routes.filter(({ path }) => !path.includes('{'))) {
        const reported = await as(service, token, route.method, route.path, bodyOf(route), headersOf(route));
        const text = JSON.stringify(reported.body ?? null) + (reported.headers.get('location') ?? '');
        expect(reported.status, `${who}: ${route.method} ${route.path}`).not.toBe(422);
        for (const mark of [...ids, 'secret'])
          expect(text, `${who}: ${route.method} ${route.path}`).not.toContain(mark);
      }
    }
    expect(await state()).toEqual(before);
  });
});

test('a strategy name never resolves to a strategy of another user', async () => {
  const { service } = await start();
  for (const [who, token] of Object.entries(otherUsers)) {
    for (const [path, body] of [
      [research, run],
      [research, { ...run, entry_executable: { name: 'secret dip', version: 1 }, save: false }],
      ['/api/v1/bots', { name: 'a', strategy: { name: 'secret dip' }, filter: {} }],
      ['/api/v1/bots', { name: 'a', strategy: { name: 'secret dip', version: 1 }, filter: {} }],
    ] as const) {
      const reported = await as(service, token, 'POST', path, body);
      const unknown = JSON.parse(JSON.stringify(body).replace('secret dip', 'no such name')) as unknown;
      expect(reported.status, `${who}: ${path}`).toBe(400);
      expect(toComparableResponse(reported), `${who}: ${path}`).toEqual(
        toComparableResponse(await as(service, token, 'POST', path, unknown)),
      );
    }
  }
});

test('the document has a valid example for every body of a users route', async () => {
  const { service, routes } = await start();
  const bodies = routes.filter(({ requestBody }) => requestBody !== undefined);
  expect(bodies.length).toBeGreaterThanOrEqual(3);
  for (const route of bodies) expect(bodyOf(route), `${route.method} ${route.path}`).toBeDefined();
  // The example bot requires the strategy that it names.
  for (const path of ['/api/v1/strategies', '/api/v1/bots']) {
    const route = bodies.find((one) => one.path === path)!;
    expect((await as(service, tokenOf('carol'), 'POST', path, bodyOf(route))).status).toBe(201);
  }
});
