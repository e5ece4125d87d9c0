import { describe, expect, test } from 'vitest';
import { now, opened } from '../archive/scratch.ts';
import { serving, sharedServing } from './serving.ts';
import { alice, as, buyAndHold, errorsOf, tokenOf, withTokens } from './users.ts';
import { steppedClock } from './workspace/stepped-clock.ts';

const path = '/api/v1/strategies';

interface Strategy {
  readonly id: string;
  readonly name: string;
  readonly version: number;
}
interface Listed {
  readonly strategies: Strategy[];
  readonly count: number;
  readonly next_cursor: string | null;
}

const start = (rest: Parameters<typeof serving>[1] = {}) => serving(opened(), { set: withTokens, ...rest });

/** Shared service for requests that are rejected. */
const shared = sharedServing({ set: withTokens });

describe('a strategy', () => {
  test('is created, found at its URL, listed and removed', async () => {
    const service = await start();
    const made = await as(service, alice, 'POST', path, { name: 'hold', definition: buyAndHold });
    const { id } = made.body as { id: string };
    expect([made.status, made.headers.get('location')]).toEqual([201, `${path}/${id}`]);
    expect(made.body).toEqual({
      id,
      name: 'hold',
      version: 1,
      created_at: now,
      definition: {
        parameters: {},
        fees: { per_contract: 0, of_notional: 0, of_variance: 0 },
        slippage: 0,
        whole_contracts: null,
        rules: [{ side: 'yes', entry: { all: [] }, exit: null, size: { contracts: 1 }, entries_max: null }],
      },
    });
    expect((await as(service, alice, 'GET', `${path}/${id}`)).body).toEqual(made.body);
    expect((await as(service, alice, 'GET', path)).body).toEqual({
      strategies: [made.body],
      count: 1,
      next_cursor: null,
      generated_at: now,
    });
    expect(await as(service, alice, 'DELETE', `${path}/${id}`)).toMatchObject({ status: 204, body: undefined });
    const gone = await as(service, alice, 'GET', `${path}/${id}`);
    expect([gone.status, gone.body.detail]).toEqual([404, 'This user has no such strategy.']);
    expect((await as(service, alice, 'DELETE', `${path}/${id}`)).body).toEqual(gone.body);
  });

  test('with an existing name becomes a new version; the list can be filtered by name', async () => {
    const service = await start();
    for (const name of ['hold', 'other', 'hold', 'hold'])
      await as(service, alice, 'POST', path, { name, definition: buyAndHold });
    const versions = async (query: string) =>
      (await as<Listed>(service, alice, 'GET', path + query)).body.strategies.map(({ name, version }) => [
        name,
        version,
      ]);
    const all = [
      ['hold', 3],
      ['hold', 2],
      ['other', 1],
      ['hold', 1],
    ];
    expect(await versions('')).toEqual(all);
    expect(await versions('?name=hold')).toEqual(all.filter(([name]) => name === 'hold'));
    expect(await versions('?name=none')).toEqual([]);
  });

  test('a repeated idempotency key returns the same object; another body is rejected', async () => {
    const service = await start();
    const body = { name: 'hold', definition: { ...buyAndHold, parameters: { a: 1, b: 2 } } };
    const post = (sent: unknown, key = 'once', token = alice) =>
      as(service, token, 'POST', path, sent, { 'idempotency-key': key });
    const first = await post(body);
    const { parameters, ...rest } = body.definition;
    for (const again of [await post(body), await post({ definition: { parameters, ...rest }, name: 'hold' })])
      expect([again.status, again.body, again.headers.get('location')]).toEqual([
        201,
        first.body,
        first.headers.get('location'),
      ]);
    expect((await post({ ...body, name: 'other' })).status).toBe(422);
    expect((await post({ ...body, definition: buyAndHold })).status).toBe(422);
    expect((await post(body, 'twice')).body).toMatchObject({ version: 2 });
    const elses = (await post({ ...body, name: 'else' }, 'once', tokenOf('alice', 'home'))).body;
    expect([elses.name, elses.version]).toEqual(['else', 1]);
  });

  test('is created once by concurrent requests with one idempotency key', async () => {
    const service = await start();
    const made = await Promise.all(
      Array.from({ length: 8 }, () =>
        as(service, alice, 'POST', path, { name: 'a', definition: buyAndHold }, { 'idempotency-key': 'once' }),
      ),
    );
    expect(new Set(made.map(({ body }) => body.id)).size).toBe(1);
    expect((await as<Listed>(service, alice, 'GET', path)).body.count).toBe(1);
  });

  test('is rejected above the limit until one is removed', async () => {
    const service = await start({ limits: { strategiesMax: 2 } });
    const post = (token = alice) => as(service, token, 'POST', path, { name: 'a', definition: buyAndHold });
    const made = [await post(), await post()];
    const refused = await post();
    expect([refused.status, refused.body.detail]).toEqual([409, expect.stringContaining('has 2 strategies')]);
    expect((await post(tokenOf('bob', 'trading'))).status).toBe(201);
    await as(service, alice, 'DELETE', `${path}/${made[0]!.body.id}`);
    expect((await post()).body).toMatchObject({ version: 3 });
  });
});

