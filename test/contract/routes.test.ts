import { expect, test } from 'vitest';
import { opened } from '../archive/scratch.ts';
import { serving } from '../server/serving.ts';
import { routes } from './promises.ts';

test('the OpenAPI document describes exactly the promised routes', async () => {
  const { json } = await serving(opened());
  const { body } = await json<{ paths: Record<string, Record<string, unknown>> }>('/api/v1/openapi.json');
  const described = Object.entries(body.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(described.sort()).toEqual([...routes].sort());
});
