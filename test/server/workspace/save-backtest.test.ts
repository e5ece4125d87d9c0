import { expect, onTestFinished, test } from 'vitest';
import { BacktestStore } from '../../../src/server/workspace/backtest-store.ts';
import { openWorkspaceDatabase } from '../../../src/server/workspace/workspace-database.ts';
import { freshDatabase, overEachDatabase } from './databases.ts';

const alice = { owner: 'alice', workspace: '' };
const run = (id: string, rest = {}) => ({
  ...alice,
  id,
  idempotency_key: null,
  body_sha256: null,
  created_at: 1000,
  request: '{}',
  strategy: '{}',
  strategy_version: null,
  finished_at: 2000,
  value: 1,
  result: '{}',
  ...rest,
});

overEachDatabase((kind) => {
  test('keeps the newest finished backtests of an owner, including those of the command line', async () => {
    const db = await openWorkspaceDatabase(await freshDatabase(kind));
    onTestFinished(() => db.destroy());
    const jobs = new BacktestStore(db, 'here');
    const waiting = { ...alice, id: 'waits', idempotency_key: null, body_sha256: null, created_at: 1 };
    await jobs.add({ ...waiting, request: '{}', strategy: '{}', strategy_version: null }, 9, 9);
    await new BacktestStore(db, 'there').addFinished(run('elsewhere'), 2);
    await jobs.addFinished(run('of bob', { owner: 'bob' }), 2);
    await jobs.addFinished(run('at a trading', { workspace: 'trading' }), 2);
    for (const id of ['a', 'b', 'c', 'd']) await jobs.addFinished(run(id), 2);
    const ids = async (place: string) =>
      (await new BacktestStore(db, place).list(null, { limit: 100, before: null })).rows.map(({ id }) => id);
    expect(await ids('here')).toEqual(['d', 'c', 'at a trading', 'of bob', 'waits']);
    expect(await ids('there')).toEqual(['elsewhere']);
  });
});
