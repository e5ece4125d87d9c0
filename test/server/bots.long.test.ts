import { beforeAll, describe, expect, test } from 'vitest';
import { now } from '../archive/scratch.ts';
import { archived } from './archived.ts';
import { type Serving, type ServingOptions, serving, sharedServing } from './serving.ts';
import { alice, as, buyAndHold, errorsOf, type Reported, tokenOf, withTokens } from './users.ts';
import { steppedClock } from './workspace/stepped-clock.ts';

const path = '/api/v1/bots';

interface Bot {
  readonly id: string;
  readonly name: string;
  readonly strategy: { readonly id: string; readonly version: number };
}
interface Listed {
  readonly bots: Bot[];
  readonly next_cursor: string | null;
}

/** A service in which alice has two versions of a strategy. */
async function start(rest: ServingOptions = {}) {
  const service = await serving(await archived(), { set: withTokens, ...rest });
  const versions = [await strategy(service), await strategy(service)];
  return { service, versions };
}
const strategy = async (service: Serving, token = alice, name = 'hold'): Promise<Bot> =>
  (await as<Bot>(service, token, 'POST', '/api/v1/strategies', { name, definition: buyAndHold })).body;

const requested = { name: 'one', strategy: { name: 'hold' }, symbols: ['KX B', 'KX A', 'KX B'], mode: 'paper' };
const { symbols: _, ...unbound } = requested;
const post = (
  service: Serving,
  body: unknown,
  headers: Record<string, string> = {},
  token = alice,
): Promise<Reported> => as(service, token, 'POST', path, body, headers);

/** Shared service for requests that are rejected. */
const shared = sharedServing({ set: withTokens }, archived.copyTo);
beforeAll(async () => {
  for (const _ of [1, 2]) await strategy(shared());
});

