import { createHash } from 'node:crypto';
import { globSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import { parseStrategy } from '../../src/backtest/strategy/parse-strategy.ts';
import type { BacktestResult } from '../../src/contract/backtests.ts';
import { tradeColumns } from '../../src/contract/trade-fields.ts';
import { createStrategyStore } from '../../src/server/workspace/strategy-store.ts';
import { openWorkspaceDatabase } from '../../src/server/workspace/workspace-database.ts';
import { answer, append, day0, hourMs, opened, publishNow } from '../archive/scratch.ts';
import { waitFor } from '../harness/limits.ts';
import { backtestLake, settledAt } from './backtest-lake.ts';
import { type Ended, expectDone, folder, start } from './lake.ts';
import { run } from './run-program.ts';

const backtest = (lake: string, ...args: string[]): Promise<Ended> => run(['backtest', ...args, '--output', lake]);

async function resultOf(lake: string, ...args: string[]) {
  const { code, stdout, stderr } = await backtest(lake, 'run', ...args, '--json', '--quiet');
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout) as BacktestResult & { id?: string; page?: { file: string; bytes: number; sha256: string } };
}

test('buy and hold gives the results computed by hand, as text and JSON', async () => {
  const lake = await backtestLake();
  const result = await resultOf(lake, 'buy_and_hold');
  expect(Object.keys(result).join(' ')).toBe(
    'request strategy strategy_version assumptions from to value summary equity symbols trades ' +
      'calibration grid coverage archive',
  );
  // Bought an hour after the first tick at 0.4, 0.2 and 0.5; settled at 1 and 0, and open at 0.75.
  expect(result.value).toBeCloseTo(0.6 - 0.2 + 0.25, 12);
  expect(result).toMatchObject({
    from: day0,
    to: settledAt + 1,
    grid: null,
    strategy_version: null,
    summary: { symbols: 3, symbols_traded: 3, ticks: 9, trades: 3, contracts: 3, fees: 0, win_rate: 2 / 3 },
    coverage: { gap_ms: 0, gap_share: 0 },
    archive: { generation: 1, manifest_sha256: sha256(readFileSync(join(lake, 'manifest.json'))) },
    assumptions: { fees: 'none', slippage: 0, whole_contracts: false, tick_fills: 3, book_fills: 0, quote_fills: 0 },
  });
  expect(result.symbols.items.map(({ symbol, outcome }) => [symbol, outcome])).toEqual([
    ['RAIN', 1],
    ['TEAM', null],
    ['SNOW', 0],
  ]);

  const won = await resultOf(lake, 'buy_and_hold', '--objective', 'win_rate');
  expect([won.request.objective, won.value]).toEqual(['win_rate', 2 / 3]);

  const { stdout, stderr } = await expectDone(backtest(lake, 'run', 'buy_and_hold'));
  const note = 'Filled at tick prices, not bid and ask, without fees or spread.';
  expect(result.assumptions!.note).toBe(note);
  expect(stdout.split('\n').slice(0, 2)).toEqual([`  note       ${note}`, '  strategy   buy_and_hold']);
  expect(stdout).toMatch(/^ {2}total_pnl {2}\+0\.6500 dollars$/m);
  expect(stdout).toMatch(/^ {2}trades {5}3 of 3 contracts, 66\.7 % won, fees 0\.00$/m);
  expect(stdout).toContain(`  manifest   ${result.archive.manifest_sha256}\n`);
  expect(stdout).toMatch(/^RAIN +\+0\.6000 +1 +1 +0\.0000 +1 +3$/m);
  expect(stdout).toMatch(/^0\.5 – 0\.6 +1 +0\.5000 +0\.0000 +-0\.5000 +0\.2500$/m);
  expect(stdout).not.toContain('warning');
  expect(stderr).toContain('--save saves it');
});

