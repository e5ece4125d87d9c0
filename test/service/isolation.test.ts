import { expect, test } from 'vitest';
import { until } from '../harness/limits.ts';
import { freshDatabase, type Kind, overEachDatabase } from '../workspace/databases.ts';
import { archived } from './exporting.ts';
import { claims, crafted, hs256 } from './forged-tokens.ts';
import { type Serving, serving } from './serving.ts';
import { alice, as, buyAndHold, type Told, tokenOf, withTokens } from './users.ts';

// Every route of users, by the document of the service itself, tried by everybody whose objects it is not about.

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

/** Routes for users alone. */
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

/** Other users, other workspaces, and what looks as if it were one of these. */
const strangers: Readonly<Record<string, string>> = {
  'another user of the same workspace': tokenOf('bob', 'desk'),
  'the same user in another workspace': tokenOf('alice', 'home'),
  'the same user in no workspace': tokenOf('alice'),
  'a user called as the workspace': tokenOf('desk', 'alice'),
  'a user called nearly the same': tokenOf('Alice', 'desk'),
};

const research = '/api/v1/research/backtest';
const run = { entry_executable: { name: 'secret dip' }, objective: 'total_pnl', save: true };

/** Something of alice's of each kind, by the collection that it is in. */
async function objectsOf(service: Serving): Promise<Record<string, string>> {
  const made = async (path: string, body: unknown) => {
    const told = await as<{ id: string }>(service, alice, 'POST', path, body, { 'idempotency-key': 'once' });
    expect(told.status, path).toBeLessThan(300);
    return told.body.id;
  };
  const strategy = await made('/api/v1/strategies', { name: 'secret dip', definition: buyAndHold });
  const bot = { name: 'secret bot', strategy: { name: 'secret dip' }, symbols: ['KX A'] };
  const backtest = await made(research, run);
  // Until it is done it changes by itself.
  await until(
    async () => (await as(service, alice, 'GET', `/api/v1/backtest/${backtest}`)).body.state === 'done',
    'a backtest that is done',
  );
  return {
    '/api/v1/strategies': strategy,
    '/api/v1/bots': await made('/api/v1/bots', bot),
    '/api/v1/backtest': backtest,
  };
}

/** All that an answer says, but for what is of the request and not of what was asked for. */
const said = ({ status, headers, body }: Told): unknown => {
  const own = new Set(['x-request-id', 'date', 'ratelimit', 'content-length']);
  return { status, body, headers: [...headers].filter(([name]) => !own.has(name)) };
};

const nowhere = 'nosuchobject';

async function start(kind: Kind = 'sqlite') {
  const service = await serving(await archived(), { set: withTokens, database: await freshDatabase(kind) });
  const objects = await objectsOf(service);
  const routes = await routesOf(service);
  // What there is of alice's, as she sees it.
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

/** A path with the names of objects in it. */
const filled = (path: string, objects: Readonly<Record<string, string>>): string => {
  if (!path.includes('{')) return path;
  const collection = path.slice(0, path.indexOf('/{'));
  const id = objects[collection];
  // A route of new objects has to be tried, too: say above how one is made.
  if (id === undefined) throw new Error(`no object of alice's is made for ${path}`);
  return path.replace('{id}', id);
};
const emptied = (path: string): string => path.replaceAll(/\{[^}]+\}/g, nowhere);

const headersOf = ({ method }: Route): Record<string, string> =>
  method === 'POST' ? { 'idempotency-key': 'once' } : {};

