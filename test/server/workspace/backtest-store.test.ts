import { expect, onTestFinished, test } from 'vitest';
import { BacktestStore, type NewBacktest } from '../../../src/server/workspace/backtest-store.ts';
import { openWorkspaceDatabase } from '../../../src/server/workspace/workspace-database.ts';
import { freshDatabase, type Kind, overEachDatabase } from './databases.ts';

async function opened(kind: Kind) {
  const db = await openWorkspaceDatabase(await freshDatabase(kind));
  onTestFinished(() => db.destroy());
  return { jobs: new BacktestStore(db, 'here'), elsewhere: new BacktestStore(db, 'there') };
}

const alice = { owner: 'alice', workspace: 'trading' };

const backtest = (id: string, rest: Partial<NewBacktest> = {}): NewBacktest => ({
  ...alice,
  id,
  idempotency_key: null,
  body_sha256: null,
  created_at: 1000,
  request: '{"a":1}',
  strategy: '{}',
  strategy_version: null,
  ...rest,
});
/** Adds jobs in order: PostgreSQL does not order concurrent ones. */
async function add(jobs: BacktestStore, ...given: NewBacktest[]) {
  for (const one of given) await jobs.add(one, 100, 100);
}
const page = (limit: number, before: number | null = null) => ({ limit, before });