test('selects by symbols, categories, sources and times, and sets parameters', async () => {
  const lake = await backtestLake();
  const named = join(folder(), 'symbols.txt');
  writeFileSync(named, 'SNOW\r\n\nTEAM\n');
  const played = async (...args: string[]) =>
    (await resultOf(lake, 'buy_and_hold', ...args)).symbols.items.map(({ symbol }) => symbol).sort();
  expect(await played('--symbol', 'RAIN', '--symbols-file', named)).toEqual(['RAIN', 'SNOW', 'TEAM']);
  expect(await played('--symbols-file', named)).toEqual(['SNOW', 'TEAM']);
  expect(await played('--category', 'weather')).toEqual(['RAIN', 'SNOW']);
  expect(await played('--source', 'polymarket', '--source', 'nobody')).toEqual(['TEAM']);
  const later = await resultOf(lake, 'buy_and_hold', '--from', String(day0 + 1), '--param', 'contracts=3');
  expect(later.from).toBe(day0 + 1);
  // Decided at the second tick and filled at the third: 0.4, -0.1 and 0, three times.
  expect(later.value).toBeCloseTo(0.9, 12);
  const hours = await resultOf(lake, 'momentum', '--param', 'window_ms=2h', '--param', 'move_beyond=0');
  expect(hours.strategy.parameters).toMatchObject({ window_ms: 2 * hourMs, move_beyond: 0 });
});

test('--fees and --whole-contracts replace those of the strategy', async () => {
  const lake = await backtestLake();
  const kalshi = await resultOf(lake, 'buy_and_hold', '--fees', 'kalshi', '--param', 'contracts=2.5');
  // Two contracts at 0.4, 0.2 and 0.5: 0.0336, 0.0224 and 0.035, each rounded up to a cent.
  expect(kalshi.summary).toMatchObject({ contracts: 6, fees: expect.closeTo(0.04 + 0.03 + 0.04, 12) });
  expect(kalshi.assumptions).toEqual({
    note: 'Filled at tick prices, not bid and ask, without spread.',
    fees: 'kalshi',
    slippage: 0,
    whole_contracts: true,
    tick_fills: 3,
    book_fills: 0,
    quote_fills: 0,
  });
  expect(kalshi.request.fees).toEqual(kalshi.strategy.fees);
  const fractional = ['--whole-contracts', 'no', '--param', 'contracts=2.5'];
  const maker = 'kalshi,liquidity=maker,multiplier=0.5,rounding=centicent';
  const cheaper = await resultOf(lake, 'buy_and_hold', '--fees', maker, ...fractional);
  // 2.5 contracts: 0.00525, 0.0035 and 0.00546875, each rounded up to 0.0001.
  expect(cheaper.summary).toMatchObject({ contracts: 7.5, fees: expect.closeTo(0.0053 + 0.0035 + 0.0055, 12) });
  const polymarket = await resultOf(lake, 'buy_and_hold', '--fees', 'polymarket,rate=0.05', '--whole-contracts', 'yes');
  expect(polymarket.summary.fees).toBeCloseTo(0.05 * (0.24 + 0.16 + 0.25), 12);
  expect(polymarket.assumptions).toMatchObject({ fees: 'polymarket', whole_contracts: true });
  expect((await resultOf(lake, 'buy_and_hold', '--fees', 'none')).assumptions).toMatchObject({ fees: 'none' });
  for (const [fees, message] of [
    ['manifold', '--fees schedule: must be one of kalshi, polymarket'],
    ['polymarket', '--fees rate: is missing'],
    ['kalshi,liquidity=both', '--fees liquidity: must be one of taker, maker'],
    ['kalshi,rate', 'Expected name=value.'],
    ['kalshi --param fee_per_contract=1', '--param fee_per_contract: has no effect'],
  ] as const) {
    const { code, stderr } = await backtest(lake, 'run', 'buy_and_hold', '--fees', ...fees.split(' '));
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  }
});