describe('a bot', () => {
  test('is created, found at its URL, listed, paused, resumed and removed', async () => {
    const clock = steppedClock(now);
    const { service, versions } = await start({ clock });
    const made = await post(service, requested);
    const id = String(made.body.id);
    const at = `${path}/${id}`;
    expect([made.status, made.headers.get('location')]).toEqual([201, at]);
    expect(made.body).toEqual({
      id,
      name: 'one',
      symbols: ['KX B', 'KX A'],
      filter: null,
      mode: 'paper',
      status: 'active',
      strategy: { id: versions[1]!.id, name: 'hold', version: 2 },
      created_at: now,
      updated_at: now,
    });
    expect((await as(service, alice, 'GET', at)).body).toEqual(made.body);
    expect((await as<Listed>(service, alice, 'GET', path)).body).toMatchObject({ bots: [made.body], count: 1 });
    clock.forward(1000);
    const paused = { ...made.body, status: 'paused', updated_at: now + 1000 };
    const patch = async (status: string) => (await as(service, alice, 'PATCH', at, { status })).body;
    expect(await patch('paused')).toEqual(paused);
    clock.forward(1000);
    expect(await patch('paused')).toEqual(paused);
    expect(await patch('active')).toEqual({ ...paused, status: 'active', updated_at: now + 2000 });
    // Some clients send a Content-Type without a body.
    const type = { 'content-type': 'application/json' };
    expect(await as(service, alice, 'DELETE', at, undefined, type)).toMatchObject({ status: 204, body: undefined });
    const gone = await as(service, alice, 'GET', at);
    expect([gone.status, gone.body.detail]).toEqual([404, 'This user has no such bot.']);
    expect((await as(service, alice, 'DELETE', at)).body).toEqual(gone.body);
    expect((await as(service, alice, 'PATCH', at, { status: 'paused' })).body).toEqual(gone.body);
  });

  test('stays bound to its version, which cannot be removed before the bot', async () => {
    const { service, versions } = await start();
    const first = await post(service, { ...requested, strategy: { name: 'hold', version: 1 } });
    const latest = await post(service, requested);
    await strategy(service);
    for (const [{ body }, version] of [
      [first, 1],
      [latest, 2],
    ] as const)
      expect((await as(service, alice, 'GET', `${path}/${body.id}`)).body).toMatchObject({ strategy: { version } });
    const remove = (at: string) => as(service, alice, 'DELETE', at);
    const at = `/api/v1/strategies/${versions[1]!.id}`;
    const refused = await remove(at);
    expect([refused.status, refused.body.detail]).toEqual([409, 'A bot uses this version. Remove the bots first.']);
    await remove(`${path}/${latest.body.id}`);
    expect((await remove(at)).status).toBe(204);
  });

  test('accepts a filter instead of symbols, and defaults to paper', async () => {
    const { service } = await start();
    const { mode: _mode, ...plain } = unbound;
    const filter = { categories: ['politics', 'politics'] };
    expect((await post(service, { ...plain, filter })).body).toMatchObject({
      symbols: null,
      filter: { categories: ['politics'], sources: [] },
      mode: 'paper',
    });
    expect((await post(service, { ...plain, filter: {} })).body).toMatchObject({
      filter: { categories: [], sources: [] },
    });
  });

  test('a repeated idempotency key returns the same object; another body is rejected', async () => {
    const { service } = await start();
    const once = { 'idempotency-key': 'once' };
    const first = await post(service, requested, once);
    // There is a newer version by now; the bot stays as created.
    await strategy(service);
    const again = await post(service, requested, once);
    expect([again.status, again.body]).toEqual([201, first.body]);
    const latest = { ...requested, strategy: { name: 'hold', version: 3 } };
    expect((await post(service, latest, once)).status).toBe(422);
    expect((await post(service, { ...requested, symbols: ['KX A'] }, once)).status).toBe(422);
    // The key is checked before the strategy and symbols.
    expect((await post(service, { ...requested, strategy: { name: 'none' } }, once)).status).toBe(422);
    expect((await as<Listed>(service, alice, 'GET', path)).body.bots).toHaveLength(1);
  });

  test('is rejected above the limit until one is removed', async () => {
    const { service } = await start({ limits: { botsMax: 1 } });
    const made = await post(service, requested);
    const refused = await post(service, requested);
    expect([refused.status, refused.body.detail]).toEqual([409, expect.stringContaining('has 1 bots')]);
    await as(service, alice, 'DELETE', `${path}/${made.body.id}`);
    expect((await post(service, requested)).status).toBe(201);
  });

  test.each<[string, unknown, string[]]>([
    ['nothing', {}, ['name', 'strategy']],
    ['another mode', { ...requested, mode: 'live' }, ['mode']],
    ['a mode of null', { ...requested, mode: null }, ['mode', 'mode']],
    ['a stray field', { ...requested, status: 'active' }, ['status']],
    ['a name of two lines', { ...requested, name: 'a\nb' }, ['name']],
    ['an unknown strategy', { ...requested, strategy: { name: 'none' } }, ['strategy.name']],
    ['an unknown version', { ...requested, strategy: { name: 'hold', version: 3 } }, ['strategy.version']],
    ['no version', { ...requested, strategy: { name: 'hold', version: 0 } }, ['strategy.version']],
    ['neither symbols nor filter', unbound, ['symbols']],
    ['both symbols and filter', { ...requested, filter: {} }, ['filter']],
    ['no symbols', { ...requested, symbols: [] }, ['symbols']],
    ['unknown symbols', { ...requested, symbols: ['KX A', 'X', 'Y', 'X'] }, ['symbols[1]', 'symbols[2]']],
    [
      'several invalid fields',
      { ...requested, strategy: { name: 'none' }, symbols: ['X'] },
      ['strategy.name', 'symbols[0]'],
    ],
    ['an unknown filter', { ...unbound, filter: { symbols: [] } }, ['filter.symbols']],
  ])('with %s is rejected, naming the field', async (_, body, fields) => {
    const service = shared();
    const reported = await post(service, body);
    expect([reported.status, errorsOf(reported).map(([name]) => name)]).toEqual([400, fields]);
  });

  test.each([[{}], [{ status: 'running' }], [{ status: null }], [{ status: 'paused', name: 'a' }], [[]]])(
    'rejects the change %j',
    async (body) => {
      const service = shared();
      const made = await post(service, requested);
      const at = `${path}/${made.body.id}`;
      expect((await as(service, alice, 'PATCH', at, body)).status).toBe(400);
      expect((await as(service, alice, 'GET', at)).body).toEqual(made.body);
    },
  );
});

test('lists bots newest first; pages stay consistent while bots are added', async () => {
  const { service } = await start();
  for (let n = 0; n < 7; n++) await post(service, { ...requested, name: `b${n}` });
  await strategy(service, tokenOf('bob', 'trading'));
  await post(service, { ...requested, name: "bob's" }, {}, tokenOf('bob', 'trading'));
  const seen: string[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? '?limit=2' : `?limit=2&cursor=${cursor}`;
    const [{ body }] = await Promise.all([
      as<Listed>(service, alice, 'GET', path + query),
      post(service, { ...requested, name: 'new' }),
    ]);
    seen.push(...body.bots.map(({ name }) => name).filter((name) => name !== 'new'));
    cursor = body.next_cursor;
  } while (cursor !== null);
  expect(seen).toEqual(['b6', 'b5', 'b4', 'b3', 'b2', 'b1', 'b0']);
});

test('a strategy of another user is reported as not existing', async () => {
  const { service } = await start();
  for (const token of [tokenOf('bob', 'trading'), tokenOf('alice', 'home'), tokenOf('alice')]) {
    const reported = await post(service, requested, {}, token);
    const nowhere = await post(service, { ...requested, strategy: { name: 'none' } }, {}, token);
    expect([reported.status, reported.body]).toEqual([400, nowhere.body]);
    const version = await post(service, { ...requested, strategy: { name: 'hold', version: 2 } }, {}, token);
    expect([version.status, version.body]).toEqual([400, nowhere.body]);
  }
});
