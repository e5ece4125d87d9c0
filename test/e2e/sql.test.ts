import { expect, test } from 'vitest';
import { dayMs, expectDone, fixedNow, folder, hashes, sandbox, totalTicks } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

test('sql has views and macros over the datasets', async () => {
  const output = folder();
  const box = await sandbox({ seed: 4, nowMs: fixedNow, retentionMs: 2 * dayMs, markets: 5, lifetimeDaysMax: 45 });
  // The service no longer has the first days, which somebody asks for.
  expect((await job('backfill', box.url, output, '--from', '2025-06-10', '--to', '2025-06-15')).code).toBe(4);
  expect(Object.keys(hashes(output, 'candles_1h', 'candles_1d')).length).toBeGreaterThan(4);

  const ask = async (sql: string): Promise<Record<string, unknown>[]> => {
    const { stdout } = await expectDone(run(['sql', '--output', output, sql, '--json']));
    return JSON.parse(stdout) as Record<string, unknown>[];
  };
  const tables =
    'candles_1d candles_1h conflicts coverage days gaps lifetimes markets order_flow orderbooks quote_conflicts quotes ' +
    'quotes_with_ticks spreads symbols ticks ticks_with_markets top_of_book trade_conflicts trades trades_with_quotes';
  expect((await ask('SHOW TABLES')).map(({ name }) => name).join(' ')).toBe(tables);
  // A query opens only the views that its statement uses.
  expect(await ask("SELECT sum(ticks)::INTEGER AS ticks FROM Candles('15m')")).toEqual([{ ticks: totalTicks(output) }]);
  expect(
    await ask("(FROM candles('1h') EXCEPT FROM candles_1h) UNION ALL (FROM candles_1h EXCEPT FROM candles('1h'))"),
  ).toEqual([]);
  const [grid] = await ask(
    `SELECT count(*) AS n, count(DISTINCT symbol) AS symbols, sum(ticks)::INTEGER AS ticks, bool_and(close IS NOT NULL) AS priced
     FROM candles_filled('6h', '2025-06-13 12:00:00Z', '2025-06-15')`,
  );
  expect(grid).toMatchObject({ ticks: totalTicks(output), priced: true });
  expect(Number(grid!.n)).toBeLessThanOrEqual(6 * Number(grid!.symbols));
  expect(await ask('SELECT count(*) AS n FROM "ticks_with_markets"')).toEqual([{ n: totalTicks(output) }]);
  expect(await ask("SELECT is_covered('nobody', '2025-06-14') AS it")).toEqual([{ it: false }]);
  expect(await ask('SELECT count(*) AS n FROM ticks WHERE NOT IS_COVERED(symbol, t)')).toEqual([{ n: 0 }]);

  // The view has the gaps that the files show. What was asked for before the lifetimes began is in no file.
  const day = ['--from', '2025-06-15T06:00:00Z', '--to', '2025-06-15T09:00:00Z'];
  await expectDone(job('backfill', box.url, output, ...day));
  const { stdout } = await run(['gaps', '--output', output, '--json']);
  const { gaps } = JSON.parse(stdout) as { gaps: Record<'symbol' | 'from' | 'to' | 'reason', unknown>[] };
  const kinds = Map.groupBy(gaps, ({ reason }) => reason);
  expect([...kinds.keys()].sort()).toEqual(['expired', 'never asked']);
  const view = 'SELECT symbol, epoch_ms(t_from) AS "from", epoch_ms(t_to) AS "to" FROM gaps ORDER BY symbol, t_from';
  expect(await ask(view)).toEqual(kinds.get('never asked')!.map(({ symbol, from, to }) => ({ symbol, from, to })));

  const refused = await run(['sql', '--output', output, "FROM candles('1 month')"]);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toMatch(/^oddslake: .*a step is a whole number of milliseconds, .*without months or years\n$/);
});
