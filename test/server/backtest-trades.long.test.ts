import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import type { Trade } from '../../src/contract/trade-fields.ts';
import { tradeColumns } from '../../src/contract/trade-fields.ts';
import { removeOrphanTrades } from '../../src/server/jobs/trades-files.ts';
import { hourMs, now, opened } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import {
  asking,
  backtestPath,
  createTradedArchive,
  type Kept,
  runDirectly,
  saved,
  slow,
  threshold,
} from './backtesting.ts';
import { holdJobs } from './serving.ts';
import { freshDatabase, overEachDatabase } from './workspace/databases.ts';

interface TradesPage {
  readonly trades: readonly Trade[];
  readonly count: number;
  readonly total: number;
  readonly next_cursor: string | null;
  readonly generated_at: number;
}

type User = Awaited<ReturnType<typeof asking>>['alice'];

const at = ({ id }: Pick<Kept, 'id'>): string => `${backtestPath}/${id}/trades`;
const toRow = (trade: Trade) => tradeColumns.map(({ name }) => trade[name as keyof Trade]);
const tradesFolderOf = ({ layout }: Archive): string => join(layout.root, '.oddslake/backtests');
const filesOf = (archive: Archive): string[] => readdirSync(tradesFolderOf(archive)).sort();

/** Eight rules that trade at the same ticks: more than two thousand trades of 100,000 ticks, eight at a time. */
const busy = {
  entry_executable: {
    name: 'busy',
    strategy: {
      rules: Array.from({ length: 8 }, () => ({
        side: 'yes',
        entry: { measure: 'price', below: 0.3 },
        exit: { measure: 'price', above: 0.7 },
        size: { contracts: 1 },
      })),
    },
  },
  objective: 'total_pnl',
};

/** Pages of a backtest, at most `pagesMax`. */
async function readPages(
  user: User,
  backtest: Pick<Kept, 'id'>,
  limit: number,
  pagesMax = 1000,
): Promise<TradesPage[]> {
  const pages: TradesPage[] = [];
  for (let cursor: string | null = ''; cursor !== null && pages.length < pagesMax; ) {
    const query: string = cursor === '' ? '' : `&cursor=${cursor}`;
    const { status, body } = await user.json<TradesPage>(`${at(backtest)}?limit=${limit}${query}`);
    expect(status, JSON.stringify(body)).toBe(200);
    pages.push(body);
    cursor = body.next_cursor;
  }
  return pages;
}

const createGet =
  ({ ask }: Pick<Awaited<ReturnType<typeof asking>>, 'ask'>, { authorization }: User) =>
  (path: string, headers: Record<string, string> = {}, method = 'GET') =>
    ask(path, { method, headers: { authorization, ...headers } });

