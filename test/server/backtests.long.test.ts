import { expect, test } from 'vitest';
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
import { holdJobs, restless } from './serving.ts';
import { freshDatabase, overEachDatabase } from './workspace/databases.ts';

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
    set: ['service.research.waiting_max=2', 'service.research.saved_backtests_max=1'],
  });
  const ids = [(await alice.post(slow)).body.id, (await alice.post(brief)).body.id];
  const refused = await alice.post(brief);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '60']);
  expect((await as('alice', 'desk').post(brief)).status).toBe(429);
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
  for (const other of [bob, as('alice', 'desk')]) {
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
    const first = await asking(archive, { database, clock: restless });
    const second = await asking(opened({ root: archive.layout.root }), { database, clock: restless });
    const jobs: Kept[] = [];
    for (const { alice } of [first, second, first, second]) jobs.push((await alice.post(saved)).body);
    const values = new Set<unknown>();
    for (const [i, job] of jobs.entries())
      values.add((await [second, first][i % 2]!.alice.becomes(job, 'done', 'failed')).result?.value);
    expect([...values]).toEqual([(await runDirectly(archive, threshold)).value]);
  });
});
