import { createRequire } from 'node:module';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { Ajv2020 as Ajv } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { createProblem } from '../../src/server/http/problem-details.ts';
import { opened } from '../archive/scratch.ts';
import { createResponseCheck } from './documented.ts';
import { serving } from './serving.ts';

const require = createRequire(import.meta.url);
const { Ajv2020 } = require('ajv/dist/2020.js') as { Ajv2020: typeof Ajv };
const addFormats = require('ajv-formats') as (ajv: Ajv) => void;

interface Operation {
  readonly operationId: string;
  readonly summary?: string;
  readonly tags?: readonly string[];
  readonly security: readonly object[];
  readonly parameters?: readonly {
    readonly name: string;
    readonly example?: unknown;
    readonly schema: Readonly<Record<string, unknown>>;
    readonly description?: string;
  }[];
  readonly responses: Readonly<Record<string, object>>;
}

interface Found {
  readonly openapi: string;
  readonly tags: readonly { readonly name: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, { readonly examples?: readonly unknown[] }>> };
}

test('the document is valid OpenAPI 3.1 and public', async () => {
  const { json } = await serving(opened());
  const { status, body } = await json<Found>('/api/v1/openapi.json', { headers: { authorization: '' } });
  expect([status, body.openapi]).toEqual([200, '3.1.0']);
  const result = await new Validator().validate(JSON.parse(JSON.stringify(body)));
  expect(result.errors ?? []).toEqual([]);
  expect(result.valid).toBe(true);
});

test('every operation has a unique ID, a summary, a known tag and its security', async () => {
  const { json } = await serving(opened());
  const { body } = await json<Found>('/api/v1/openapi.json');
  const operations = Object.values(body.paths).flatMap((methods) => Object.values(methods));
  const ids = operations.map(({ operationId }) => operationId);
  expect(
    ids.filter((id) => !/^(get|list|create|update|delete|stream|download|run)([A-Z][a-z]+){1,3}$/.test(id)),
  ).toEqual([]);
  expect(new Set(ids).size).toBe(operations.length);
  const known = body.tags.map(({ name }) => name);
  for (const { operationId, summary, tags = [], security, responses } of operations) {
    expect(summary, operationId).toMatch(/\w/);
    expect(tags.length > 0 && tags.every((tag) => known.includes(tag)), `${operationId}: ${tags}`).toBe(true);
    expect(Array.isArray(security), operationId).toBe(true);
    for (const status of ['400', '404', '431', '500', '503']) expect(responses, operationId).toHaveProperty(status);
    if (security.length > 0) for (const status of ['401', '403', '429']) expect(responses).toHaveProperty(status);
  }
});

test('every object schema is a named component, and every reference has a target', async () => {
  const { json } = await serving(opened());
  const { body } = await json<Found>('/api/v1/openapi.json');
  const inline: string[] = [];
  const references = new Set<string>();
  const visit = (value: unknown, at: readonly string[]): void => {
    if (typeof value !== 'object' || value === null) return;
    const { $ref, type, properties, title } = value as Record<string, unknown>;
    if (typeof $ref === 'string') references.add($ref);
    const isComponent = at.length === 3 && at[0] === 'components' && at[1] === 'schemas';
    const isSchema = type === 'object' && Object.keys(properties ?? {}).length > 0;
    if (isSchema && (!isComponent || title !== undefined)) inline.push(at.join('/'));
    for (const [key, inner] of Object.entries(value)) if (!/^examples?$/.test(key)) visit(inner, [...at, key]);
  };
  visit(body, []);
  expect(inline).toEqual([]);
  const { schemas } = body.components;
  expect(Object.keys(schemas)).toEqual(
    expect.arrayContaining([
      'Backtest',
      'Bot',
      'Candle',
      'Condition',
      'Market',
      'OrderBook',
      'Problem',
      'Quote',
      'Tick',
    ]),
  );
  for (const name of Object.keys(schemas)) expect(references, name).toContain(`#/components/schemas/${name}`);
  for (const reference of references) {
    const [, , kind, name] = reference.split('/');
    expect((body.components as Record<string, object>)[kind!], reference).toHaveProperty(name!);
  }
});

test('every component and every parameter has an example, which matches its schema', async () => {
  const { json } = await serving(opened());
  const { body } = await json<Found>('/api/v1/openapi.json');
  const ajv = new Ajv2020({ strict: false });
  addFormats(ajv);
  ajv.addSchema(body, 'document');
  const check = (pointer: readonly string[], example: unknown): void => {
    const path = pointer.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/');
    const validate = ajv.compile({ $ref: `document#/${path}` });
    expect(validate(example), `${pointer.join(' ')}: ${ajv.errorsText(validate.errors)}`).toBe(true);
  };
  for (const [name, { examples = [] }] of Object.entries(body.components.schemas)) {
    expect(examples.length, name).toBeGreaterThan(0);
    for (const example of examples) check(['components', 'schemas', name], example);
  }
  for (const [path, methods] of Object.entries(body.paths))
    for (const [method, { parameters = [] }] of Object.entries(methods))
      parameters.forEach(({ name, example }, i) => {
        expect(example, `${method} ${path} ${name}`).toBeDefined();
        check(['paths', path, method, 'parameters', String(i), 'schema'], example);
      });
});

