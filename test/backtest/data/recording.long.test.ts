import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { expect, test } from 'vitest';
import { opened } from '../../archive/scratch.ts';
import { importInto, writeParquet } from '../../e2e/import-lake.ts';
import { folder } from '../../e2e/lake.ts';
import { needsPath } from '../../harness/needs.ts';
import { builtIn } from './strategies.ts';
import { run } from './test-archive.ts';

const data = join(new URL('../../..', import.meta.url).pathname, '..', 'shared', 'data');
const ticksFile = join(data, 'polymarket-us-ticks.parquet');
const marketsFile = join(data, 'polymarket-us-markets.parquet');

/** All symbols, or one in n with RECORDING_SHARE=n. */
const share = Number(process.env.RECORDING_SHARE ?? 1);
const chosen = (file: string): string => `(SELECT * FROM '${file}' WHERE hash(symbol) % ${share} = 0)`;

/** Calibration, and the result of buying at the second tick and holding, computed from the files. */
const calibrationSql = `
  WITH settled AS (
    SELECT p, resolved_yes AS o FROM ${chosen(ticksFile)} JOIN '${marketsFile}' USING (symbol) WHERE resolved_yes IS NOT NULL),
  placed AS (SELECT *, ${[1, 2, 3, 4, 5, 6, 7, 8, 9].map((k) => `(p >= ${k / 10}::DOUBLE)::INT`).join(' + ')} AS decile FROM settled)
  SELECT decile, count(*)::DOUBLE, avg(p), avg(o), avg((p - o) ** 2) FROM placed GROUP BY 1 ORDER BY 1`;
const holdingSql = `
  WITH numbered AS (SELECT *, row_number() OVER (PARTITION BY symbol ORDER BY t) AS n FROM ${chosen(ticksFile)}),
  held AS (SELECT symbol, max(p) FILTER (n = 2) AS bought, arg_max(p, t) AS last, count(*) AS n FROM numbered GROUP BY symbol)
  SELECT symbol, bought, resolved_yes::DOUBLE AS outcome, coalesce(resolved_yes, last) - bought AS pnl
    FROM held JOIN '${marketsFile}' USING (symbol) WHERE n > 1`;

async function rowsOf(sql: string): Promise<unknown[][]> {
  const instance = await DuckDBInstance.create(':memory:', { threads: '2' });
  const connection = await instance.connect();
  const rows = await connection.runAndReadAll(sql);
  connection.closeSync();
  instance.closeSync();
  return rows.getRows();
}

const near = (value: unknown): number => expect.closeTo(value as number, 9) as number;

test(
  'on the recording, calibration by decile and buy-and-hold equal a direct SQL computation',
  needsPath(data, 'no shared/data beside the project: the recording'),
  async () => {
    const root = folder();
    const input = folder();
    const ticks = await writeParquet(
      join(input, 'ticks.parquet'),
      `SELECT * REPLACE (epoch_ms(t) AS t) FROM ${chosen(ticksFile)} ORDER BY symbol, t`,
    );
    const markets = await writeParquet(join(input, 'markets.parquet'), `SELECT * FROM ${chosen(marketsFile)}`);
    const set = ['source.name=recording', 'source.field_paths.outcome=["resolved_yes"]'];
    expect(await importInto(root, [ticks], {}, set)).toMatchObject({ exit_code: 0 });
    expect(await importInto(root, [markets], { datasets: ['markets'] }, set)).toMatchObject({ exit_code: 0 });

    const archive = opened({ root, upstream: null });
    const result = await run(archive, { objective: 'brier' }, builtIn('buy_and_hold'), { threads: 2 });
    const calibration = result.calibration.map((row, k) => [k, row.ticks, row.mean_price, row.mean_outcome, row.brier]);
    const expected = await rowsOf(calibrationSql);
    expect(expected).toHaveLength(10);
    expect(calibration).toEqual(expected.map(([k, n, ...means]) => [k, n, ...means.map(near)]));

    const held = (await rowsOf(holdingSql)) as [string, number, number | null, number][];
    const settled = held.filter(([, , outcome]) => outcome !== null);
    expect(settled.length).toBeGreaterThan(100);
    expect(settled.length).toBeLessThan(held.length);
    const sum = held.reduce((total, [, , , pnl]) => total + pnl, 0);
    expect(Math.abs(result.summary.total_pnl - sum)).toBeLessThan(1e-9);
    expect(result.summary).toMatchObject({
      trades: held.length,
      symbols_traded: held.length,
      fees: 0,
      avg_pnl: near(sum / held.length),
      brier: near(settled.reduce((total, [, bought, outcome]) => total + (bought - outcome!) ** 2, 0) / settled.length),
      win_rate: near(held.filter(([, , , pnl]) => pnl > 0).length / held.length),
    });
    expect(result.equity.value.at(-1)).toEqual(near(sum));
    const pnls = new Map(held.map(([symbol, , , pnl]) => [symbol, pnl]));
    for (const { symbol, pnl } of result.symbols.items) expect(pnl, symbol).toEqual(near(pnls.get(symbol)));
  },
);
