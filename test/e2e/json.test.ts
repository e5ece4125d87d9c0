import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createProgram } from '../../src/cli/main.ts';
import type { JobLoaders } from '../../src/collector/job.ts';
import { access, dayMs, expectDone, fixedDay, fixedNow, folder, jobArgs, sandbox, startLongRunning } from './lake.ts';
import { run, runJob } from './run-program.ts';

// With --json, the last line of every command is one JSON object, whatever the outcome.

const jobs = new Proxy({}, { get: () => () => Promise.reject(new Error('nothing is run here')) }) as JobLoaders;
const names = (await createProgram('0', jobs, () => {})).commands.flatMap((command) => [
  // A command with subcommands may also have its own action.
  ...(command.commands.length === 0 || ['gaps', 'symbols', 'sandbox'].includes(command.name())
    ? [[command.name()]]
    : []),
  ...command.commands.map((each) => [command.name(), each.name()]),
]);
const jobNames = ['nightly', 'markets', 'ticks', 'orderbook', 'backfill', 'import', 'publish'];

const linesOf = (text: string): string[] => text.trimEnd().split('\n');
const parsed = (stdout: string): Record<string, unknown>[] => linesOf(stdout).map((line) => JSON.parse(line));

/** Runs a few at a time. */
async function forAll<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  await Promise.all(
    [1, 2, 3].map(async () => {
      for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
    }),
  );
}

test('an unknown flag of any command prints one JSON object with exit code 2', async () => {
  await forAll(names, async (name) => {
    const { code, stdout, stderr } = await run([...name, '--json', '--jsno']);
    expect(code, name.join(' ')).toBe(2);
    const [printed, ...more] = parsed(stdout);
    expect(more, name.join(' ')).toEqual([]);
    expect(printed, name.join(' ')).toMatchObject({ error: expect.any(String), exit_code: 2 });
    expect('outcome' in printed!).toBe([...jobNames, 'verify'].includes(name[0]!));
    // A missing flag is reported first.
    expect(stderr).toMatch(
      /^oddslake: unknown option '--jsno'\n\(Did you mean --json\?\)\n|^oddslake: (required|missing)/,
    );
  });
});

test('an unknown command prints JSON only with --json', async () => {
  const unknown = await run(['nigthly', '--json']);
  expect(parsed(unknown.stdout)).toEqual([
    { error: "unknown command 'nigthly' (Did you mean nightly?)", exit_code: 2 },
  ]);
  const plain = await run(['status', '--output', join(folder(), 'none')]);
  expect(plain).toMatchObject({ code: 2, stdout: '' });
});