test('--trades writes all trades to a file, atomically', async () => {
  const lake = await backtestLake();
  const out = folder();
  const csv = join(out, 'trades.csv');
  writeFileSync(csv, 'what was there');
  const { trades_file, ...result } = (await resultOf(lake, 'buy_and_hold', '--trades', csv)) as BacktestResult & {
    trades_file: object;
  };
  const bytes = readFileSync(csv);
  expect(trades_file).toEqual({ file: csv, rows: 3, bytes: bytes.length, sha256: sha256(bytes) });
  expect(readdirSync(out)).toEqual(['trades.csv']);
  const [header, ...lines] = bytes.toString('utf8').trimEnd().split('\n');
  expect(header).toMatch(/^symbol,rule,side,contracts,decided_at,filled_at,/);
  expect(lines.map((line) => line.split(',')[0])).toEqual(result.trades.items.map(({ symbol }) => symbol));
  expect(lines.map((line) => line.split(',')[0])).toEqual(['RAIN', 'SNOW', 'TEAM']);

  const parquet = join(out, 'trades.parquet');
  const { stderr } = await backtest(lake, 'run', 'buy_and_hold', '--trades', parquet);
  expect(stderr).toContain(`wrote ${parquet}, 3 trades, `);
  const rows = decodeRows(tradeColumns, readFileSync(parquet));
  const names = tradeColumns.map(({ name }) => name);
  expect(rows.map((row) => Object.fromEntries(names.map((name, c) => [name, row[c]])))).toEqual(result.trades.items);

  const safe = join(out, 'safe.csv');
  await expectDone(backtest(lake, 'run', 'buy_and_hold', '--trades', safe, '--csv-safe'));
  expect(readFileSync(safe)).toEqual(bytes);
  for (const [args, message] of [
    [['--trades', join(out, 'trades.txt')], 'must end in .parquet or .csv'],
    [['--trades', join(lake, 'trades.csv')], `--trades ${join(lake, 'trades.csv')} is inside the archive`],
    [['--trades', parquet, '--csv-safe'], '--csv-safe requires --trades with a file that ends in .csv'],
    [['--csv-safe'], '--csv-safe requires --trades'],
    [['--trades', csv, '--out', csv], '--out and --trades name the same file'],
  ] as const) {
    const { code, stderr } = await backtest(lake, 'run', 'buy_and_hold', ...args);
    expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
  }
  const { code } = await backtest(lake, 'run', 'buy_and_hold', '--symbol', 'NOBODY', '--trades', csv);
  expect([code, readFileSync(csv)]).toEqual([2, bytes]);
});

test('a grid is chosen in sample, listed best first, and evaluated on held-out data', async () => {
  const lake = await backtestLake();
  const args = ['buy_and_hold', '--grid', 'contracts=1,2,5', '--held-out', '0.5', '--from', '2026-06-01', '--to'];
  const to = '2026-06-01T04:00:00Z';
  const { grid, from, strategy } = await resultOf(lake, ...args, to);
  expect(grid).toMatchObject({ split_at: day0 + 2 * hourMs, best: 0 });
  expect(from).toBe(grid!.split_at);
  expect(grid!.points.map(({ parameters }) => parameters)).toEqual([
    { contracts: 1 },
    { contracts: 2 },
    { contracts: 5 },
  ]);
  expect(strategy.parameters.contracts).toBe(1);
  const { stdout } = await backtest(lake, 'run', ...args, to);
  expect(stdout).toContain('held out');
  expect(stdout).toMatch(/Grid by total_pnl, best first\ncontracts +In sample +Trades +Held out +Held-out trades\n/);
});

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

