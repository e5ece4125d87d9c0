import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { limitMs, waitFor } from '../harness/limits.ts';
import {
  access,
  coverageOf,
  expectDone,
  fastFlags,
  folder,
  journaledTicks,
  manifestOf,
  minuteMs,
  sandbox,
  start,
  ticksOf,
  totalTicks,
} from './lake.ts';
import { run, runJob } from './run-program.ts';

const now = Date.now() - minuteMs;

test('demo fills output/demo from a sandbox and prints how to load it', async () => {
  const cwd = folder();
  // Settings of the real service do not apply to the sandbox.
  const ended = await expectDone(run(['demo'], access('http://127.0.0.1:9'), cwd));
  const output = join(cwd, 'output/demo');
  expect(totalTicks(output)).toBeGreaterThan(10_000);
  expect(manifestOf(output).upstream).toBe('oddslake sandbox');
  for (const line of ['import duckdb', 'import polars', 'import pandas', 'sql --output', join(output, 'report.html')])
    expect(ended.stdout).toContain(line);
  expect(ended.stdout).toContain(`${totalTicks(output).toLocaleString('en-US')} ticks`);
});

test('sandbox prints its address, responds, and exits 0 when stopped', async () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const { child, ended } = start(['sandbox', '--json', '--key', 'abc', '--seed', '3']);
    const line = await new Promise<string>((resolve) => child.stdout!.once('data', resolve));
    const { url, key } = JSON.parse(line) as { url: string; key: string };
    const requested = (bearer: string) =>
      fetch(`${url}/api/v1/markets`, { headers: { authorization: `Bearer ${bearer}` } });
    expect((await requested(key)).status).toBe(200);
    expect((await requested('other')).status).toBe(401);
    child.kill(signal);
    await expectDone(ended);
  }
});

test('markets polls only the lists; ticks then polls their live symbols', async () => {
  const box = await sandbox({ nowMs: now, markets: 5 });
  const output = folder();
  await expectDone(runJob('markets', box.url, output));
  expect(box.stats().tickRequests).toBe(0);
  expect(manifestOf(output).datasets.markets.files).toHaveLength(1);
  const requested = box.stats().requests;
  await expectDone(runJob('ticks', box.url, output));
  expect(box.stats().requests - requested).toBe(box.stats().tickRequests);
  expect(ticksOf(output).size).toBeGreaterThan(0);
});

test('ticks --symbol polls only that symbol', async () => {
  const box = await sandbox({ nowMs: now, markets: 5 });
  const output = folder();
  await runJob('markets', box.url, output);
  const symbols = Object.keys(box.stats().bySymbol);
  expect(symbols).toEqual([]);
  await runJob('ticks', box.url, output);
  const [one, two] = [...ticksOf(output).keys()];
  const other = folder();
  await expectDone(runJob('ticks', box.url, other, '--symbol', one!, '--symbol', two!));
  expect([...ticksOf(other).keys()].sort()).toEqual([one, two].sort());
});

test('backfill --symbol and --symbols-file fetch only those symbols', async () => {
  const box = await sandbox({ nowMs: now, markets: 6 });
  const all = folder();
  await runJob('ticks', box.url, all);
  const symbols = [...ticksOf(all).keys()];
  const file = join(folder(), 'symbols.txt');
  writeFileSync(file, `${symbols[0]}\r\n\n${symbols[1]}\n`);
  const output = folder();
  const window = ['--from', `${now - 120 * minuteMs}`, '--to', `${now - 60 * minuteMs}`];
  await expectDone(runJob('backfill', box.url, output, ...window, '--symbols-file', file, '--symbol', symbols[2]!));
  expect(new Set(coverageOf(output).map(({ symbol }) => symbol))).toEqual(new Set(symbols.slice(0, 3)));
  for (const row of coverageOf(output)) expect(row).toMatchObject({ origin: 'backfill' });
});

test('publish merges the journal of an earlier run', async () => {
  const box = await sandbox({ nowMs: now, markets: 6, latencyMs: 15 });
  const output = folder();
  await runJob('markets', box.url, output);
  const { child, ended } = start(
    ['nightly', '--output', output, '--set', 'source.name=box', ...fastFlags, '--set', 'poll.page_limit=100'],
    access(box.url),
  );
  await waitFor(() => box.stats().tickRequests >= 20, 'twenty requests for ticks');
  // Later requests get no response: only the signal can end the run.
  box.set({ latencyMs: limitMs });
  await waitFor(() => journaledTicks(output) > 0, 'ticks in the journal');
  child.kill('SIGTERM');
  expect((await ended).code).toBe(143);
  expect(totalTicks(output)).toBe(0);
  const published = await expectDone(run(['publish', '--output', output, '--json']));
  expect(published.summary).toMatchObject({ recovered: 0, published: { added: totalTicks(output), lost: 0 } });
  expect(totalTicks(output)).toBeGreaterThan(0);
});

test('--quiet prints only the result, --config names the settings, --no-progress keeps log lines', async () => {
  const box = await sandbox({ nowMs: now, markets: 3 });
  const home = folder();
  const config = join(home, 'mine.yaml');
  writeFileSync(config, `upstream: { base_url: "${box.url}", requests_per_second: 1000 }\narchive: { output: lake }\n`);
  const key = { ODDSLAKE_API_KEY: 'sandbox-key' };
  const loud = await expectDone(run(['nightly', '--config', config, '--no-progress'], key));
  expect(loud.stderr).toContain('published');
  expect(existsSync(join(home, 'lake/manifest.json'))).toBe(true);
  const quiet = await expectDone(run(['nightly', '--config', config, '--quiet'], key));
  expect(quiet.stderr).toBe('');
  expect(quiet.stdout).not.toBe('');
});

test('--log-level is the minimum level of log lines', async () => {
  const box = await sandbox({ nowMs: now, markets: 3 });
  const info = await runJob('markets', box.url, folder());
  expect(info.stderr).toContain('"level":"info"');
  for (const flags of [
    ['--log-level', 'silent'],
    ['--set', 'log.level=error'],
  ]) {
    const { code, stderr } = await runJob('markets', box.url, folder(), ...flags);
    expect([code, stderr]).toEqual([0, '']);
  }
});

test('--help works before and after a command, --version prints a version', async () => {
  const help = await expectDone(run(['--help']));
  expect(help.stdout).toMatch(/Examples:[\s\S]*Exit codes: 0 done/);
  const nightly = await expectDone(run(['nightly', '--help']));
  expect(nightly.stdout).toContain('--date');
  // The examples can be pasted: they call the program as this test does.
  for (const { stdout } of [help, nightly]) {
    const examples = stdout.slice(stdout.indexOf('Examples:'));
    expect(examples.match(/\S*oddslake nightly/g)).toEqual(
      expect.arrayContaining([expect.stringMatching(/bin\/oddslake nightly$/)]),
    );
    expect(examples).not.toMatch(/(?<!\/)oddslake (?:nightly|backfill|sql|demo)/);
  }
  expect((await run(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});
