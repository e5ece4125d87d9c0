import { Kysely } from 'kysely';
import { expect, test } from 'vitest';
import { createBacktestStore } from '../../../src/server/workspace/backtest-store.ts';
import type { DatabaseLocation } from '../../../src/server/workspace/database-url.ts';
import { migrate, migrations } from '../../../src/server/workspace/migrations.ts';
import { openPostgresDialect } from '../../../src/server/workspace/postgres.ts';
import { openSqliteDialect } from '../../../src/server/workspace/sqlite.ts';
import { openWorkspaceDatabase } from '../../../src/server/workspace/workspace-database.ts';
import { freshDatabase, overEachDatabase } from './databases.ts';

const request = {
  entry_executable: { name: 'threshold', version: null, strategy: null },
  objective: 'total_pnl',
  symbols: null,
  filter: { categories: [], sources: [] },
  from: null,
  to: null,
  parameters: { buy_below: 0.3 },
  grid: {},
  held_out: 0.3,
};
// Rules and windows have fields `exit`, `from` and `to` too, which keep their names.
const strategy = {
  rules: [{ side: 'yes', entry: { all: [] }, exit: { measure: 'price', above: 0.7 } }],
  parameters: { paid: 1, got: 2 },
};
const summary = { ticks: 90, trades: 1, contracts: 2, total_pnl: 0.1 + 0.2 };
const equity = { step_ms: 60_000, t: [1, 60_000], value: [0, 0.1 + 0.2] };
const symbolRow = { symbol: 'A', ticks: 90, trades: 1, pnl: 0.1 + 0.2 };
const [tradeHead, tradeTail] = [
  { symbol: 'A', rule: 0, side: 'yes', contracts: 2, price: 0.25 },
  { exit_decided_at: 3, exited_at: 4, pnl: 0.3 },
];
const archive = { generation: 7, manifest_sha256: 'a', files: 2, files_sha256: 'b' };

const resultBefore = {
  asked: request,
  strategy,
  strategy_version: 3,
  from: 1,
  to: 90_000,
  value: 0.1 + 0.2,
  summary: { symbols: 4, traded: 1, ...summary },
  equity,
  symbols: { count: 1, listed: [symbolRow] },
  trades: { count: 1, listed: [{ ...tradeHead, paid: 0.26, got: 0.7, exit: 'sold', ...tradeTail }] },
  calibration: [{ from: 0, to: 0.1, ticks: 5, mean_price: 0.05, mean_outcome: null, brier: null }],
  grid: { split_at: 5, best: 0, points: [{ parameters: { listed: 1 }, value: 1, trades: 1 }] },
  coverage: { asked_ms: 100, lacking_ms: 25, lacking_share: 0.25 },
  archive,
};

const resultNow = {
  request,
  strategy,
  strategy_version: 3,
  from: 1,
  to: 90_000,
  value: 0.1 + 0.2,
  summary: { symbols: 4, symbols_traded: 1, ...summary },
  equity,
  symbols: { count: 1, items: [symbolRow] },
  trades: {
    count: 1,
    items: [{ ...tradeHead, entry_price: 0.26, exit_price: 0.7, exit_reason: 'sold', ...tradeTail }],
  },
  calibration: [{ price_from: 0, price_to: 0.1, ticks: 5, mean_price: 0.05, mean_outcome: null, brier: null }],
  grid: { split_at: 5, best: 0, points: [{ parameters: { listed: 1 }, value: 1, trades: 1 }] },
  coverage: { lifetime_ms: 100, gap_ms: 25, gap_share: 0.25 },
  archive,
};

const alice = { owner: 'alice', workspace: '' };
const rowBefore = {
  ...alice,
  place: 'archive',
  state: 'done',
  asked: JSON.stringify(request),
  strategy: JSON.stringify(strategy),
  attempts: 1,
  created_at: 5,
  batches_done: 1,
};

overEachDatabase((kind) => {
  test('backtests saved under the old names are read under the new ones', async () => {
    const location = await freshDatabase(kind);
    await createOldDatabase(location, [
      { ...rowBefore, id: 'a', ordinal: 1, result: JSON.stringify(resultBefore) },
      { ...rowBefore, id: 'b', ordinal: 2, state: 'waiting', result: null },
    ]);
    const db = await openWorkspaceDatabase(location);
    const store = createBacktestStore(db, 'archive');
    const [done, waiting] = [await store.get(alice, 'a'), await store.get(alice, 'b')];
    expect(done).toMatchObject({ state: 'done', request: JSON.stringify(request), result: JSON.stringify(resultNow) });
    expect(waiting).toMatchObject({ state: 'waiting', request: JSON.stringify(request), result: null });
    expect(await store.take(1, 6)).toMatchObject({ id: 'b', request: JSON.stringify(request) });
    await db.destroy();
  });

  test.each([
    ['is not JSON', '{"asked":'],
    ['is of another shape', '{"asked":{},"symbols":7}'],
    ['lacks a part', '{"asked":{}}'],
    ['is null', 'null'],
  ])('a saved result that %s stays as it is, and the others are migrated', async (_, result) => {
    const location = await freshDatabase(kind);
    await createOldDatabase(location, [
      { ...rowBefore, id: 'a', ordinal: 1, result },
      { ...rowBefore, id: 'b', ordinal: 2, result: JSON.stringify(resultBefore) },
    ]);
    const db = await openWorkspaceDatabase(location);
    const store = createBacktestStore(db, 'archive');
    expect(await store.get(alice, 'a')).toMatchObject({ result });
    expect(await store.get(alice, 'b')).toMatchObject({ result: JSON.stringify(resultNow) });
    await db.destroy();
  });
});

/** Creates the database as it was before migration 006, with these backtests. */
async function createOldDatabase(location: DatabaseLocation, rows: readonly object[]): Promise<void> {
  const dialect =
    location.kind === 'sqlite' ? openSqliteDialect(location.path) : await openPostgresDialect(location.url);
  const db = new Kysely<{ backtests: object }>({ dialect });
  const before = Object.entries(migrations).filter(([name]) => name < '006');
  await migrate(db, location.kind, Object.fromEntries(before));
  for (const row of rows) await db.insertInto('backtests').values(row).execute();
  await db.destroy();
}
