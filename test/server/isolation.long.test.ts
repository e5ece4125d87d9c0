import { expect, test } from 'vitest';
import { bodyOf, headersOf, research, run, start, strangers, toComparableResponse } from './strangers.ts';
import { as, tokenOf } from './users.ts';
import { overEachDatabase } from './workspace/databases.ts';

overEachDatabase((kind) => {
  test('lists and equal idempotency keys never reveal objects of other users', async () => {
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

test('a strategy name never resolves to a strategy of another user', async () => {
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
      expect(toComparableResponse(told), `${who}: ${path}`).toEqual(
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
