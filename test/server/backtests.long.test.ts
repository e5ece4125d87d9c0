import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { builtinStrategies } from '../../src/backtest/strategy/builtin-strategies.ts';
import { createStrategyStore } from '../../src/server/workspace/strategy-store.ts';
import { clockAt, now, opened, scratchFolder } from '../archive/scratch.ts';
import {
  asking,
  backtestPath,
  brief,
  createTradedArchive,
  type Kept,
  type Listed,
  long,
  runDirectly,
  saved,
  slow,
  threshold,
} from './backtesting.ts';
import { holdJobs, restlessAt } from './serving.ts';
import { freshDatabase, overEachDatabase } from './workspace/databases.ts';

describe('a saved backtest', () => {
  test('is created, followed, and has the result of the engine', async () => {
    const archive = await createTradedArchive();
    const { alice, ask } = await asking(archive);
    const { status, headers, body } = await alice.post(saved);
    expect([status, headers.get('location')]).toEqual([202, `${backtestPath}/${body.id}`]);
    const request = {
      ...threshold,
      entry_executable: { name: 'threshold', version: null, strategy: null },
      held_out: 0.3,
      fees: null,
      whole_contracts: null,
      symbols: null,
      filter: { categories: [], sources: [] },
      from: null,
      to: null,
      grid: {},
    };
    const waiting = {
      id: body.id,
      state: 'waiting',
      request,
      strategy_version: null,
      value: null,
      error: null,
      result: null,
      progress: { batches_done: 0, batches_total: null },
      created_at: now,
      started_at: null,
      finished_at: null,
      trades_file: null,
    };
    expect(body).toEqual(waiting);
    const done = await alice.becomes(body, 'done', 'failed');
    const result = await runDirectly(archive, threshold);
    const { result: _, ...ended } = {
      ...waiting,
      state: 'done',
      value: result.value,
      started_at: now,
      finished_at: now,
    };
    const progress = { batches_done: 2, batches_total: 2 };
    const { trades_file } = done;
    expect(trades_file).toMatchObject({ url: `${backtestPath}/${body.id}/trades?format=parquet` });
    expect(trades_file!.rows).toBe(result.trades.count);
    expect(done).toEqual({ ...ended, progress, trades_file, result });
    const { body: list } = await alice.json<Listed>(backtestPath);
    expect(list).toEqual({
      backtests: [{ ...ended, progress, trades_file }],
      count: 1,
      next_cursor: null,
      generated_at: now,
    });

    expect(await alice.drop(body.id)).toBe(204);
    expect(await alice.drop(body.id)).toBe(404);
    expect((await alice.json<Listed>(backtestPath)).body.backtests).toEqual([]);
    expect((await ask(backtestPath, { method: 'HEAD', headers: { authorization: alice.authorization } })).status).toBe(
      200,
    );
  });

  test('can be removed while it waits or runs, and is then not run', async () => {
    const { alice } = await asking(await createTradedArchive(50_000));
    const [running, waiting, last] = [
      (await alice.post(slow)).body,
      (await alice.post(saved)).body,
      (await alice.post(brief)).body,
    ];
    await alice.becomes(running, 'running');
    for (const { id } of [waiting, running]) expect([await alice.drop(id), await alice.drop(id)]).toEqual([204, 404]);
    expect((await alice.becomes(last, 'done', 'failed')).state).toBe('done');
    expect((await alice.json<Listed>(backtestPath)).body.backtests.map(({ id }) => id)).toEqual([last.id]);
  });

  test('fails with a reason that contains no paths', async () => {
    const archive = await createTradedArchive();
    const { alice } = await asking(archive);
    const { body: late } = await alice.post({ ...saved, from: now });
    expect(await alice.becomes(late, 'done', 'failed')).toMatchObject({
      state: 'failed',
      finished_at: now,
      value: null,
      result: null,
      error: expect.stringMatching(/^The request is invalid: from leaves no tick/),
    });
    writeFileSync(join(archive.layout.root, archive.readManifest().datasets.ticks.files[0]!.path), 'not what it was');
    const { body: damaged } = await alice.post(saved);
    expect((await alice.becomes(damaged, 'done', 'failed')).error).toBe(
      'Files that the backtest needs are damaged. Try again after the archive is repaired.',
    );
  });
});