describe('a list of strategies', () => {
  test('has pages that stay consistent while strategies are added and removed', async () => {
    const service = await start({ clock: steppedClock(now) });
    const post = async (name: string) =>
      (await as<Strategy>(service, alice, 'POST', path, { name, definition: buyAndHold })).body;
    const made: Strategy[] = [];
    for (let n = 0; n < 10; n++) made.push(await post(`s${n}`));
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const query: string = cursor === null ? '?limit=3' : `?limit=3&cursor=${cursor}`;
      const [{ body }] = await Promise.all([
        as<Listed>(service, alice, 'GET', path + query),
        ...[1, 2].map((n) => post(`new${n}`)),
      ]);
      seen.push(...body.strategies.map(({ name }) => name).filter((name) => name.startsWith('s')));
      if (cursor === null) await as(service, alice, 'DELETE', `${path}/${body.strategies.at(-1)!.id}`);
      cursor = body.next_cursor;
    } while (cursor !== null);
    expect(seen).toEqual(made.map(({ name }) => name).reverse());
  });

  test.each([
    ['limit=0', 'limit'],
    ['cursor=', 'cursor'],
    ['cursor=x', 'cursor'],
    [`cursor=${Buffer.from('["o","bots",3]').toString('base64url')}`, 'cursor'],
    [`cursor=${Buffer.from('["o","strategies",1.5]').toString('base64url')}`, 'cursor'],
    [`cursor=${Buffer.from('["o","strategies","1"]').toString('base64url')}`, 'cursor'],
    [`cursor=${Buffer.from('["p","strategies",1]').toString('base64url')}`, 'cursor'],
    ['name=', 'name'],
    ['owner=bob', 'owner'],
  ])('rejects a request with %s', async (query, field) => {
    const reported = await as(shared(), alice, 'GET', `${path}?${query}`);
    expect([reported.status, errorsOf(reported).map(([name]) => name)]).toEqual([400, [field]]);
  });
});

describe('a strategy is rejected with the invalid field', () => {
  const rule = buyAndHold.rules[0]!;
  const entry = (condition: unknown) => ({ name: 'a', definition: { rules: [{ ...rule, entry: condition }] } });
  const at = 'definition.rules[0].entry';
  const price = { measure: 'price', above: 0.5 };
  test.each<[string, unknown, string[]]>([
    ['nothing', {}, ['name', 'definition']],
    ['a list', [], ['body']],
    ['an empty name', { name: '', definition: buyAndHold }, ['name']],
    ['a name that is a number', { name: 1, definition: buyAndHold }, ['name']],
    ['a name that ends with a blank', { name: 'a ', definition: buyAndHold }, ['name']],
    ['a name of two lines', { name: 'a\nb', definition: buyAndHold }, ['name']],
    ['a name with a direction override', { name: 'a\u202eb', definition: buyAndHold }, ['name']],
    ['a long name', { name: 'a'.repeat(201), definition: buyAndHold }, ['name']],
    ['a stray field', { name: 'a', definition: buyAndHold, owner: 'bob' }, ['owner']],
    ['code', { name: 'a', definition: '() => true' }, ['definition']],
    ['null', { name: 'a', definition: null }, ['definition']],
    ['no rules', { name: 'a', definition: { rules: [] } }, ['definition.rules']],
    [
      'an empty rule',
      { name: 'a', definition: { rules: [{}] } },
      ['side', 'entry', 'size'].map((n) => `definition.rules[0].${n}`),
    ],
    ['an unknown measure', entry({ measure: 'tomorrow', above: 0 }), [`${at}.measure`]],
    ['a condition without a bound', entry({ measure: 'price' }), [at]],
    ['a bound that is a text', entry({ measure: 'price', above: '0.5' }), [`${at}.above`]],
    ['an unknown parameter', entry({ measure: 'price', above: { parameter: 'x' } }), [`${at}.above.parameter`]],
    ['a measure of a position in an entry', entry({ measure: 'gain', above: 0 }), [`${at}.measure`]],
    ['a missing window', entry({ measure: 'return', above: 0 }), [`${at}.window_ms`]],
    ['a window that is too long', entry({ measure: 'return', window_ms: 1e12, above: 0 }), [`${at}.window_ms`]],
    [
      'two invalid fields',
      entry({ all: [price, { any: [{ ...price, below: null }] }, 7] }),
      [`${at}.all[1].any[0].below`, `${at}.all[2]`],
    ],
    [
      'conditions nested too deep',
      entry(Array.from({ length: 8 }).reduce<unknown>((inner) => ({ all: [inner] }), price)),
      [`${at}${'.all[0]'.repeat(7)}`],
    ],
    ['too many conditions', entry({ all: Array(100).fill(price) }), ['definition.rules']],
    [
      'fees above 100 percent',
      { name: 'a', definition: { ...buyAndHold, fees: { of_notional: 1.5 } } },
      ['definition.fees.of_notional'],
    ],
  ])('%s', async (_, body, fields) => {
    const reported = await as(shared(), alice, 'POST', path, body);
    expect([reported.status, errorsOf(reported).map(([name]) => name)]).toEqual([400, fields]);
    for (const [, reason] of errorsOf(reported)) expect(reason).toMatch(/\w/);
  });

  test('a body that is not JSON or too large is rejected', async () => {
    const service = await start();
    const post = async (body: string | undefined, type = 'application/json') => {
      const answer = await service.ask(path, {
        method: 'POST',
        headers: { authorization: `Bearer ${alice}`, 'content-type': type },
        ...(body === undefined ? {} : { body }),
      });
      await answer.arrayBuffer();
      return answer.status;
    };
    expect(await post('{')).toBe(400);
    expect(await post('')).toBe(400);
    expect(await post('name: a', 'application/yaml')).toBe(415);
    expect(await post(JSON.stringify({ name: 'a', definition: buyAndHold, more: 'x'.repeat(70_000) }))).toBe(413);
    expect(await post(`{"name":"a","definition":${'['.repeat(3000)}${']'.repeat(3000)}}`)).toBe(400);
    expect(await post('{"name":"a","definition":{"__proto__":{"rules":[]}}}')).toBe(400);
    const named = { name: 'a\u0000b', definition: buyAndHold };
    expect(errorsOf(await as(service, alice, 'POST', path, named)).map(([name]) => name)).toEqual(['name']);
  });
});