test('are all trades of the result, in the same order, as pages, CSV and Parquet', async () => {
  const archive = await createTradedArchive(50_000);
  const service = await asking(archive);
  const { alice } = service;
  const done = await alice.becomes((await alice.post({ ...busy, save: true })).body, 'done', 'failed');
  const { count, items } = done.result!.trades;
  expect(count).toBeGreaterThan(2000);
  const pages = await readPages(alice, done, 700);
  const trades = pages.flatMap((page) => page.trades);
  expect(pages.map((page) => page.count)).toEqual([700, 700, 700, ...pages.slice(3).map((page) => page.trades.length)]);
  expect(pages.every(({ total, generated_at }) => total === count && generated_at === now)).toBe(true);
  expect(trades).toHaveLength(count);
  expect(trades.slice(0, items.length)).toEqual(items);
  // Pages that end among the trades of one tick.
  const small = (await readPages(alice, done, 3, 20)).flatMap((page) => page.trades);
  expect(small).toEqual(trades.slice(0, 60));
  expect((await alice.json<TradesPage>(at(done))).body.trades).toEqual(trades.slice(0, 1000));

  const get = createGet(service, alice);
  const answered = await get(`${at(done)}?format=parquet`);
  const parquet = Buffer.from(await answered.arrayBuffer());
  expect(decodeRows(tradeColumns, parquet)).toEqual(trades.map(toRow));
  const sha256 = createHash('sha256').update(parquet).digest('hex');
  expect(done.trades_file).toEqual({ url: `${at(done)}?format=parquet`, bytes: parquet.length, sha256, rows: count });
  expect(Object.fromEntries(answered.headers)).toMatchObject({
    etag: `"${sha256}"`,
    'content-type': 'application/vnd.apache.parquet',
    'accept-ranges': 'bytes',
    'content-disposition': `attachment; filename="backtest-${done.id}-trades.parquet"`,
  });
  const part = await get(done.trades_file!.url, { range: 'bytes=0-3', 'if-match': `"${sha256}"` });
  expect([part.status, await part.text()]).toEqual([206, 'PAR1']);
  expect((await get(done.trades_file!.url, { 'if-none-match': `"${sha256}"` })).status).toBe(304);
  expect((await get(done.trades_file!.url, {}, 'HEAD')).headers.get('content-length')).toBe(String(parquet.length));

  const csv = await get(at(done), { accept: 'text/csv' });
  expect(csv.headers.get('content-disposition')).toBe(`attachment; filename="backtest-${done.id}-trades.csv"`);
  const [header, ...lines] = (await csv.text()).trimEnd().split('\n');
  expect(header).toBe(tradeColumns.map(({ name }) => name).join(','));
  const reported = lines.map((line) => line.split(','));
  expect(reported.map(([symbol, rule, , , , filled]) => [symbol, Number(rule), Date.parse(filled!)])).toEqual(
    trades.map(({ symbol, rule, filled_at }) => [symbol, rule, filled_at]),
  );
  expect(reported.map((fields) => Number(fields.at(-1)))).toEqual(trades.map(({ pnl }) => pnl));
  for (const format of ['csv', 'json']) {
    const head = await get(`${at(done)}?format=${format}`, {}, 'HEAD');
    expect([head.status, await head.text()]).toEqual([200, '']);
  }
});

test('stay as they were when the archive changes, and are empty for a backtest without trades', async () => {
  const archive = await createTradedArchive();
  const { alice, ask } = await asking(archive);
  const never = { ...saved, parameters: { buy_below: -1, sell_above: 2 } };
  const none = await alice.becomes((await alice.post(never)).body, 'done', 'failed');
  expect(none.trades_file).toMatchObject({ rows: 0 });
  expect((await alice.json<TradesPage>(at(none))).body).toMatchObject({ trades: [], total: 0, next_cursor: null });
  const get = createGet({ ask }, alice);
  expect(await (await get(`${at(none)}?format=csv`)).text()).toBe(
    `${tradeColumns.map(({ name }) => name).join(',')}\n`,
  );
  const empty = Buffer.from(await (await get(`${at(none)}?format=parquet`)).arrayBuffer());
  expect(decodeRows(tradeColumns, empty)).toEqual([]);

  const done = await alice.becomes((await alice.post(saved)).body, 'done', 'failed');
  const { trades } = await runDirectly(archive, threshold);
  for (const { path } of archive.readManifest().datasets.ticks.files) rmSync(join(archive.layout.root, path));
  expect((await alice.json<TradesPage>(at(done))).body.trades).toEqual(trades.items);
});

