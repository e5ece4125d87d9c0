import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { tryLock } from '../../src/archive/journal/lock.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { put } from './import-lake.ts';
import { access, type Ended, expectDone, fixedDay, fixedNow, folder, sandbox, set, totalTicks } from './lake.ts';
import { run } from './run-program.ts';

// The printed command works as printed, with config, output and settings of the run.

/** Runs the printed command with a shell. */
async function runNext({ stdout }: Ended, box: Sandbox): Promise<Ended> {
  const [, command] = /^next: \S+ (.*)$/m.exec(stdout) ?? [];
  if (command === undefined) throw new Error(`no command in ${stdout}`);
  const words = execFileSync('sh', ['-c', `printf '%s\\0' ${command}`])
    .toString()
    .split('\0')
    .slice(0, -1);
  return await run([...words, '--json'], access(box.url));
}

const settings = [...set('source.name=box', 'source.field_paths.question=["title","the question"]')];

test('the printed command fetches the missing windows with the same settings', async () => {
  const output = join(folder(), "an archive's place");
  const box = await sandbox({ nowMs: fixedNow, markets: 4 });
  const few = [...settings, '--set', 'upstream.retry_attempts_max=1', '--symbol'];
  await run(['markets', '--output', output, ...settings], access(box.url));
  const ended = await run(['ticks', '--output', output, ...few, 'NO SUCH "market"'], access(box.url));
  expect(ended.code).toBe(4);
  const next = await runNext(ended, box);
  // The symbol is still unknown to the service: the command was valid and sent a request.
  expect(next.code, next.stderr).toBe(4);
  expect(next.summary.failures[0]).toMatchObject({ symbol: 'NO SUCH "market"' });
});

test('the printed command publishes the journal', async () => {
  const output = folder();
  const box = await sandbox({ nowMs: fixedNow, markets: 4 });
  await run(['markets', '--output', output, ...settings], access(box.url));
  const lock = tryLock(join(output, '.oddslake', 'lock.sqlite'))!;
  const args = ['ticks', '--output', output, ...settings, '--wait', '0'];
  const busy = await run(args, access(box.url));
  lock.release();
  expect(busy.code).toBe(5);
  const next = await expectDone(runNext(busy, box));
  expect(totalTicks(output)).toBe(next.summary.published.added);
});

test('the printed command repeats a run after an unreachable service, without secrets', async () => {
  const output = folder();
  const box = await sandbox({ nowMs: fixedNow, markets: 4 });
  const args = [
    'nightly',
    '--date',
    fixedDay,
    '--output',
    output,
    ...settings,
    '--set',
    'upstream.retry_attempts_max=1',
  ];
  // The last one counts; the other is a secret all the same.
  const away = ['--set', 'upstream.api_key=overridden', '--set=upstream.api_key=very-secret'];
  const ended = await run([...args, ...away], { ODDSLAKE_BASE_URL: 'http://127.0.0.1:9' });
  expect(ended.code).toBe(7);
  expect(ended.stdout).not.toMatch(/very-secret|overridden|api_key/);
  const next = await expectDone(runNext(ended, box));
  expect(next.summary.job).toBe('nightly');
});

test('the printed command imports a file with rejected rows', async () => {
  const output = folder();
  const box = await sandbox({ nowMs: fixedNow, markets: 1 });
  const path = put(folder(), "it's.csv", 'symbol,t,p\nA,2025-06-11T00:00:00.000123Z,0.5\n');
  const ended = await run(['import', path, '--output', output, ...settings]);
  expect(ended.code, ended.stderr).toBe(4);
  const next = await expectDone(runNext(ended, box));
  expect(next.summary.ticks.accepted).toBe(1);
});

test('polls of lists and order books print their counts', async () => {
  const output = folder();
  const box = await sandbox({ nowMs: fixedNow, markets: 4 });
  const markets = await run(['markets', '--output', output, '--set', 'source.name=box'], access(box.url));
  expect(markets.stdout).toMatch(/^ {2}markets +\d+ listed$/m);
  expect(markets.stdout).not.toMatch(/^ {2}ticks/m);
  const books = await run(['orderbook', '--output', output, '--set', 'source.name=box'], access(box.url));
  expect(books.stdout).toMatch(/^ {2}books +/m);
  expect(books.stdout).not.toMatch(/^ {2}ticks/m);
});