overEachDatabase((kind) => {
  test("another's object answers on every route and verb as one that never was, and stays as it is", async () => {
    const { service, objects, routes, state } = await start(kind);
    const before = await state();
    const named = routes.filter(({ path }) => path.includes('{'));
    expect(named.length).toBeGreaterThanOrEqual(10);
    for (const [who, token] of Object.entries(strangers)) {
      for (const route of named) {
        const ask = (path: string) => as(service, token, route.method, path, bodyOf(route), headersOf(route));
        const told = await ask(filled(route.path, objects));
        expect(told.status, `${who}: ${route.method} ${route.path}`).toBe(404);
        expect(said(told), `${who}: ${route.method} ${route.path}`).toEqual(said(await ask(emptied(route.path))));
      }
    }
    expect(await state()).toEqual(before);
    // Alice herself is told the same of what is not there, so that the answer tells nobody whether it was his to ask.
    for (const route of named) {
      const own = await as(service, alice, route.method, emptied(route.path), bodyOf(route), headersOf(route));
      const theirs = await as(
        service,
        strangers['another user of the same workspace']!,
        route.method,
        filled(route.path, objects),
        bodyOf(route),
        headersOf(route),
      );
      expect(said(own)).toEqual(said(theirs));
    }
  });

  test("nothing of another's is in a list, or comes back for an idempotency key that is the same", async () => {
    const { service, objects, routes, state } = await start(kind);
    const before = await state();
    const ids = Object.values(objects);
    for (const [who, token] of Object.entries(strangers)) {
      for (const route of routes.filter(({ path }) => !path.includes('{'))) {
        const told = await as(service, token, route.method, route.path, bodyOf(route), headersOf(route));
        const text = JSON.stringify(told.body ?? null) + (told.headers.get('location') ?? '');
        expect(told.status, `${who}: ${route.method} ${route.path}`).not.toBe(422);
        for (const mark of [...ids, 'secret'])
          expect(text, `${who}: ${route.method} ${route.path}`).not.toContain(mark);
      }
    }
    expect(await state()).toEqual(before);
  });
});

test("a strategy that is named is one's own, or none", async () => {
  const { service } = await start();
  for (const [who, token] of Object.entries(strangers)) {
    for (const [path, body] of [
      [research, run],
      [research, { ...run, entry_executable: { name: 'secret dip', version: 1 }, save: false }],
      ['/api/v1/bots', { name: 'a', strategy: { name: 'secret dip' }, filter: {} }],
      ['/api/v1/bots', { name: 'a', strategy: { name: 'secret dip', version: 1 }, filter: {} }],
    ] as const) {
      const told = await as(service, token, 'POST', path, body);
      const unknown = JSON.parse(JSON.stringify(body).replace('secret dip', 'no such name')) as unknown;
      expect(told.status, `${who}: ${path}`).toBe(400);
      expect(said(told), `${who}: ${path}`).toEqual(said(await as(service, token, 'POST', path, unknown)));
    }
  }
});

test('without a token, with a key or with a bad token every route is refused before anything is looked up', async () => {
  const { service, objects, routes, state } = await start();
  const before = await state();
  const { exp: _exp, ...endless } = claims;
  const credentials: [what: string, authorization: string, status: number][] = [
    ['no credential', '', 401],
    ['a market data key', `Bearer ${service.key}`, 403],
    ['a token of another secret', `Bearer ${crafted(hs256, { ...claims, workspace: 'desk' }, 'x'.repeat(40))}`, 401],
    ['a token without an end', `Bearer ${crafted(hs256, { ...endless, workspace: 'desk' })}`, 401],
    ['a token that is over', `Bearer ${crafted(hs256, { ...claims, workspace: 'desk', exp: claims.iat - 1 })}`, 401],
    ['a token as Basic', `Basic ${alice}`, 401],
  ];
  for (const [n, [what, authorization, status]] of credentials.entries()) {
    // Of one address, so many bad ones would be told something else.
    const from = { authorization, 'x-forwarded-for': `192.0.2.${n}` };
    for (const route of routes) {
      const ask = (path: string) =>
        as(service, '', route.method, path, bodyOf(route), { ...headersOf(route), ...from });
      const told = await ask(filled(route.path, objects));
      expect(told.status, `${what}: ${route.method} ${route.path}`).toBe(status);
      expect(said(told)).toEqual(said(await ask(emptied(route.path))));
    }
  }
  // Research asks for its scope, of the owner too.
  const plain = tokenOf('alice', 'desk', 'other');
  for (const route of routes.filter(({ security }) => security.some(({ token }) => token!.includes('research')))) {
    const told = await as(service, plain, route.method, filled(route.path, objects), bodyOf(route), headersOf(route));
    expect(told.status, `${route.method} ${route.path}`).toBe(403);
  }
  expect(await state()).toEqual(before);
});

test('every body of a route of users has an example in the document, which its user may send', async () => {
  const { service, routes } = await start();
  const bodies = routes.filter(({ requestBody }) => requestBody !== undefined);
  expect(bodies.length).toBeGreaterThanOrEqual(3);
  for (const route of bodies) expect(bodyOf(route), `${route.method} ${route.path}`).toBeDefined();
  // A bot needs the strategy that its example names.
  for (const path of ['/api/v1/strategies', '/api/v1/bots']) {
    const route = bodies.find((one) => one.path === path)!;
    expect((await as(service, tokenOf('carol'), 'POST', path, bodyOf(route))).status).toBe(201);
  }
});