describe('the trades of a backtest', () => {
  test('are refused with the reason if it is not done, or if they were not stored', async () => {
    const archive = await createTradedArchive(50_000);
    const service = await asking(archive);
    const { alice, bob, ask, key, workspace } = service;
    type Problem = { readonly code: string; readonly detail: string };
    const refusal = async (path: string, user = alice) => {
      const { status, body } = await user.json<Problem>(path);
      return [status, body.code, body.detail];
    };
    const failed = await alice.becomes(
      (await alice.post({ ...saved, from: Date.UTC(2150, 0, 1) })).body,
      'done',
      'failed',
    );
    expect(await refusal(at(failed))).toEqual([
      409,
      'conflict',
      `The backtest failed: it has no trades. ${failed.error}`,
    ]);
    const [done, large, missing, damaged] = await Promise.all(
      Array.from({ length: 4 }, async () => alice.becomes((await alice.post(saved)).body, 'done', 'failed')),
    );
    const running = (await alice.post(slow)).body;
    const waiting = (await alice.post(saved)).body;
    await alice.becomes(running, 'running');
    for (const [one, state] of [
      [running, 'running'],
      [waiting, 'waiting'],
    ] as const)
      for (const format of ['json', 'csv', 'parquet'])
        expect(await refusal(`${at(one)}?format=${format}`)).toEqual([
          409,
          'conflict',
          `The backtest is ${state}; its trades are available once its state is done.`,
        ]);
    await workspace.db
      .updateTable('backtests')
      .set({ trades_bytes: null, trades_sha256: null })
      .where('id', '=', large!.id)
      .execute();
    expect(await refusal(at(large!))).toEqual([
      410,
      'trades_not_stored',
      expect.stringMatching(/would have been too large/),
    ]);
    rmSync(join(tradesFolderOf(archive), `${missing!.id}.parquet`));
    expect(await refusal(at(missing!))).toEqual([410, 'trades_not_stored', expect.stringMatching(/is missing/)]);
    writeFileSync(join(tradesFolderOf(archive), `${damaged!.id}.parquet`), 'not what it was');
    for (const format of ['json', 'csv', 'parquet'])
      expect(await refusal(`${at(damaged!)}?format=${format}`)).toEqual([
        503,
        'damaged_data',
        'The file with the trades of the backtest is damaged. Run the backtest again.',
      ]);

    for (const user of [bob, service.as('alice', 'trading')])
      expect(await refusal(at(done!), user)).toEqual([404, 'not_found', 'This user has no such backtest.']);
    expect(await refusal(at({ id: 'nosuch' }))).toEqual([404, 'not_found', 'This user has no such backtest.']);
    expect((await ask(at(done!), { headers: { authorization: `Bearer ${key}` } })).status).toBe(403);
    const [{ next_cursor: cursor }] = (await readPages(alice, done!, 1, 1)) as [TradesPage];
    for (const [query, code] of [
      ['format=ndjson', 'invalid_parameter'],
      ['limit=0', 'invalid_parameter'],
      ['format=csv&limit=5', 'invalid_parameter'],
      [`format=parquet&cursor=${cursor}`, 'invalid_parameter'],
      ['csv_safe=true', 'invalid_parameter'],
      ['cursor=x', 'invalid_cursor'],
      [`cursor=${Buffer.from('["b","x",-1,1]').toString('base64url')}`, 'invalid_cursor'],
      [`cursor=${Buffer.from(`["b","${done!.id}",1e15,1]`).toString('base64url')}`, 'invalid_cursor'],
    ])
      expect([query, ...(await refusal(`${at(done!)}?${query}`)).slice(0, 2)]).toEqual([query, 400, code]);
    // A cursor of another backtest, and one of a list.
    expect((await refusal(`${at(waiting)}?cursor=${cursor}`))[0]).toBe(409);
    const other = Buffer.from(`["b","${large!.id}",1,1]`).toString('base64url');
    expect((await refusal(`${at(done!)}?cursor=${other}`)).slice(0, 2)).toEqual([400, 'invalid_cursor']);
    const accept = await ask(at(done!), { headers: { authorization: alice.authorization, accept: 'image/png' } });
    expect(accept.status).toBe(406);
  });

  test('are stored up to the limit of their user; the result is kept without them', async () => {
    const archive = await createTradedArchive();
    const first = await asking(archive);
    const run = async (user: User) => user.becomes((await user.post(saved)).body, 'done', 'failed');
    const { bytes } = (await run(first.alice)).trades_file!;
    await first.stop();
    const { alice, bob, as } = await asking(archive, { limits: { tradesBytesMax: bytes + 10 } });
    const stored = await run(alice);
    expect(stored.trades_file).toMatchObject({ bytes });
    for (const user of [alice, as('alice', 'trading')]) {
      const { state, result, trades_file, ...job } = await run(user);
      expect([state, trades_file]).toEqual(['done', null]);
      const { status, body } = await user.json<{ detail: string }>(at(job));
      expect([status, body.detail]).toEqual([
        410,
        expect.stringMatching(new RegExp(`^The ${result!.trades.count} trades .* were not stored`)),
      ]);
    }
    expect((await run(bob)).trades_file).toMatchObject({ bytes });
    expect(await alice.drop(stored.id)).toBe(204);
    expect((await run(alice)).trades_file).toMatchObject({ bytes });
  });

  test('are removed with it', async () => {
    const archive = await createTradedArchive(50_000);
    const { alice } = await asking(archive);
    const done = await alice.becomes((await alice.post(saved)).body, 'done', 'failed');
    expect(filesOf(archive)).toEqual([`${done.id}.parquet`]);
    expect(await alice.drop(done.id)).toBe(204);
    expect((await alice.json(at(done))).status).toBe(404);
    const { body: running } = await alice.post(slow);
    await alice.becomes(running, 'running');
    expect(await alice.drop(running.id)).toBe(204);
    const last = await alice.becomes((await alice.post(saved)).body, 'done', 'failed');
    expect(filesOf(archive)).toEqual([`${last.id}.parquet`]);
  });
});