describe('saved backtests', () => {
  test('are visible only to their user in their workspace; for others they do not exist', async () => {
    const { as, ask, key } = await asking(await createTradedArchive(50_000));
    const owner = as('alice', 'trading');
    const { id } = (await owner.post(slow)).body;
    await owner.becomes({ id }, 'running');
    for (const other of [
      as('alice'),
      as('alice', 'other'),
      as('bob', 'trading'),
      as('trading', 'alice'),
      as('ALICE', 'trading'),
    ]) {
      expect((await other.json<Listed>(backtestPath)).body).toMatchObject({
        backtests: [],
        count: 0,
        next_cursor: null,
      });
      for (const method of ['GET', 'DELETE']) {
        const [there, nowhere] = [
          await other.json(`${backtestPath}/${id}`, { method }),
          await other.json(`${backtestPath}/${'0'.repeat(id.length)}`, { method }),
        ];
        expect([method, there.status, there.body]).toEqual([method, 404, nowhere.body]);
      }
    }
    expect((await ask(`${backtestPath}/${id}`, { headers: { authorization: `Bearer ${key}` } })).status).toBe(403);
    expect((await ask(`${backtestPath}/${id}`, { headers: { authorization: '' } })).status).toBe(401);
    expect((await owner.json(`${backtestPath}/${id}`)).body.state).toBe('running');
    for (const odd of ['x%27', '..%2f..%2fplace', 'A', 'a'.repeat(41)])
      expect([odd, [400, 404].includes((await owner.json(`${backtestPath}/${odd}`)).status)]).toEqual([odd, true]);
  });

  test('are returned for their idempotency key even if the strategy was removed', async () => {
    const { alice, workspace } = await asking(await createTradedArchive());
    const owner = { owner: 'alice', workspace: '' };
    const mine = { id: 's', idempotency_key: null, body_sha256: '', created_at: now, name: 'mine' };
    const definition = JSON.stringify(builtinStrategies[0]!.strategy);
    await createStrategyStore(workspace.db).add(owner, { ...mine, definition }, 10);
    const body = { ...saved, entry_executable: { name: 'mine' }, parameters: {} };
    const headers = { 'idempotency-key': 'once' };
    const first = await alice.post(body, headers);
    expect(await createStrategyStore(workspace.db).remove(owner, 's')).toEqual({ usedBy: 0 });
    expect((await alice.post(body)).status).toBe(400);
    const again = await alice.post(body, headers);
    expect([again.status, again.body.id]).toEqual([202, first.body.id]);
    expect((await alice.post({ ...body, objective: 'sharpe' }, headers)).status).toBe(422);
  });
});

test('a saved backtest restarts after the service was stopped, and others follow', async () => {
  const archive = await createTradedArchive(50_000);
  // Repeat until a run is long enough to be stopped in the middle on any machine.
  for (let points = 6; ; points *= 4) {
    const database = { kind: 'sqlite', path: `${scratchFolder()}/service.sqlite` } as const;
    const first = await asking(archive, { database });
    const { body } = await first.alice.post({ ...long(points), save: true });
    const other = (await first.bob.post(saved)).body;
    await first.alice.becomes(body, 'running', 'done');
    await first.stop();

    const letGo = holdJobs(archive);
    const { alice, bob, stop } = await asking(archive, { database });
    const wasOver = (await alice.json<Kept>(`${backtestPath}/${body.id}`)).body.state === 'done';
    letGo();
    if (wasOver) {
      await stop();
      continue;
    }
    const done = await alice.becomes(body, 'done', 'failed');
    expect(done.result).toEqual(await runDirectly(archive, long(points)));
    expect((await bob.becomes(other, 'done', 'failed')).state).toBe('done');
    return;
  }
});

test('limits the waiting and the saved backtests of a user', async () => {
  const { alice, bob, as } = await asking(await createTradedArchive(50_000), {
    limits: { backtestsWaitingMax: 2, savedBacktestsMax: 1 },
  });
  const ids = [(await alice.post(slow)).body.id, (await alice.post(brief)).body.id];
  const refused = await alice.post(brief);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '60']);
  expect((await as('alice', 'trading').post(brief)).status).toBe(429);
  const { body: his } = await bob.post(brief);
  expect(await alice.drop(ids[0]!)).toBe(204);
  await alice.becomes({ id: ids[1]! }, 'done', 'failed');
  for (let i = 0; i < 2; i++) {
    ids.push((await alice.post(brief)).body.id);
    await alice.becomes({ id: ids.at(-1)! }, 'done', 'failed');
  }
  // When a job is added, only the newest finished one is kept.
  expect((await alice.json<Listed>(backtestPath)).body.backtests.map(({ id }) => id)).toEqual([ids[3], ids[2]]);
  expect((await bob.becomes(his, 'done', 'failed')).state).toBe('done');
});

