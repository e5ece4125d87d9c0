import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { expectDone, folder } from './lake.ts';
import { run } from './run-program.ts';

// Simulated recordings, written by the sandbox.

const flags = ['--seed', '7', '--now', '2025-06-05', '--market-count', '3', '--ticks-per-day', '300'];
const window = ['--from', '2025-06-01', '--to', '2025-06-03'];

interface Result {
  readonly files: readonly { readonly path: string; readonly rows: number }[];
}

async function write(to: string, ...more: string[]): Promise<Result['files']> {
  const { stdout } = await expectDone(run(['sandbox', 'files', to, ...flags, ...window, '--json', ...more]));
  return (JSON.parse(stdout) as Result).files;
}

test('writes files that import reads without further flags', async () => {
  const place = folder();
  const files = await write(join(place, 'a'));
  expect(files.map(({ path }) => path)).toEqual(
    ['ticks', 'quotes', 'trades'].map((name) => join(place, 'a', `${name}.csv`)),
  );
  expect(files.every(({ rows }) => rows > 500)).toBe(true);
  await write(join(place, 'b'));
  await write(join(place, 'other'), '--seed', '8');
  for (const { path } of files) {
    const [same, other] = ['b', 'other'].map((name) => readFileSync(path.replace('/a/', `/${name}/`), 'utf8'));
    expect(readFileSync(path, 'utf8')).toBe(same);
    expect(other).not.toBe(same);
  }
  const output = join(place, 'lake');
  const covers = ['--covers', '2025-06-01..2025-06-03'];
  await expectDone(run(['import', join(place, 'a'), ...covers, '--output', output, '--set', 'source.name=box']));
  const sql = `SELECT (SELECT count(*) FROM ticks) AS ticks, (SELECT count(*) FROM quotes) AS quotes,
    (SELECT count(*) FROM trades) AS trades,
    (SELECT count(*) FROM trades JOIN ticks USING (symbol, t) WHERE price = p) AS at_ticks`;
  const { stdout } = await run(['sql', sql, '--format', 'json', '--output', output]);
  const [ticks, quotes, trades] = files.map(({ rows }) => rows);
  expect(JSON.parse(stdout)).toEqual([{ ticks, quotes, trades, at_ticks: trades }]);
});

test('writes only the datasets named, and refuses others', async () => {
  const place = folder();
  await write(place, '--dataset', 'trades');
  expect(existsSync(join(place, 'trades.csv'))).toBe(true);
  expect(existsSync(join(place, 'ticks.csv'))).toBe(false);
  const unknown = await run(['sandbox', 'files', place, ...window, '--dataset', 'trades,candles']);
  expect(unknown.code).toBe(2);
  expect(unknown.stderr).toContain('expected names of ticks, quotes, trades');
});

test('refuses a window without data, and a folder inside the archive', async () => {
  const place = folder();
  const file = join(place, 'notes.txt');
  writeFileSync(file, 'notes');
  const intoFile = await run(['sandbox', 'files', file, ...window]);
  expect([intoFile.code, intoFile.stderr]).toEqual([2, expect.stringContaining('notes.txt is a file, not a folder')]);
  const files = ['sandbox', 'files', join(place, 'lake', 'x')];
  const early = await run([...files, '--from', '2020-01-01', '--to', '2020-01-02']);
  expect([early.code, early.stderr]).toEqual([2, expect.stringContaining('The sandbox has data from 2025-01-01')]);
  const ahead = await run([...files, '--from', '2025-06-01', '--to', '2025-06-11', '--now', '2025-06-10']);
  expect([ahead.code, ahead.stderr]).toEqual([2, expect.stringContaining('to 2025-06-10T00:00:00Z: see --now')]);
  const half = await run([...files, '--from', '2025-06-01']);
  expect([half.code, half.stderr]).toEqual([2, expect.stringContaining('needs both --from and --to')]);
  const inside = await run([...files, ...window, ...flags, '--output', join(place, 'lake')]);
  expect([inside.code, inside.stderr]).toEqual([2, expect.stringContaining('is inside the archive')]);
});