/** Writes a file among the trades, last modified some time before `now`. */
function putFile(archive: Archive, name: string, ageMs: number): void {
  mkdirSync(tradesFolderOf(archive), { recursive: true });
  const path = join(tradesFolderOf(archive), name);
  writeFileSync(path, 'trades');
  utimesSync(path, (now - ageMs) / 1000, (now - ageMs) / 1000);
}

test('files without a backtest are removed once they are an hour old', async () => {
  const archive = opened();
  await removeOrphanTrades(
    archive,
    { listWithTrades: () => Promise.reject(new Error('requested without files')) },
    now,
  );
  for (const [name, ageMs] of [
    ['known.parquet', 9 * hourMs],
    ['old.parquet', hourMs],
    ['new.parquet', hourMs - 1000],
    ['.old.parquet.oddslake-1-draft', 2 * hourMs],
  ] as const)
    putFile(archive, name, ageMs);
  await removeOrphanTrades(archive, { listWithTrades: async () => ['known', 'gone'] }, now);
  expect(filesOf(archive)).toEqual(['known.parquet', 'new.parquet']);
});

overEachDatabase((kind) => {
  test('a service that is killed between storing the trades and the result leaves no orphan', async () => {
    const archive = await createTradedArchive();
    const database = await freshDatabase(kind);
    const letGo = holdJobs(archive);
    const first = await asking(archive, { database });
    const killed = (await first.alice.post(saved)).body;
    const removed = (await first.alice.post(saved)).body;
    // As a killed service leaves them.
    const running = { state: 'running', runner: 1, attempts: 1, started_at: now } as const;
    await first.workspace.db.updateTable('backtests').set(running).execute();
    for (const { id } of [killed, removed]) putFile(archive, `${id}.parquet`, 2 * hourMs);
    await first.workspace.db.deleteFrom('backtests').where('id', '=', removed.id).execute();
    await first.stop();
    letGo();

    const { alice } = await asking(archive, { database });
    const done = await alice.becomes(killed, 'done', 'failed');
    expect(done.state).toBe('done');
    const { count } = done.result!.trades;
    expect((await alice.json<TradesPage>(at(done))).body).toMatchObject({ count, total: count });
    await waitFor(async () => !existsSync(join(tradesFolderOf(archive), `${removed.id}.parquet`)), 'no orphan');
    expect(filesOf(archive)).toEqual([`${killed.id}.parquet`]);
  });
});