describe('on an archive', () => {
  test('every command prints one JSON object without colours', async () => {
    const box = await sandbox({ nowMs: fixedNow, markets: 4, ticksPerDay: 50 });
    const cwd = folder();
    const lake = join(cwd, 'lake');
    await expectDone(runJob('nightly', box.url, lake, '--date', fixedDay));
    const rows = join(cwd, 'rows.csv');
    writeFileSync(rows, `symbol,t,p\nX,${fixedNow - dayMs},0.5\n`);
    const at = (name: string, ...rest: string[]): string[] => jobArgs(name, lake, ...rest);
    const read = (...args: string[]): string[] => [...args, '--output', lake, '--json'];
    const span = ['--from', '2025-06-14', '--to', '2025-06-15'];
    const backtest = ['buy_and_hold', ...span];
    const idOf = async (args: readonly string[]): Promise<string> => {
      const { stdout } = await expectDone(run(args));
      return JSON.parse(stdout).id;
    };
    const [key, rotated, kept] = await Promise.all([
      idOf(read('keys', 'create', '--name', 'a')),
      idOf(read('keys', 'create', '--name', 'c')),
      idOf(read('backtest', 'run', ...backtest, '--save')),
    ]);
    type Calls = readonly (readonly string[])[];
    // Sequentially, because they write one archive.
    const writing: Calls = [
      at('nightly', '--date', fixedDay),
      ...['markets', 'ticks', 'orderbook', 'publish'].map((name) => at(name)),
      at('backfill', ...span),
      at('import', rows),
      read('gaps', 'accept', 'X', '--from', '2025-06-01', '--to', '2025-06-16', '--reason', 'of a file'),
      read('gaps', 'revoke', 'X'),
      [...read('symbols', 'retry'), '--set', 'source.name=box'],
      read('symbols', 'forget', 'X'),
      read('symbols', 'watch', 'X'),
    ];
    const others: Calls = [
      [...read('doctor', '--offline'), '--set', 'source.name=box'],
      read('completion', 'bash'),
      read('config', 'show'),
      read('config', 'check'),
      read('report'),
      read('status'),
      read('gaps'),
      read('symbols'),
      read('changes', '--since', '0'),
      read('verify'),
      read('snapshot', join(cwd, 'copy')),
      read('export', '--out', join(cwd, 'ticks.csv')),
      read('sql', 'select 1 as one'),
      read('keys', 'create', '--name', 'b'),
      read('keys', 'list'),
      read('keys', 'revoke', key),
      read('keys', 'rotate', rotated),
      read('keys', 'usage'),
      read('tokens', 'list'),
      read('tokens', 'revoke', '--user', 'a'),
      [...read('tokens', 'issue', '--user', 'a'), '--set', `service.tokens.secret=${'x'.repeat(40)}`],
      read('backtest', 'run', ...backtest),
      read('backtest', 'list'),
      read('backtest', 'show', kept),
      ['init', join(cwd, 'lake.yaml'), '--output', join(cwd, 'fresh'), '--json'],
      ['demo', '--json', '--output', join(cwd, 'demo')],
    ];
    const longestFirst = names.toSorted((a, b) => b.length - a.length);
    const nameOf = (call: readonly string[]) => longestFirst.find((name) => name.every((word, i) => call[i] === word))!;
    const done = new Set([...writing, ...others].map((call) => nameOf(call).join(' ')));
    // These need a bucket: bucket.test.ts.
    const standing = ['serve', 'sandbox', 'schedule', 'push', 'pull', 'tail'];
    expect([...done, ...standing].sort()).toEqual(names.map((name) => name.join(' ')).sort());
    const tried = async (call: readonly string[]): Promise<void> => {
      const { stdout } = await expectDone(run(call, { ...access(box.url), FORCE_COLOR: '1' }));
      // Rows are an array with one row per line.
      const documents = call[0] === 'sql' ? [JSON.parse(stdout)] : parsed(stdout);
      expect(documents, call.join(' ')).toHaveLength(1);
      expect(stdout).not.toContain('\u001b');
      if (jobNames.includes(call[0]!)) expect(documents[0]).toMatchObject({ outcome: 'done', exit_code: 0 });
    };
    for (const call of writing) await tried(call);
    await forAll(others, tried);
  });

  test('a plan and a repair report are separate lines before the summary', async () => {
    const box = await sandbox({ nowMs: fixedNow, markets: 4, ticksPerDay: 50 });
    const lake = join(folder(), 'lake');
    await runJob('nightly', box.url, lake);
    const plan = await runJob('backfill', box.url, lake, '--from', '2025-05-01', '--to', '2025-05-02', '--dry-run');
    expect(parsed(plan.stdout)).toEqual([{ plan: expect.anything() }, expect.objectContaining({ job: 'backfill' })]);
    const mended = await runJob('verify', box.url, lake, '--repair');
    expect(parsed(mended.stdout)).toEqual([
      { repaired: expect.anything() },
      expect.objectContaining({ job: 'repair' }),
    ]);
  });

  test('long-running commands print their address in one line', async () => {
    const lake = join(folder(), 'lake');
    const box = await sandbox({ nowMs: fixedNow, markets: 4, ticksPerDay: 50 });
    await runJob('nightly', box.url, lake);
    const served = await startLongRunning(['serve', '--output', lake, '--set', 'service.port=0', '--json']);
    expect(parsed(served.first)).toEqual([{ url: expect.any(String), docs: expect.any(String), archive: lake }]);
  });

  test('an archive error is one JSON object', async () => {
    const none = join(folder(), 'none');
    for (const args of [
      ['status'],
      ['sql', 'select 1'],
      ['keys', 'list'],
      ['export', '--out', 'x.csv'],
      ['schedule'],
    ]) {
      const { code, stdout } = await run([...args, '--output', none, '--json']);
      expect(parsed(stdout), args.join(' ')).toEqual([{ error: expect.any(String), exit_code: code }]);
    }
  });
});

test('an unexpected error is one sentence, with a stack only at log level debug', async () => {
  const there = folder();
  writeFileSync(join(there, 'file'), '');
  const args = ['nightly', '--output', join(there, 'file', 'lake')];
  const brief = await run(args, access('http://127.0.0.1:9'));
  expect(brief.code).toBe(1);
  expect(brief.stderr).toMatch(/^oddslake: Could not mkdir .*: a part of the path is a file.*\(ENOTDIR\)\n$/);
  const full = await run([...args, '--log-level', 'debug'], access('http://127.0.0.1:9'));
  expect(full.stderr).toMatch(/ENOTDIR.*at /s);
});
