import { Validator } from '@seriousme/openapi-schema-validator';
import { expect, test } from 'vitest';
import { opened } from '../archive/scratch.ts';
import { createResponseCheck } from './documented.ts';
import { serving } from './serving.ts';

interface Operation {
  readonly operationId: string;
  readonly summary?: string;
  readonly tags?: readonly string[];
  readonly security: readonly object[];
  readonly responses: Readonly<Record<string, object>>;
}

interface Found {
  readonly openapi: string;
  readonly tags: readonly { readonly name: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
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
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length);
  const known = body.tags.map(({ name }) => name);
  for (const { operationId, summary, tags = [], security, responses } of operations) {
    expect(summary, operationId).toMatch(/\w/);
    expect(tags.length > 0 && tags.every((tag) => known.includes(tag)), `${operationId}: ${tags}`).toBe(true);
    expect(Array.isArray(security), operationId).toBe(true);
    for (const status of ['400', '404', '431', '500', '503']) expect(responses, operationId).toHaveProperty(status);
    if (security.length > 0) for (const status of ['401', '403', '429']) expect(responses).toHaveProperty(status);
  }
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
  const told = '{"type":"about:blank","title":"Not found","status":404}';
  check({ ...health, status: 404, headers: problem, body: told });
  expect(() => check({ ...health, status: 400, headers: problem, body: told })).toThrow(
    'the status in the body differs',
  );
});