overEachDatabase((kind) => {
  test('backtests are visible to their user in their workspace, and to the operator', async () => {
    const { jobs, elsewhere } = await opened(kind);
    await add(jobs, backtest('a'), backtest('b', { workspace: '' }), backtest('c', { owner: 'bob' }));
    expect(await jobs.get(alice, 'a')).toMatchObject({ id: 'a', ...alice, state: 'waiting', request: '{"a":1}' });
    for (const other of [
      { ...alice, workspace: '' },
      { ...alice, owner: 'bob' },
      { owner: 'trading', workspace: 'alice' },
    ])
      expect(await jobs.get(other, 'a')).toBeNull();
    expect(await jobs.get(null, 'c')).toMatchObject({ owner: 'bob' });
    expect((await jobs.list(alice, page(10))).rows.map(({ id }) => id)).toEqual(['a']);
    expect((await jobs.list(null, page(10))).rows.map(({ id }) => id)).toEqual(['c', 'b', 'a']);
    expect([await elsewhere.get(null, 'a'), await elsewhere.list(null, page(10))]).toEqual([
      null,
      { rows: [], next: null },
    ]);
  });

  test('lists continue after the last item, and omit results', async () => {
    const { jobs } = await opened(kind);
    await add(jobs, ...['a', 'b', 'c', 'd', 'e'].map((id) => backtest(id)));
    const first = await jobs.list(alice, page(2));
    await jobs.remove('d');
    await add(jobs, backtest('f'));
    const second = await jobs.list(alice, page(2, first.next));
    const third = await jobs.list(alice, page(2, second.next));
    expect([first, second, third].map(({ rows }) => rows.map(({ id }) => id))).toEqual([['e', 'd'], ['c', 'b'], ['a']]);
    expect(third.next).toBeNull();
    expect(Object.keys(first.rows[0]!)).not.toContain('result');
    expect(Object.keys(first.rows[0]!)).not.toContain('strategy');
  });

  test('concurrent backtests of one owner get distinct ordinals', async () => {
    const { jobs } = await opened(kind);
    const ids = Array.from({ length: 8 }, (_, i) => `a${i}`);
    await Promise.all(ids.map((id) => jobs.add(backtest(id), 100, 100)));
    const { rows } = await jobs.list(alice, page(100));
    expect(new Set(rows.map(({ ordinal }) => ordinal)).size).toBe(8);
  });

  test('users take turns across workspaces', async () => {
    const { jobs } = await opened(kind);
    for (const [id, workspace] of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1'].map((id, i) => [id, `w${i % 2}`] as const))
      await add(jobs, backtest(id, { owner: id[0]!, workspace }));
    const order: string[] = [];
    for (let next = await jobs.take(1, 5); next !== null; next = await jobs.take(1, 5)) order.push(next.id);
    expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  });

  test('each job is taken by one runner, which stores progress and result', async () => {
    const { jobs } = await opened(kind);
    await add(jobs, backtest('a', { strategy_version: 3 }));
    const taken = await Promise.all([jobs.take(1, 1500), jobs.take(2, 1500)]);
    const [one] = taken.filter((row) => row !== null);
    expect(taken).toContain(null);
    expect(one).toMatchObject({ id: 'a', state: 'running', started_at: 1500, strategy_version: 3 });
    const [me, other] = [one!.runner!, 3 - one!.runner!];
    expect([await jobs.progress('a', me, 1, 4), await jobs.progress('a', other, 2, 4)]).toEqual([true, false]);
    expect(await jobs.get(alice, 'a')).toMatchObject({ batches_done: 1, batches_total: 4 });
    const done = { batches_done: 4, batches_total: 4, value: -0.125, result: '{"value":-0.125}' };
    expect([await jobs.finish('a', other, done, 2000), await jobs.finish('a', me, done, 2000)]).toEqual([false, true]);
    expect(await jobs.get(alice, 'a')).toMatchObject({
      state: 'done',
      runner: null,
      started_at: 1500,
      finished_at: 2000,
      batches_done: 4,
      batches_total: 4,
      value: -0.125,
      result: '{"value":-0.125}',
      error: null,
    });
  });

  test('jobs of a dead runner return to the queue', async () => {
    const { jobs, elsewhere } = await opened(kind);
    await add(jobs, backtest('a'), backtest('b'));
    await jobs.take(1, 1500);
    await jobs.take(2, 1500);
    await jobs.progress('a', 1, 1, 4);
    await elsewhere.releaseAll(1550);
    expect(await jobs.get(alice, 'a')).toMatchObject({ state: 'running' });
    await jobs.release('b', 1);
    expect(await jobs.get(alice, 'b')).toMatchObject({ state: 'running' });
    await jobs.releaseAll(1550);
    expect(await jobs.progress('a', 1, 2, 4)).toBe(false);
    expect(await jobs.finish('a', 1, { error: 'x' }, 2000)).toBe(false);
    expect(await jobs.get(alice, 'a')).toMatchObject({
      state: 'waiting',
      runner: null,
      started_at: null,
      batches_done: 0,
      batches_total: null,
      error: null,
    });
    expect((await jobs.take(3, 1600))?.id).toBe('a');
  });

  test('a job that repeatedly crashes its runner fails; one that was returned is started again', async () => {
    const { jobs } = await opened(kind);
    await add(jobs, backtest('a'));
    for (let i = 0; i < 5; i++) {
      expect((await jobs.take(1, 1500))?.id).toBe('a');
      await jobs.release('a', 1);
    }
    for (let i = 0; i < 3; i++) {
      expect((await jobs.take(1, 1500))?.id).toBe('a');
      await jobs.releaseAll(1600 + i);
    }
    expect(await jobs.take(1, 1700)).toBeNull();
    expect(await jobs.get(alice, 'a')).toMatchObject({
      state: 'failed',
      runner: null,
      finished_at: 1602,
      result: null,
      error: expect.stringMatching(
        /^The job was started 3 times, and each time the service ended first\. Reduce the request/,
      ),
    });
  });

  test('trades count for their user in all workspaces, and are listed while a backtest runs or has a file', async () => {
    const { jobs, elsewhere } = await opened(kind);
    await add(jobs, backtest('a'), backtest('b', { workspace: '' }), backtest('c', { owner: 'bob' }), backtest('d'));
    await add(elsewhere, backtest('e'));
    expect([await jobs.sumTradesBytes('alice'), await jobs.listWithTrades()]).toEqual([0, []]);
    const files = [
      ['a', 5_000_000_000],
      ['b', 20],
      ['c', 7],
    ] as const;
    for (let taken = await jobs.take(1, 1500); taken !== null; taken = await jobs.take(1, 1500)) {
      const [, bytes] = files.find(([id]) => id === taken.id) ?? [];
      if (bytes === undefined) continue;
      const trades = { trades_rows: 3, trades_bytes: bytes, trades_sha256: 'x' };
      expect(await jobs.finish(taken.id, 1, { result: '{}', ...trades }, 2000)).toBe(true);
    }
    expect([await jobs.sumTradesBytes('alice'), await jobs.sumTradesBytes('bob')]).toEqual([5_000_000_020, 7]);
    expect(await elsewhere.sumTradesBytes('alice')).toBe(0);
    expect((await jobs.listWithTrades()).sort()).toEqual(['a', 'b', 'c', 'd']);
    expect(await jobs.getListed(alice, 'a')).toMatchObject({ trades_rows: 3, trades_bytes: 5_000_000_000 });
    expect(Object.keys((await jobs.getListed(alice, 'a'))!)).not.toContain('result');
    expect([await jobs.getListed(alice, 'c'), await elsewhere.getListed(alice, 'a')]).toEqual([null, null]);
    // One without its trades has none in the list.
    await jobs.finish('d', 1, { error: 'x' }, 2000);
    await jobs.remove('a');
    expect((await jobs.listWithTrades()).sort()).toEqual(['b', 'c']);
    expect(await jobs.sumTradesBytes('alice')).toBe(20);
  });

  test('a removed backtest cannot be finished', async () => {
    const { jobs } = await opened(kind);
    await add(jobs, backtest('a'));
    await jobs.take(1, 1500);
    await jobs.remove('a');
    expect(await jobs.progress('a', 1, 1, 4)).toBe(false);
    expect(await jobs.finish('a', 1, { error: 'x' }, 2000)).toBe(false);
    expect(await jobs.get(alice, 'a')).toBeNull();
  });

  test('limits the open backtests of a user, and keeps the newest finished ones of an owner', async () => {
    const { jobs } = await opened(kind);
    for (const id of ['a', 'b', 'c']) {
      await jobs.add(backtest(id), 1, 2);
      expect(await jobs.add(backtest('more', { workspace: 'other' }), 1, 2)).toBe('full');
      expect(await jobs.add(backtest(`of bob ${id}`, { owner: 'bob' }), 100, 2)).toMatchObject({ state: 'waiting' });
      await jobs.take(1, 1500);
      await jobs.take(1, 1500);
      for (const one of [id, `of bob ${id}`]) await jobs.finish(one, 1, { error: 'x' }, 2000);
    }
    await jobs.add(backtest('d'), 1, 2);
    expect((await jobs.list(alice, page(10))).rows.map(({ id }) => id)).toEqual(['d', 'c', 'b']);
  });

  test('limits concurrent backtests of a user across workspaces', async () => {
    const { jobs } = await opened(kind);
    const given = Array.from({ length: 8 }, (_, i) => backtest(`a${i}`, { workspace: `w${i}` }));
    const added = await Promise.all(given.map((one) => jobs.add(one, 1, 100)));
    expect(added.filter((one) => one !== 'full')).toHaveLength(1);
  });

  test('an idempotency key is unique per owner and archive', async () => {
    const { jobs, elsewhere } = await opened(kind);
    const once = { idempotency_key: 'once' };
    const both = await Promise.all(['a', 'b'].map((id) => jobs.add(backtest(id, once), 100, 100)));
    const [winner] = both.filter((one) => typeof one === 'object' && 'id' in one);
    expect(both).toContainEqual({ known: winner });
    expect(await jobs.add(backtest('c', { ...once, owner: 'bob' }), 9, 9)).toMatchObject({ id: 'c' });
    expect(await jobs.add(backtest('d', { ...once, workspace: '' }), 9, 9)).toMatchObject({ id: 'd' });
    expect(await elsewhere.add(backtest('e', once), 9, 9)).toMatchObject({ id: 'e' });
  });
});
