import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { builtinStrategies } from '../../src/backtest/strategy/builtin-strategies.ts';
import { createStrategyStore } from '../../src/server/workspace/strategies.ts';
import { now } from '../archive/scratch.ts';
import {
  asking,
  backtestPath,
  brief,
  createTradedArchive,
  type Listed,
  runDirectly,
  saved,
  slow,
  threshold,
} from './backtesting.ts';

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
    const owner = as('alice', 'desk');
    const { id } = (await owner.post(slow)).body;
    await owner.becomes({ id }, 'running');
    for (const other of [
      as('alice'),
      as('alice', 'other'),
      as('bob', 'desk'),
      as('desk', 'alice'),
      as('ALICE', 'desk'),
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
