import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { backtestLake } from './backtest-lake.ts';
import { coverageOf, dayMs, expectDone, findWrongWindows, folder, sandbox } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

/** Before every tick of the archives here. */
const longAgo = '9000d';

describe('--since', () => {
  test('is a window that ends now, for gaps, exports and backtests', async () => {
    const lake = await backtestLake();
    const read = async (...args: string[]): Promise<string> => {
      const { stdout } = await expectDone(run([...args, '--output', lake]));
      return stdout;
    };
    const listStarts = (text: string) =>
      (JSON.parse(text) as { gaps: { symbol: string; from: number }[] }).gaps.map(({ symbol, from }) => [symbol, from]);
    const range = ['--from', '2005-01-01', '--to', 'now'];
    const gaps = listStarts(await read('gaps', '--json', '--since', longAgo));
    expect(gaps.length).toBeGreaterThan(0);
    expect(gaps).toEqual(listStarts(await read('gaps', '--json', ...range)));

    const out = folder();
    await read('export', '--out', join(out, 'all.csv'));
    const plain = readFileSync(join(out, 'all.csv'));
    expect(plain.length).toBeGreaterThan(100);
    // The folder is created, and the name tells the compression.
    await read('export', '--out', join(out, 'new/deep/since.csv.gz'), '--since', longAgo);
    expect(gunzipSync(readFileSync(join(out, 'new/deep/since.csv.gz')))).toEqual(plain);
    await read('export', '--out', join(out, 'since.csv.zst'), '--from', longAgo, '--to', 'today');
    expect(zstdDecompressSync(readFileSync(join(out, 'since.csv.zst')))).toEqual(plain);
    await read('export', '--out', join(out, 'none.csv'), '--since', '1s');
    expect(readFileSync(join(out, 'none.csv'), 'utf8')).toBe('symbol,t,p\n');

    const toResult = (text: string) => (JSON.parse(text) as { results: unknown }).results;
    const backtest = ['backtest', 'run', 'threshold', '--json'];
    expect(toResult(await read(...backtest, '--since', longAgo))).toEqual(toResult(await read(...backtest)));
  });

  test('is a window that ends now, for a backfill, which needs one', async () => {
    const box = await sandbox({ seed: 3, markets: 2, ticksPerDay: 40 });
    const output = join(folder(), 'lake');
    const filled = await expectDone(job('backfill', box.url, output, '--since', '3d'));
    // How many ticks there are depends on the time of day.
    expect(filled.summary.ticks.accepted).toBeGreaterThan(0);
    expect(findWrongWindows(output, box)).toEqual([]);
    const oldest = Math.min(...coverageOf(output).map(({ from }) => from));
    expect(Date.now() - oldest - 3 * dayMs).toBeGreaterThanOrEqual(0);
    expect(Date.now() - oldest - 3 * dayMs).toBeLessThan(dayMs / 24);
    for (const flags of [[], ['--from', 'yesterday'], ['--to', 'now']]) {
      const { code, stderr } = await job('backfill', box.url, output, ...flags);
      expect([code, stderr]).toEqual([2, expect.stringContaining('backfill needs both --from and --to, or --since.')]);
    }
  });
});
