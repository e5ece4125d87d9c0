/**
 * Imports as many ticks, quotes and trades from Parquet, and compares their cost by column. Prints wall and CPU time, peak
 * memory, and the cost of a row and column relative to that of ticks.
 *
 * The rows are of 500 symbols and two days, made by DuckDB from their number alone: every run has the same. Columns are those of
 * the file; trades have an identifier, and the aggressor of two in three.
 *
 * Run: node bench/import-series.ts [MILLIONS] [DATASETS]   (5; ticks,quotes,trades,unnamed)
 * `unnamed`: trades without identifiers, sorted by time.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { CommandFailed, findAccounting, type Measured, measure } from './measure.ts';

const millions = Number(process.argv[2] ?? 5);
const names = (process.argv[3] ?? 'ticks,quotes,trades,unnamed').split(',');
const launcher = join(import.meta.dirname, '../bin/oddslake');

const day0 = Date.UTC(2026, 5, 1);
const spanMs = 2 * 86_400_000;
/** A number from 0 to 1 for row i, of 1,000 values. */
const draw = (salt: number): string => `((hash(i + ${salt}) % 1000) / 1000.0)::DOUBLE`;
const common = `'KX' || lpad((i % 500)::VARCHAR, 3, '0') AS symbol, (${day0} + i * ${spanMs} // ${millions * 1e6})::BIGINT AS t`;
const trade = `round(${draw(1)}, 2) AS price, (1 + hash(i) % 5000)::DOUBLE AS size,
  CASE hash(i + 3) % 3 WHEN 0 THEN 'buy' WHEN 1 THEN 'sell' END AS aggressor`;
/** The columns of each input. */
const inputs: Readonly<Record<string, { readonly dataset: string; readonly columns: number; readonly sql: string }>> = {
  ticks: { dataset: 'ticks', columns: 3, sql: `${common}, ${draw(1)} AS p` },
  quotes: {
    dataset: 'quotes',
    columns: 6,
    sql: `${common}, round(${draw(1)}, 2) AS bid, round(${draw(1)}, 2) + 0.01 AS ask,
      (1 + hash(i) % 5000)::DOUBLE AS bid_size, (1 + hash(i + 2) % 5000)::DOUBLE AS ask_size`,
  },
  trades: {
    dataset: 'trades',
    columns: 6,
    sql: `${common}, md5(i::VARCHAR)[1:8] || '-' || i AS trade_id, ${trade}`,
  },
  unnamed: { dataset: 'trades', columns: 5, sql: `${common}, ${trade}` },
};

async function writeRows(path: string, sql: string): Promise<void> {
  const instance = await DuckDBInstance.create(':memory:', { threads: '2' });
  const connection = await instance.connect();
  await connection.run(`COPY (SELECT ${sql} FROM range(${millions * 1e6}) r(i)) TO '${path}' (FORMAT parquet)`);
  connection.closeSync();
  instance.closeSync();
}

const folder = mkdtempSync(join(tmpdir(), 'oddslake-import-series-'));
const accounting = findAccounting();
const results = new Map<string, Measured>();
console.log(`${millions} M rows, 500 symbols, 2 days; measured with ${accounting.name}\n`);
console.log('input     columns   wall s   CPU s   peak MiB   file MB   ns of wall per row and column (of ticks)');
try {
  for (const name of names) {
    const input = inputs[name]!;
    const path = join(folder, `${name}.parquet`);
    const output = join(folder, 'lake');
    await writeRows(path, input.sql);
    const argv = [launcher, 'import', path, '--dataset', input.dataset, '--output', output, '--quiet'] as const;
    const command = { argv: [...argv, '--set', 'source.name=bench'] as const, cwd: folder, env: process.env };
    const measured = await measure(command, accounting);
    results.set(name, measured);
    const perCell = (measured.wallMs * 1e6) / (millions * 1e6 * input.columns);
    const ticks = results.get('ticks');
    const ofTicks = ticks === undefined ? null : (ticks.wallMs * 1e6) / (millions * 1e6 * inputs.ticks!.columns);
    console.log(
      [
        name.padEnd(10),
        String(input.columns).padStart(6),
        (measured.wallMs / 1000).toFixed(1).padStart(9),
        measured.cpuMs === null ? '?' : (measured.cpuMs / 1000).toFixed(1).padStart(8),
        measured.peakMiB === null ? '?' : measured.peakMiB.toFixed(0).padStart(11),
        (statSync(path).size / 1e6).toFixed(0).padStart(10),
        `   ${perCell.toFixed(0)}${ofTicks === null ? '' : ` (${(perCell / ofTicks).toFixed(2)} ×)`}`,
      ].join(''),
    );
    rmSync(output, { recursive: true });
    rmSync(path);
  }
} catch (error) {
  if (error instanceof CommandFailed) console.error(error.message, error.output);
  throw error;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
