import { expect, onTestFinished, test } from 'vitest';
import { openWorkspaceDatabase } from '../../../src/server/workspace/database.ts';
import {
  createExportJobStore,
  type ExportJobStore,
  type NewExportJob,
} from '../../../src/server/workspace/export-jobs.ts';
import { freshDatabase, type Kind, overEachDatabase } from './databases.ts';

async function opened(kind: Kind) {
  const db = await openWorkspaceDatabase(await freshDatabase(kind));
  onTestFinished(() => db.destroy());
  return { db, jobs: createExportJobStore(db, 'here', 1000), elsewhere: createExportJobStore(db, 'there', 1000) };
}

const job = (id: string, rest: Partial<NewExportJob> = {}): NewExportJob => ({
  id,
  key_id: 'key',
  idempotency_key: null,
  dataset: 'ticks',
  symbols: '[]',
  from_ms: null,
  to_ms: 5,
  format: 'csv',
  csv_safe: 0,
  created_at: 1000,
  ...rest,
});
/** Adds jobs in order: PostgreSQL does not order concurrent ones. */
async function add(jobs: ExportJobStore, ...given: NewExportJob[]) {
  for (const one of given) await jobs.add(one, 100, 100);
}
const done = (bytes: number) => ({ bytes, sha256: 'ab', rows: 1, generation: 7 });

overEachDatabase((kind) => {
  test('jobs are taken in order, each by one runner', async () => {
    const { jobs } = await opened(kind);
    await add(jobs, job('a'), job('b'), job('c'));
    const taken = await Promise.all([jobs.take(1, 1500), jobs.take(2, 1500), jobs.take(3, 1500), jobs.take(4, 1500)]);
    expect(taken.map((one) => one?.id).sort()).toEqual(['a', 'b', 'c', undefined]);
  });

  test('keys take turns', async () => {
    const { jobs } = await opened(kind);
    for (const id of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1']) await add(jobs, job(id, { key_id: id[0]! }));
    const order: string[] = [];
    for (let i = 0; i < 4; i++) order.push((await jobs.take(1, 1500))!.id);
    await add(jobs, job('d1', { key_id: 'd' }));
    for (let next = await jobs.take(1, 1500); next !== null; next = await jobs.take(1, 1500)) order.push(next.id);
    expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'd1', 'b2', 'a3']);
  });

  test('jobs of a dead runner return to the queue', async () => {
    const { jobs } = await opened(kind);
    await add(jobs, job('a'), job('b'));
    await jobs.take(1, 1500);
    await jobs.take(2, 1500);
    expect(await jobs.progress('a', 1, 5, 10)).toBe(true);
    await jobs.releaseAll(2000);
    expect(await jobs.progress('a', 1, 6, 10)).toBe(false);
    expect(await jobs.finish('a', 1, done(10), 2000)).toBe(false);
    expect(await jobs.get('key', 'a', 0)).toMatchObject({
      state: 'waiting',
      rows_done: 0,
      rows_total: null,
      bytes: null,
    });
    expect(await jobs.get('key', 'b', 0)).toMatchObject({ state: 'waiting', runner: null });
    expect((await jobs.take(3, 1500))?.id).toBe('a');
  });

  test('a removed job cannot be finished', async () => {
    const { jobs } = await opened(kind);
    await add(jobs, job('a'));
    await jobs.take(1, 1500);
    await jobs.remove('a');
    expect(await jobs.finish('a', 1, done(10), 2000)).toBe(false);
    expect(await jobs.get('key', 'a', 0)).toBeNull();
  });

  test('bytes and expiry are those of existing files', async () => {
    const { jobs } = await opened(kind);
    expect([await jobs.sumBytes(), await jobs.findFirstExpiry()]).toEqual([0, null]);
    await add(jobs, job('a'), job('b'));
    await jobs.take(1, 1500);
    await jobs.finish('a', 1, done(10), 2000);
    await jobs.take(1, 1500);
    await jobs.finish('b', 1, done(5), 3000);
    expect([await jobs.sumBytes(), await jobs.findFirstExpiry(), await jobs.listWithFiles()]).toEqual([
      15,
      3000,
      ['a', 'b'],
    ]);
    await jobs.expire(3000);
    expect([await jobs.sumBytes(), await jobs.findFirstExpiry(), await jobs.listWithFiles()]).toEqual([5, 4000, ['b']]);
  });

  test('limits the open jobs of a key, and keeps its newest finished ones', async () => {
    const { jobs } = await opened(kind);
    for (const id of ['a', 'b', 'c']) {
      await jobs.add(job(id), 1, 2);
      expect(await jobs.add(job('more'), 1, 2)).toBe('full');
      expect(await jobs.add(job(`of another ${id}`, { key_id: 'another' }), 100, 2)).toMatchObject({
        state: 'waiting',
      });
      await jobs.take(1, 1500);
      await jobs.take(1, 1500);
      for (const one of [id, `of another ${id}`]) await jobs.finish(one, 1, done(10), 2000);
    }
    await jobs.add(job('d'), 1, 2);
    const { jobs: own, total } = await jobs.list('key', 10, 0);
    expect([own.map(({ id }) => id), total]).toEqual([['d', 'c', 'b'], 3]);
  });

  test('an idempotency key is unique per API key and archive', async () => {
    const { jobs, elsewhere } = await opened(kind);
    const once = { idempotency_key: 'once' };
    const both = await Promise.all(['a', 'b'].map((id) => jobs.add(job(id, once), 100, 100)));
    const [winner] = both.filter((one) => typeof one === 'object' && 'id' in one);
    expect(both).toContainEqual({ known: winner });
    expect(await jobs.add(job('c', { ...once, key_id: 'another' }), 9, 9)).toMatchObject({ id: 'c' });
    expect(await elsewhere.add(job('d', once), 9, 9)).toMatchObject({ id: 'd' });
  });

  test('a job that repeatedly crashes its runner fails; one that was returned is started again', async () => {
    const { jobs } = await opened(kind);
    await add(jobs, job('a'));
    for (let i = 0; i < 5; i++) {
      expect((await jobs.take(1, 1500))?.id).toBe('a');
      await jobs.release('a', 1);
    }
    for (let i = 0; i < 3; i++) {
      expect((await jobs.take(1, 1500))?.id).toBe('a');
      await jobs.releaseAll(2000);
    }
    expect(await jobs.take(1, 1500)).toBeNull();
    expect(await jobs.get('key', 'a', 0)).toMatchObject({
      state: 'failed',
      runner: null,
      finished_at: 2000,
      expires_at: 3000,
      bytes: null,
      error: expect.stringMatching(
        /^The job was started 3 times, and each time the service ended first\. Reduce the request/,
      ),
    });
  });

  test('does not touch jobs of another archive in the same database', async () => {
    const { jobs, elsewhere } = await opened(kind);
    await add(jobs, job('a'));
    expect([await elsewhere.take(1, 1500), await elsewhere.get('key', 'a', 0)]).toEqual([null, null]);
    await jobs.take(1, 1500);
    await elsewhere.releaseAll(2000);
    await elsewhere.expire(1e15);
    await elsewhere.remove('a');
    expect(await jobs.get('key', 'a', 0)).toMatchObject({ state: 'running' });
    expect(await elsewhere.list('key', 10, 0)).toEqual({ jobs: [], total: 0 });
  });
});
