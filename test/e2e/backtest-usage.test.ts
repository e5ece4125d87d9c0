import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { backtestLake } from './backtest-lake.ts';
import { type Ended, folder } from './lake.ts';
import { run } from './run-program.ts';

const backtest = (lake: string, ...args: string[]): Promise<Ended> => run(['backtest', ...args, '--output', lake]);

describe('bad usage of backtest exits 2 and names the fault', () => {
  test.each<[string, string[], RegExp]>([
    [
      'an unknown name',
      ['run', 'nope'],
      /nope is neither a saved strategy of this user nor one of buy_and_hold, threshold/,
    ],
    [
      'an unknown parameter',
      ['run', 'threshold', '--param', 'buy=1'],
      /--param buy: the strategy has only .*buy_below/,
    ],
    ['an unknown parameter of a grid', ['run', 'threshold', '--grid', 'buy=1,2'], /--grid buy: the strategy has only/],
    ['a parameter without a value', ['run', 'threshold', '--param', 'buy_below'], /--param .* Expected name=value/],
    ['a parameter that is no number', ['run', 'threshold', '--param', 'buy_below=x'], /Expected a number, not "x"/],
    ['a window that is no time', ['run', 'momentum', '--param', 'window_ms=6'.concat('x')], /a duration such as 90s/],
    [
      'a window of nothing',
      ['run', 'momentum', '--param', 'window_ms=0'],
      /--param window_ms: is 0, which is invalid for .*window_ms: it must be from 1 to/,
    ],
    [
      'a parameter in the grid, too',
      ['run', 'threshold', '--param', 'buy_below=1', '--grid', 'buy_below=1,2'],
      /buy_below: is also in the grid/,
    ],
    [
      'a parameter twice',
      ['run', 'threshold', '--param', 'buy_below=1', '--param', 'buy_below=2'],
      /--param buy_below is given twice/,
    ],
    ['a share of everything', ['run', 'threshold', '--grid', 'buy_below=0', '--held-out', '1'], /--held-out: must be/],
    ['a share without a grid', ['run', 'threshold', '--held-out', '0.5'], /--held-out requires --grid/],
    ['an objective that is none', ['run', 'threshold', '--objective', 'luck'], /--objective.*avg_pnl/],
    [
      'a symbol that is not known',
      ['run', 'threshold', '--symbol', 'NOBODY'],
      /--symbol: includes symbols unknown to the archive: NOBODY/,
    ],
    [
      'a window of no time',
      ['run', 'threshold', '--from', '2026-01-02', '--to', '2026-01-01'],
      /--from must be before/,
    ],
    ['a window without a tick', ['run', 'threshold', '--from', '2030-01-01'], /--from: leaves no tick/],
    [
      'a category that nobody has',
      ['run', 'threshold', '--category', 'none', '--from', '2026-06-01', '--to', '2026-06-02'],
      /--category, --source: matches no symbol with ticks/,
    ],
    ['a file that is not there', ['run', 'none.json'], /none\.json cannot be read/],
    ['a page in the archive', ['run', 'threshold', '--out', '{}/page.html'], /is inside the archive/],
    ['a page below a file', ['run', 'threshold', '--out', '/dev/null/page.html'], /\/dev\/null is not a folder/],
    ['a user without a name', ['run', 'threshold', '--save', '--user', ''], /--user must not be empty/],
    [
      'an id that is none',
      ['show', 'x'],
      /This archive has no saved backtest x\. Run \S*oddslake backtest list --output /,
    ],
    ['no command', [], /Usage: oddslake backtest/],
  ])('%s', async (_, args, sentence) => {
    const lake = await backtestLake();
    const filled = args.map((arg) => arg.replace('{}', lake));
    const { code, stdout, stderr } = args.length === 0 ? await run(['backtest']) : await backtest(lake, ...filled);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(sentence);
    expect(stderr).not.toMatch(/\n\s+at /);
  });

  test('a missing archive', async () => {
    const none = join(folder(), 'none');
    expect(await backtest(none, 'run', 'threshold')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/no archive/),
    });
    mkdirSync(none);
    expect((await backtest(none, 'list')).code).toBe(2);
  });
});
