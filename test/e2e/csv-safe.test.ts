import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { answer, append, day0, opened, publishNow } from '../archive/scratch.ts';
import { expectDone, folder } from './lake.ts';
import { run } from './run-program.ts';

const symbols = ['=HYPERLINK("http://a.example","b")', '-1+2', '@SUM(A1)'];
const safe = ['"\'=HYPERLINK(""http://a.example"",""b"")"', "'-1+2", "'@SUM(A1)"];

async function published(): Promise<string> {
  const root = join(folder(), 'lake');
  const archive = opened({ root });
  append(archive, ...symbols.map((symbol) => answer(symbol, [[day0, -0.25]])));
  await publishNow(archive);
  return root;
}

test('export and sql write CSV for spreadsheets with --csv-safe, and no other format', async () => {
  const output = await published();
  const file = join(folder(), 'ticks.csv');
  const t = new Date(day0).toISOString();
  const rows = [...safe].sort().map((symbol) => `${symbol},${t},-0.25`);
  await expectDone(run(['export', '--output', output, '--out', file, '--csv-safe']));
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  expect([lines[0], lines.slice(1).sort()]).toEqual(['symbol,t,p', rows.sort()]);
  const sql = ['sql', '--output', output, 'SELECT symbol, t, p FROM ticks', '--csv-safe'];
  const { stdout } = await expectDone(run([...sql, '--format', 'csv']));
  expect(stdout.trimEnd().split('\n').slice(1).sort()).toEqual(rows);
  for (const refused of [
    ['export', '--output', output, '--out', join(folder(), 'ticks.parquet'), '--csv-safe'],
    sql,
    [...sql, '--format', 'json'],
    [...sql, '--format', 'csv', '--json'],
  ]) {
    const ended = await run(refused);
    expect([ended.code, ended.stderr], refused.join(' ')).toEqual([
      2,
      expect.stringMatching(/--csv-safe requires the format csv, not (parquet|table|json)\./),
    ]);
  }
});