test('every integer parameter has bounds, and every limit states the maximum to which it is reduced', async () => {
  const set = ['service.ticks_limit_max=2345', 'service.rows_limit_max=678'];
  const { json } = await serving(opened(), { set });
  const { body } = await json<Found>('/api/v1/openapi.json');
  const limits = new Map<string, string | undefined>();
  for (const [path, { get }] of Object.entries(body.paths))
    for (const { name, schema, description } of get?.parameters ?? []) {
      if (schema.type !== 'integer') continue;
      const bounds = [name, schema.minimum, schema.maximum];
      if (name === 'duration_seconds') expect(bounds).toEqual([name, 1, 86_400]);
      else expect(bounds, path).toEqual([name, name === 'limit' ? 1 : 0, Number.MAX_SAFE_INTEGER]);
      if (name === 'limit')
        limits.set(path, description?.match(/maximum of this service is (\d+)|reduced to (\d+)/)?.[0]);
    }
  expect(Object.fromEntries(limits)).toEqual({
    '/api/v1/markets': 'maximum of this service is 678',
    '/api/v1/ticks': 'maximum of this service is 2345',
    '/api/v1/symbols': 'reduced to 100',
    '/api/v1/historical/markets': 'maximum of this service is 678',
    '/api/v1/historical/ticks': 'maximum of this service is 2345',
    '/api/v1/historical/candles': 'maximum of this service is 678',
    '/api/v1/historical/coverage': 'maximum of this service is 678',
    '/api/v1/historical/orderbooks': 'maximum of this service is 678',
    '/api/v1/historical/quotes': 'maximum of this service is 678',
    '/api/v1/historical/trades': 'maximum of this service is 678',
    '/api/v1/historical/conflicts': 'maximum of this service is 678',
    '/api/v1/strategies': 'reduced to 100',
    '/api/v1/bots': 'reduced to 100',
    '/api/v1/backtest': 'reduced to 100',
    '/api/v1/backtest/{id}/trades': 'maximum of this service is 678',
  });
});

test('view has the values of the interface and of the settings', async () => {
  const { json } = await serving(opened(), { set: ['source.views=["matched","sports"]'] });
  const { body } = await json<Found>('/api/v1/openapi.json');
  const view = body.paths['/api/v1/markets']!.get!.parameters!.find(({ name }) => name === 'view');
  expect(view?.schema).toEqual({ type: 'string', enum: ['matched', 'resolving', 'sports'], default: 'matched' });
});

test('detects responses that do not match the document', async () => {
  const { app } = await serving(opened());
  const check = createResponseCheck(app.swagger());
  const usual = { 'x-request-id': 'a', 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' };
  const headers = (rest: Record<string, string>) =>
    new Headers({ ...usual, 'content-security-policy': "default-src 'none'", ...rest });
  const health = { method: 'GET', path: '/healthz', status: 200 };
  const json = headers({ 'content-type': 'application/json' });
  const problem = headers({ 'content-type': 'application/problem+json' });
  check({ ...health, headers: json, body: '{"status":"ok"}' });
  expect(() => check({ ...health, headers: json, body: '{"status":"fine"}' })).toThrow('invalid by the document');
  expect(() => check({ ...health, headers: json, body: '{}' })).toThrow('invalid by the document');
  expect(() => check({ ...health, status: 201, headers: json })).toThrow('status is not documented');
  expect(() => check({ ...health, headers: headers({ 'content-type': 'text/html' }) })).toThrow('type text/html');
  expect(() => check({ ...health, status: 404, headers: json })).toThrow('an error of type');
  expect(() => check({ ...health, headers: new Headers() })).toThrow('has no header');
  expect(() => check({ ...health, path: '/nowhere', headers: json })).toThrow('no documented route');
  const reported = JSON.stringify(createProblem(404));
  check({ ...health, status: 404, headers: problem, body: reported });
  expect(() => check({ ...health, status: 400, headers: problem, body: reported })).toThrow(
    'the status in the body differs',
  );
  const changed = (change: object) => ({
    ...health,
    status: 404,
    headers: problem,
    body: JSON.stringify({ ...createProblem(404), ...change }),
  });
  expect(() => check(changed({ code: 'stream_expired' }))).toThrow('the code stream_expired is of status 410');
  expect(() => check(changed({ type: 'about:blank' }))).toThrow('type and title differ');
  expect(() => check(changed({ code: 'other' }))).toThrow('invalid by the document');
});
