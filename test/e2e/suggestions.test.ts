import { join } from 'node:path';
import { expect, test } from 'vitest';
import { access, expectDone, folder, jobArgs, sandbox } from './lake.ts';
import { run } from './run-program.ts';

test('unknown names of every kind get the name that was probably meant', async () => {
  const lake = join(folder(), 'lake');
  const box = await sandbox({ markets: 4, ticksPerDay: 20 });
  await expectDone(run(jobArgs('nightly', lake), access(box.url)));
  const listed = await run(['symbols', '--output', lake, '--json']);
  const { symbols } = JSON.parse(listed.stdout) as { symbols: { symbol: string; ticks: number }[] };
  // Backtests know symbols with ticks only, and the first market may have opened a minute ago.
  const { symbol } = symbols.find(({ ticks }) => ticks > 0)!;
  const typo = `${symbol.slice(0, -2)}${symbol.at(-1)}${symbol.at(-2)}`;
  const window = ['--from', '2025-06-14', '--to', '2025-06-15'];
  const calls: [string[], string][] = [
    [['statsu'], 'Did you mean status?'],
    [['keys', 'crate'], 'Did you mean create?'],
    [['gaps', 'acept'], 'Did you mean accept?'],
    [['status', '--outptu', lake], 'Did you mean --output?'],
    [['status', '--log-level', 'wran'], 'Did you mean warn?'],
    [['sql', '--format', 'tabel', 'select 1'], 'Did you mean table?'],
    [['gaps', '--output', lake, '--dataset', 'tikcs'], 'Did you mean ticks?'],
    [['export', '--output', lake, '--out', join(lake, 'x.csv'), '--dataset', 'tikcs'], 'Did you mean ticks?'],
    [['keys', 'create', '--output', lake, '--name', 'a', '--dataset', 'qoutes'], 'Did you mean quotes?'],
    [['backtest', 'run', 'buy_and_hodl', '--output', lake, ...window], 'Did you mean buy_and_hold?'],
    [['backtest', 'run', 'buy_and_hold', '--output', lake, '--symbol', typo, ...window], `Did you mean ${symbol}?`],
    [['gaps', '--output', lake, '--symbol', typo], `Did you mean ${symbol}?`],
    [['export', '--output', lake, '--out', 'x.csv', '--symbol', symbol.toLowerCase()], `Did you mean ${symbol}?`],
    [['gaps', 'accept', '--output', lake, typo, ...window, '--reason', 'x'], `Did you mean ${symbol}?`],
    [['status', '--output', lake, '--set', 'poll.pagelimit=3'], 'did you mean poll.page_limit?'],
  ];
  for (const [args, advice] of calls) {
    const ended = await run(args);
    expect(ended.code, args.join(' ')).toBe(2);
    expect(ended.stderr, args.join(' ')).toContain(advice);
  }
  const strange = await run(['gaps', '--output', lake, '--symbol', '<script>alert(1)</script>']);
  expect(strange.stderr).not.toContain('Did you mean');
  const json = await run(['gaps', '--dataset', 'tikcs', '--json']);
  expect(JSON.parse(json.stdout).error).toContain('(Did you mean ticks?)');
});

test('flags that other programs have get what this one uses in place of them', async () => {
  const calls: [command: string, advice: string][] = [
    ['serve --bind 0.0.0.0', '(Did you mean --host?)'],
    ['serve -p 80', '(Did you mean --port?)'],
    ['schedule --port 80', '--set schedule.port=8081'],
    ['nightly --key abc', 'ODDSLAKE_API_KEY_FILE'],
    ['nightly --url http://x', '--set upstream.base_url=URL'],
    ['nightly --rate 5', '--set upstream.requests_per_second=5'],
    ['nightly --from 2026-01-01', 'oddslake backfill --since 7d)'],
    ['nightly --days 7', 'oddslake backfill --since 7d)'],
    ['nightly --out lake', '(Did you mean --output?)'],
    ['nightly --help-all', '(Did you mean --help?)'],
    ['backfill --days 7', '(Did you mean --since?)'],
    ['sql --csv x', '(Did you mean --format csv?)'],
    ['status --format json', '(Did you mean --json?)'],
    ['keys list --api-key-file x', '(--api-key-file is a flag of oddslake init)'],
    ['-h', '(Did you mean --help?)'],
    // What is known to be meant replaces what is merely spelled alike; nothing else is made up.
    ['status --outptu x', '(Did you mean --output?)'],
    ['status --zzz', "unknown option '--zzz'\n"],
  ];
  for (const [command, advice] of calls) {
    const { code, stderr } = await run(command.split(' '));
    expect(code, command).toBe(2);
    expect(stderr.replaceAll(/\S*bin\/oddslake/g, 'oddslake'), command).toContain(advice);
    expect(stderr.match(/\n\(/g) ?? [], command).toHaveLength(advice.startsWith('unknown') ? 0 : 1);
  }
  const { stdout } = await run(['schedule', '--port', '80', '--json']);
  expect(JSON.parse(stdout).error).toBe("unknown option '--port' (Set the health port by --set schedule.port=8081)");
});

test('a misspelled variable is a warning, and has no effect', async () => {
  const { code, stderr } = await run(['sql', 'select 1', '--output', folder()], { ODDSLAKE_OUTPT: 'x' });
  expect(code).toBe(2);
  expect(stderr).toContain(
    'ODDSLAKE_OUTPT is not a variable of oddslake and has no effect: did you mean ODDSLAKE_OUTPUT?',
  );
});
