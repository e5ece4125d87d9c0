import { execFile, spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { backtestLake } from '../e2e/backtest-lake.ts';
import { folder, startLongRunning } from '../e2e/lake.ts';
import { run } from '../e2e/run-program.ts';
import { findBlocks, readPage } from './blocks.ts';
import { project } from './kept-current.ts';

// The results of the commands of docs/BACKTESTS.md.

const text = readPage('docs/BACKTESTS.md');
const blocks = (language: string): string[] => findBlocks(text, language);
const noCurl = spawnSync('curl', ['--version']).status !== 0;
const secret = 'a secret of more than 32 characters, for tests';

test('the commands of docs/BACKTESTS.md do what the page says', async (context) => {
  const cwd = folder();
  await backtestLake(cwd);
  const [strategy, ...others] = blocks('json');
  expect([text.includes('`dip.json`:\n\n```json\n'), others]).toEqual([true, []]);
  writeFileSync(join(cwd, 'dip.json'), strategy!);
  const path = `${join(project, 'bin')}:${dirname(process.execPath)}:${process.env.PATH}`;
  const env: Record<string, string> = { PATH: path, HOME: cwd, LC_ALL: 'C.UTF-8' };
  const type = (code: string) => promisify(execFile)('sh', ['-euc', code], { cwd, env });
  const [first, own, fees, trades, grid, http, ...more] = blocks('sh');
  expect(more).toEqual([]);

  const { stdout: simple } = await type(first!);
  const [, noteLine] = /```text\n(.*\n)```/.exec(text)!;
  expect(simple.startsWith(noteLine!)).toBe(true);
  // The second run: RAIN bought at 0.4 and sold by its settlement, SNOW at 0.1.
  expect(simple.match(/^ {2}total_pnl {2}.*$/gm)).toEqual([
    '  total_pnl  +0.6500 dollars',
    '  total_pnl  +0.5000 dollars',
  ]);
  expect(existsSync(join(cwd, 'threshold.html'))).toBe(true);
  const { stdout: saved } = await type(own!);
  expect(saved).toMatch(/^ {2}strategy +dip\n {13}dip 0\.1\n/);
  expect(saved).toMatch(/^\w+ +done +dip +\S+ +total_pnl +\S+ +local/m);
  const { stdout: withFees } = await type(fees!);
  expect(withFees.match(/^ {2}costs .*$/gm)).toEqual([
    expect.stringContaining('kalshi fees, slippage 0.01, whole contracts; '),
    expect.stringContaining('polymarket fees, slippage 0; '),
  ]);
  await type(trades!);
  expect(existsSync(join(cwd, 'trades.parquet'))).toBe(true);
  const { stdout: gridOutput } = await type(grid!);
  expect(gridOutput).toContain('6 points\n');

  if (noCurl) return context.skip('the HTTP request of docs/BACKTESTS.md is not tested: curl is missing');
  const withSecret = { ODDSLAKE_TOKEN_SECRET: secret };
  const args = ['serve', '--output', join(cwd, 'lake'), '--set', 'service.port=0', '--json'];
  const { first: startLine } = await startLongRunning(args, withSecret);
  const issued = await run(['tokens', 'issue', '--user', 'local', '--scope', 'research'], withSecret);
  env.URL = (JSON.parse(startLine) as { url: string }).url;
  env.TOKEN = issued.stdout.trim();
  const { generated_at, ...response } = JSON.parse((await type(http!)).stdout);
  const cli = 'oddslake backtest run threshold --category weather --grid buy_below=0.25,0.35,0.45 --output lake --json';
  expect(generated_at).toBeGreaterThan(0);
  expect(response).toEqual(JSON.parse((await type(cli)).stdout));
  // The service lists what the command line saved for the same user.
  const listed = await type('curl -sf -H "Authorization: Bearer $TOKEN" "$URL/api/v1/backtest"');
  const { backtests } = JSON.parse(listed.stdout);
  expect(backtests).toMatchObject([{ state: 'done', request: { entry_executable: { name: 'dip' } } }]);
  const one = await type(`curl -sf -H "Authorization: Bearer $TOKEN" "$URL/api/v1/backtest/${backtests[0].id}"`);
  const shown = await type(`oddslake backtest show ${backtests[0].id} --output lake --json`);
  const { id, ...result } = JSON.parse(shown.stdout);
  expect(JSON.parse(one.stdout)).toMatchObject({ id, result });
});
