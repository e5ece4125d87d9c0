import { expect, test } from 'vitest';
import { claims, crafted, hs256 } from './forged-tokens.ts';
import {
  bodyOf,
  emptied,
  filled,
  headersOf,
  research,
  run,
  start,
  strangers,
  toComparableResponse,
} from './strangers.ts';
import { alice, as, tokenOf } from './users.ts';
import { overEachDatabase } from './workspace/databases.ts';

overEachDatabase((kind) => {
  test('an object of another user behaves as if it did not exist, and stays unchanged', async () => {
    const { service, objects, routes, state } = await start(kind);
    const before = await state();
    const named = routes.filter(({ path }) => path.includes('{'));
    expect(named.length).toBeGreaterThanOrEqual(10);
    for (const [who, token] of Object.entries(strangers)) {
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
        strangers['another user of the same workspace']!,
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
    ['a token of another secret', `Bearer ${crafted(hs256, { ...claims, workspace: 'desk' }, 'x'.repeat(40))}`, 401],
    ['a token without exp', `Bearer ${crafted(hs256, { ...endless, workspace: 'desk' })}`, 401],
    ['an expired token', `Bearer ${crafted(hs256, { ...claims, workspace: 'desk', exp: claims.iat - 1 })}`, 401],
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
  const plain = tokenOf('alice', 'desk', 'other');
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
    for (const [who, token] of Object.entries(strangers)) {
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
  for (const [who, token] of Object.entries(strangers)) {
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