describe('a page', () => {
  test('replaces an existing file atomically and is self-contained', async () => {
    const lake = await backtestLake();
    const file = join(folder(), 'page.html');
    writeFileSync(file, 'what was there');
    const { page } = await resultOf(lake, 'buy_and_hold', '--out', file);
    const bytes = readFileSync(file);
    expect(page).toEqual({ file, bytes: bytes.length, sha256: sha256(bytes) });
    expect(readdirSync(dirname(file))).toEqual(['page.html']);
    const text = bytes.toString('utf8');
    expect(text).toMatch(/^<!doctype html>\n/);
    expect(text).toContain('</html>');
    expect(text).not.toMatch(/<script|<link|<img|<iframe|\b(src|href)=|url\(|@import|https?:\/\/(?!www\.w3\.org\/)/);
  });
});

test('--save saves a backtest for list and show', async () => {
  const lake = await backtestLake();
  expect((await backtest(lake, 'list')).stdout).toMatch(
    /^no saved backtests\. Save one: \S*bin\/oddslake backtest run --output \S+ NAME --save\n$/,
  );
  expect(readdirSync(join(lake, '.oddslake'))).not.toContain('service.sqlite');
  const { id, ...result } = await resultOf(lake, 'buy_and_hold', '--save');
  const other = await resultOf(lake, 'threshold', '--save', '--user', 'alice', '--workspace', 'trading');
  const { backtests, count, more } = JSON.parse((await backtest(lake, 'list', '--json')).stdout);
  expect([count, more]).toEqual([2, false]);
  expect(backtests).toMatchObject([
    { id: other.id, owner: 'alice', workspace: 'trading', state: 'done', name: 'threshold' },
    { id, owner: 'local', workspace: '', name: 'buy_and_hold', objective: 'total_pnl', value: result.value },
  ]);
  const listed = (await backtest(lake, 'list', '--rows', '1')).stdout.trimEnd().split('\n');
  expect(listed[2]).toMatch(new RegExp(`^${other.id} +done +threshold .* alice in trading`));
  expect(listed.at(-1)).toBe('the newest 1 backtest; to show more: --rows');

  expect(JSON.parse((await backtest(lake, 'show', id!, '--json')).stdout)).toEqual({ ...result, id });
  const out = folder();
  const [run, shown] = [join(out, 'run.html'), join(out, 'show.html')];
  expect((await backtest(lake, 'show', id!, '--out', shown)).stdout).toContain('+0.6500 dollars');
  await resultOf(lake, 'buy_and_hold', '--out', run);
  expect(readFileSync(shown, 'utf8')).toBe(readFileSync(run, 'utf8'));

  // All trades, as the service returns them.
  const stored = (of: string | undefined): string => join(lake, '.oddslake/backtests', `${of}.parquet`);
  const names = tradeColumns.map(({ name }) => name);
  const rows = decodeRows(tradeColumns, readFileSync(stored(id)));
  expect(rows.map((row) => Object.fromEntries(names.map((name, c) => [name, row[c]])))).toEqual(result.trades.items);
  const db = await openWorkspaceDatabase({ kind: 'sqlite', path: join(lake, '.oddslake/service.sqlite') });
  const saved = await db.selectFrom('backtests').where('id', '=', id!).selectAll().executeTakeFirstOrThrow();
  await db.destroy();
  const bytes = readFileSync(stored(id));
  expect([saved.trades_rows, saved.trades_bytes, saved.trades_sha256]).toEqual([3, bytes.length, sha256(bytes)]);
  expect(readdirSync(join(lake, '.oddslake/backtests'))).toHaveLength(2);
  expect((await backtest(lake, 'run', 'buy_and_hold', '--save', '--symbol', 'NOBODY')).code).toBe(2);
  expect(readdirSync(join(lake, '.oddslake/backtests'))).toHaveLength(2);
});

test('lists a queued backtest, which has no result to show', async () => {
  const lake = await backtestLake();
  await resultOf(lake, 'threshold', '--save');
  const db = await openWorkspaceDatabase({ kind: 'sqlite', path: join(lake, '.oddslake/service.sqlite') });
  await db.updateTable('backtests').set({ state: 'failed', error: 'it was odd', result: null, value: null }).execute();
  await db.destroy();
  const { stdout } = await backtest(lake, 'list');
  const [, id] = /^(\w+) +failed +threshold +– +total_pnl /m.exec(stdout)!;
  const { code, stderr } = await backtest(lake, 'show', id!);
  expect([code, stderr]).toEqual([2, `oddslake: The backtest ${id} has no result: it is failed (it was odd).\n`]);
});

test('runs a strategy from a file, and names file and field of a fault', async () => {
  const lake = await backtestLake();
  const file = join(folder(), 'cheap.json');
  const strategy = {
    parameters: { below: 0.45 },
    rules: [
      {
        side: 'yes',
        size: { contracts: 2 },
        exit: null,
        entries_max: 1,
        entry: { measure: 'price', below: { parameter: 'below' } },
      },
    ],
  };
  writeFileSync(file, JSON.stringify(strategy));
  const result = await resultOf(lake, file, '--param', 'below=0.35');
  // RAIN at 0.3 is filled at 0.4; SNOW at 0.2 is filled at 0.1.
  expect(result.value).toBeCloseTo(2 * 0.6 - 2 * 0.1, 12);
  expect(result.request.entry_executable.name).toBe('cheap');
  writeFileSync(file, JSON.stringify({ ...strategy, rules: [{ ...strategy.rules[0], side: 'maybe' }], fee: 1 }));
  const bad = await backtest(lake, 'run', file);
  expect([bad.code, bad.stdout]).toEqual([2, '']);
  expect(bad.stderr).toContain(`${file}: rules[0].side must be one of yes, no`);
  expect(bad.stderr).toContain(`${file}: fee is unknown: expected one of rules`);
  writeFileSync(file, '{');
  expect(await backtest(lake, 'run', file)).toMatchObject({ code: 2, stderr: expect.stringContaining('is not JSON') });
});

test('runs a saved strategy of the user before a built-in one', async () => {
  const lake = await backtestLake();
  const db = await openWorkspaceDatabase({ kind: 'sqlite', path: join(lake, '.oddslake/service.sqlite') });
  const rule = { side: 'no', entry: { all: [] }, exit: null, entries_max: 1, size: { contracts: 1 } };
  for (const name of ['mine', 'buy_and_hold'])
    await createStrategyStore(db).add(
      { owner: 'alice', workspace: 'trading' },
      {
        id: `of${name.replaceAll('_', '')}`,
        idempotency_key: null,
        body_sha256: '',
        created_at: day0,
        name,
        definition: JSON.stringify(readOrThrow({ rules: [rule] })),
      },
      10,
    );
  await db.destroy();
  const alice = ['--user', 'alice', '--workspace', 'trading'];
  for (const name of ['mine', 'buy_and_hold']) {
    const { value, strategy_version } = await resultOf(lake, name, ...alice);
    expect([value, strategy_version]).toEqual([expect.closeTo(-0.65, 12), 1]);
  }
  expect((await backtest(lake, 'run', 'mine', ...alice)).stdout).toMatch(/^ {2}strategy +mine \(version 1\)$/m);
  expect((await resultOf(lake, 'buy_and_hold')).strategy_version).toBe(null);
  for (const other of [[], ['--user', 'alice'], ['--user', 'trading', '--workspace', 'alice']]) {
    const { code, stderr } = await backtest(lake, 'run', 'mine', ...other);
    expect([code, stderr]).toEqual([2, expect.stringContaining('mine is neither a saved strategy of this user')]);
  }
});

function readOrThrow(json: unknown) {
  const read = parseStrategy(json);
  if ('faults' in read) throw new Error(JSON.stringify(read.faults));
  return read.strategy;
}

test('exits 6 for damage, and with --strict 4 for missing coverage', async () => {
  const lake = await backtestLake();
  const long = ['run', 'buy_and_hold', '--to', '2026-06-03'];
  const lax = await backtest(lake, ...long);
  expect([lax.code, lax.stdout]).toEqual([0, expect.stringMatching(/^ {2}warning +[\d.]+ % of the symbols/m)]);
  expect((await backtest(lake, ...long, '--strict')).code).toBe(4);
  await expectDone(backtest(lake, 'run', 'buy_and_hold', '--strict'));
  const [part] = globSync('ticks/date=*/*.parquet', { cwd: lake });
  const bytes = readFileSync(join(lake, part!));
  bytes[100]! ^= 1;
  writeFileSync(join(lake, part!), bytes);
  const file = join(folder(), 'page.html');
  const { code, stdout, stderr } = await backtest(lake, 'run', 'buy_and_hold', '--out', file);
  expect([code, stdout]).toEqual([6, '']);
  expect(stderr).toContain(`${part} is damaged`);
  expect(readdirSync(dirname(file))).toEqual([]);
});

test('SIGINT exits 130 and leaves no page, object or pin', async () => {
  const archive = opened({ root: join(folder(), 'lake') });
  const pairs = Array.from({ length: 80_000 }, (_, i): [number, number] => [day0 + i * 1000, 0.5 + (i % 97) / 250]);
  append(archive, answer('LONG', pairs));
  await publishNow(archive);
  archive.close();
  const lake = archive.layout.root;
  const file = join(folder(), 'page.html');
  const values = Array.from({ length: 1000 }, (_, i) => i / 100 + 0.1).join();
  const args = ['backtest', 'run', 'mean_reversion', '--grid', `enter_beyond=${values}`, '--save', '--out', file];
  const { child, ended } = start([...args, '--output', lake]);
  const pins = () => globSync('*', { cwd: join(lake, '.oddslake/pins') });
  await waitFor(() => pins().length > 0, 'the pin of the run');
  child.kill('SIGINT');
  const { code, signal, stdout, stderr } = await ended;
  expect([code, signal, stdout]).toEqual([130, null, '']);
  expect(stderr).toContain('oddslake: stopped by SIGINT\n');
  expect([pins(), readdirSync(dirname(file))]).toEqual([[], []]);
  expect((await backtest(lake, 'list')).stdout).toContain('no saved backtests');
});