test('users take turns: many backtests of one user do not delay that of another', async () => {
  let ms = now;
  const clock = { ...clockAt(now), nowMs: () => ms++ };
  const { alice, bob } = await asking(await createTradedArchive(50_000), { clock });
  const { body: first } = await alice.post(slow);
  await alice.becomes(first, 'running');
  const jobs: [typeof alice, Kept][] = [];
  for (const who of [alice, alice, bob]) jobs.push([who, (await who.post(brief)).body]);
  await alice.drop(first.id);
  const begun: (number | null)[] = [];
  for (const [who, job] of jobs) begun.push((await who.becomes(job, 'done', 'failed')).started_at);
  const [one, two, his] = begun;
  expect(begun.toSorted((a, b) => a! - b!)).toEqual([his, one, two]);
});

test('lists saved backtests newest first; pages stay consistent while backtests come and go', async () => {
  const archive = await createTradedArchive();
  holdJobs(archive);
  const { alice } = await asking(archive);
  const ids: string[] = [];
  for (const body of [slow, saved, saved, saved, saved]) ids.unshift((await alice.post(body)).body.id);
  const page = async (query: string) => (await alice.json<Listed>(`${backtestPath}${query}`)).body;
  const first = await page('?limit=2');
  expect([first.backtests.map(({ id }) => id), first.count]).toEqual([ids.slice(0, 2), 2]);
  await alice.drop(ids[1]!);
  const newest = (await alice.post(saved)).body.id;
  const second = await page(`?limit=2&cursor=${first.next_cursor}`);
  const third = await page(`?limit=2&cursor=${second.next_cursor}`);
  expect([...second.backtests, ...third.backtests].map(({ id }) => id)).toEqual(ids.slice(2));
  expect(third.next_cursor).toBeNull();
  expect((await page('?limit=1000')).backtests.map(({ id }) => id)).toEqual([newest, ids[0], ...ids.slice(2)]);
  for (const bad of ['?limit=0', '?limit=x', '?cursor=x', `?cursor=${'x'.repeat(300)}`, '?page=2'])
    expect([bad, (await alice.json(`${backtestPath}${bad}`)).status]).toEqual([bad, 400]);
});

test('an idempotency key creates one saved backtest per owner', async () => {
  const archive = await createTradedArchive();
  holdJobs(archive);
  const { alice, bob, as } = await asking(archive);
  const headers = { 'idempotency-key': 'once' };
  const first = await alice.post(slow, headers);
  const second = await alice.post(slow, headers);
  expect([second.status, second.body.id]).toEqual([202, first.body.id]);
  expect((await alice.post(saved, headers)).status).toBe(422);
  expect((await alice.post(saved, { 'idempotency-key': 'x'.repeat(256) })).status).toBe(400);
  for (const other of [bob, as('alice', 'trading')]) {
    const { status, body } = await other.post(saved, headers);
    expect([status, body.id === first.body.id]).toEqual([202, false]);
  }
  // The same body with its members in another order.
  const turned = Object.fromEntries(Object.entries(slow).toReversed());
  expect(JSON.stringify(turned)).not.toBe(JSON.stringify(slow));
  expect((await alice.post(turned, headers)).body.id).toBe(first.body.id);
  // An immediate run saves nothing.
  expect((await alice.post(threshold, headers)).status).toBe(200);
  expect((await alice.json<Listed>(backtestPath)).body.count).toBe(1);
});

overEachDatabase((kind) => {
  test('two services over one archive and database run each backtest once', async () => {
    const archive = await createTradedArchive();
    const database = await freshDatabase(kind);
    const first = await asking(archive, { database, clock: restlessAt(now) });
    const second = await asking(opened({ root: archive.layout.root }), { database, clock: restlessAt(now) });
    const jobs: Kept[] = [];
    for (const { alice } of [first, second, first, second]) jobs.push((await alice.post(saved)).body);
    const values = new Set<unknown>();
    for (const [i, job] of jobs.entries())
      values.add((await [second, first][i % 2]!.alice.becomes(job, 'done', 'failed')).result?.value);
    expect([...values]).toEqual([(await runDirectly(archive, threshold)).value]);
  });
});
