import { expect } from 'vitest';
import { waitFor } from '../harness/limits.ts';
import { archived } from './archived.ts';
import { type Serving, serving } from './serving.ts';
import { alice, as, buyAndHold, type Reported, tokenOf, withTokens } from './users.ts';
import { freshDatabase, type Kind } from './workspace/databases.ts';

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

export const bodyOf = ({ requestBody }: Route): unknown => requestBody?.content['application/json']?.example;

/** Other users, other workspaces, and similar names. */
export const strangers: Readonly<Record<string, string>> = {
  'another user of the same workspace': tokenOf('bob', 'desk'),
  'the same user in another workspace': tokenOf('alice', 'home'),
  'the same user in no workspace': tokenOf('alice'),
  'a user called as the workspace': tokenOf('desk', 'alice'),
  'a user called nearly the same': tokenOf('Alice', 'desk'),
};

export const research = '/api/v1/research/backtest';
export const run = { entry_executable: { name: 'secret dip' }, objective: 'total_pnl', save: true };

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
export const toComparableResponse = ({ status, headers, body }: Reported): unknown => {
  const own = new Set(['x-request-id', 'date', 'ratelimit', 'content-length']);
  return { status, body, headers: [...headers].filter(([name]) => !own.has(name)) };
};

const nowhere = 'nosuchobject';

export async function start(kind: Kind = 'sqlite') {
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
export const filled = (path: string, objects: Readonly<Record<string, string>>): string => {
  if (!path.includes('{')) return path;
  const collection = path.slice(0, path.indexOf('/{'));
  const id = objects[collection];
  // New kinds of objects must be added above.
  if (id === undefined) throw new Error(`there is no object of alice for ${path}`);
  return path.replace('{id}', id);
};
export const emptied = (path: string): string => path.replaceAll(/\{[^}]+\}/g, nowhere);

export const headersOf = ({ method }: Route): Record<string, string> =>
  method === 'POST' ? { 'idempotency-key': 'once' } : {};
