import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sharedCopy } from '../server/made-once.ts';
import { madeBacktestLake } from './backtest-lake.ts';
import {
  access,
  expectDone,
  expectSentence,
  fixedDay,
  fixedNow,
  folder,
  hashes,
  sandbox,
  type Variables,
} from './lake.ts';
import { runJob as job, run } from './run-program.ts';

// Commands as a person types them: DIR stands for an empty folder, LAKE for an archive.

const split = (line: string, names: Readonly<Record<string, string>>): string[] =>
  line.match(/'[^']*'|\S+/g)!.map((word) => word.replaceAll("'", '').replace(/DIR|LAKE/, (name) => names[name]!));

const nowhere = access('http://127.0.0.1:9');
type Case = [line: string, sentence: RegExp, env?: Variables];

describe('bad settings and bad usage exit 2 before any work', () => {
  test.each<Case>([
    ['nightly --output DIR', /ODDSLAKE_BASE_URL/],
    ['nightly --output DIR', /ODDSLAKE_API_KEY/, { ODDSLAKE_BASE_URL: 'http://127.0.0.1:9' }],
    ['nightly --output DIR --set poll.pagelimit=3', /poll\.pagelimit/],
    ['nightly --output DIR --set poll.page_limit=many', /poll\.page_limit.*many/s],
    ['nightly --output DIR --set poll.page_limit', /--set/],
    ['nightly --output DIR', /ODDSLAKE_REQUESTS_PER_SECOND/, { ODDSLAKE_REQUESTS_PER_SECOND: '0' }],
    ['nightly --config DIR/none.yaml', /none\.yaml/],
    ['nightly --output DIR --date 2025-02-30', /--date/],
    ['nightly --output DIR --date 2099-01-01', /future/, nowhere],
    ['backfill --output DIR --from 2025-01-02 --to 2025-01-02', /--from/, nowhere],
    ['backfill --output DIR --from 2025-01-02T00:00 --to 2025-01-03', /--from/, nowhere],
    ['nightly', /no archive/, nowhere],
    ['import --output DIR x.csv --tz Mars', /--tz "Mars"/],
    ['import --output DIR x.csv --covers 2025', /--covers/],
    ['import --output DIR DIR/x.csv', /x\.csv: no such file/],
    ['publish --output DIR/none', /no archive/],
  ])('%s: %s', async (line, sentence, env = {}) => {
    const DIR = folder();
    const ended = await run([...split(line, { DIR }), '--json'], env, DIR);
    expectSentence(ended, 2, sentence);
    expect(ended.summary).toMatchObject({ outcome: 'usage', run_id: null, requests: 0 });
    expect(readdirSync(DIR)).toEqual([]);
  });

  test.each<Case>([
    ['nightlyy', /unknown command 'nightlyy'/],
    ['import', /missing required argument 'archive\|file\|dir'/],
    ['--output x status', /^oddslake: --output must follow the command/],
    ['nightly --dat 2025-01-01', /^oddslake: unknown option '--dat'[\s\S]*oddslake nightly --help/],
    ['sql q.sql --output l', /"q\.sql" is the name of a file.*sql --output l "\$\(cat q\.sql\)"/],
    ['completion', /missing required argument 'shell': one of bash, zsh, fish\n/],
    ['backfill --from 2025-01-01', /--to/],
    ['nightly --wait long', /--wait/],
    ['status --output /nonexistent/x', /no archive/],
    ['status --output /nonexistent/x --max-lag long', /--max-lag/],
    ['symbols --rows 0', /--rows/],
    ['symbols --output /nonexistent/x', /no archive/],
    ['changes', /--since/],
    ['changes --since -1', /--since/],
    ["schedule --set 'schedule.ticks=61 * * * *'", /--set: schedule\.ticks is "61 \* \* \* \*"/],
    ["schedule --set 'schedule.nightly=0 0 31 2 *'", /schedule\.nightly.*never occurs/],
    ["schedule --set 'schedule.backfill=0 0 * * *'", /unknown setting schedule\.backfill/],
    ['schedule --set schedule.nightly=null', /Nothing is scheduled: .*schedule\.nightly/],
    ['schedule', /no archive/],
    ['verify --repair --output DIR/none', /There is no archive at /],
    ['verify --output DIR --from-url https://other.example', /--from-url needs --repair/],
    ['keys', /Usage: oddslake keys/],
    ['keys list --output /nonexistent/x', /no archive/],
    ['tokens issue --user a', /Set ODDSLAKE_TOKEN_SECRET/],
    ['tokens revoke a --issued-before 5', /--issued-before requires --user/],
    ['init', /--base-url/, {}],
    ['init --base-url example.org', /--base-url: upstream\.base_url is "example\.org"/],
    ['init --base-url https://example.org --rate fast', /--rate: .*"fast"/],
    ['init --base-url https://example.org --api-key-file none', /none: there is no such file/],
    ['init --base-url https://example.org --set upstream.api_key=hunter22', /not written into a config/],
    ['init --base-url https://example.org --set poll.pages=3', /poll\.pages/],
    ['init no/lake.yaml --base-url https://example.org', /folder of the config file does not exist/],
    ['backtest', /Usage: oddslake backtest/],
    ['backtest run threshold --output DIR/none', /no archive/],
    ['backtest list --output DIR', /no archive/],
  ])('%s: %s', async (line, sentence, env = nowhere) => {
    const DIR = folder();
    const { code, stderr } = await run(split(line, { DIR }), env, DIR);
    expect(code, stderr).toBe(2);
    expect(stderr).toMatch(sentence);
    expect(stderr).not.toMatch(/hunter22|\n\s+at /);
    expect(readdirSync(DIR)).toEqual([]);
  });

  test('an invalid cron expression names its file for any command', async () => {
    const config = join(folder(), 'lake.yaml');
    writeFileSync(config, 'schedule:\n  publish: every night\n');
    const ended = await run(['nightly', '--config', config, '--output', folder()], nowhere);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toMatch(/lake\.yaml:2: schedule\.publish is "every night": expected a cron expression/);
  });

  test("another upstream's archive", async () => {
    const output = folder();
    const box = await sandbox({ nowMs: fixedNow, markets: 6, ticksPerDay: 100 });
    await expectDone(job('nightly', box.url, output, '--date', fixedDay));
    const before = hashes(output, '.');
    const other = await job('nightly', box.url, output, '--date', fixedDay, '--set', 'source.name=other');
    expectSentence(other, 2, /belongs to the upstream box, not to other/);
    expect(hashes(output, '.')).toEqual(before);
  });
});

test.each(['nightly --dat 2025-01-01 --json', 'backfill --json --from 2025-01-01', 'ticks --json --wait long'])(
  'bad usage of a job is reported in JSON too: %s',
  async (line) => {
    const ended = await run(split(line, {}));
    expect(ended.code).toBe(2);
    expect(ended.summary).toMatchObject({ job: line.split(' ')[0], outcome: 'usage', exit_code: 2, run_id: null });
    expect(ended.stderr.replace('\n', ' ')).toContain(ended.summary.error!);
  },
);

const secret = { ODDSLAKE_TOKEN_SECRET: 'a secret of more than 32 characters, for tests' };

describe('bad usage of keys, tokens and backtests exits 2 and names the fault', () => {
  const lake = sharedCopy(madeBacktestLake.copyTo);

  test.each<Case>([
    ['keys create', /--name/],
    ['keys create --name n --expires 2020-01-01', /must be in the future/],
    ['keys create --name n --requests-per-minute 0', /1 to 10000000/],
    ['keys create --name n --scope write', /Allowed choices are read, export/],
    ['keys create --name n --dataset deals', /--dataset deals: .*unknown/],
    ['keys usage nobody', /no key with this ID or name/],
    ['keys rotate nobody', /no key with this ID or name/],
    ['keys rotate nobody --overlap 7', /--overlap "?7"?: expected a whole/],
    ['keys revoke ffffffffffff', /no key with this ID\. Run \S*bin\/oddslake keys list --output /],
    ['keys list', /postgres:\/\/user/, { ODDSLAKE_DATABASE_URL: 'mysql://u:hunter22@h/d' }],
    ['tokens revoke', /Give the ID of a token/],
    ['tokens issue --user a --expires 2020-01-01', /must be in the future/, secret],
    ['serve --set service.tokens.jwks_url=https://example.org/jwks', /Set only one/, secret],
    ['backtest run nope', /nope is neither a saved strategy of this user nor one of buy_and_hold, threshold/],
    ['backtest run threshold --param buy=1', /--param buy: the strategy has only .*buy_below/],
    ['backtest run threshold --grid buy=1,2', /--grid buy: the strategy has only/],
    ['backtest run threshold --param buy_below', /--param .* Expected name=value/],
    ['backtest run threshold --param buy_below=x', /Expected a number, not "x"/],
    ['backtest run momentum --param window_ms=6x', /a duration such as 90s/],
    [
      'backtest run momentum --param window_ms=0',
      /window_ms: is 0, which is invalid for .*window_ms: it must be from 1/,
    ],
    ['backtest run threshold --param buy_below=1 --grid buy_below=1,2', /buy_below: is also in the grid/],
    ['backtest run threshold --param buy_below=1 --param buy_below=2', /--param buy_below is given twice/],
    ['backtest run threshold --grid buy_below=0 --held-out 1', /--held-out: must be/],
    ['backtest run threshold --held-out 0.5', /--held-out requires --grid/],
    ['backtest run threshold --objective luck', /--objective.*avg_pnl/],
    ['backtest run threshold --symbol NOBODY', /--symbol: includes symbols unknown to the archive: NOBODY/],
    ['backtest run threshold --from 2026-01-02 --to 2026-01-01', /--from must be before/],
    ['backtest run threshold --from 2030-01-01', /--from: leaves no tick/],
    ['backtest run threshold --category none --to 2026-06-02', /--category, --source: matches no symbol with ticks/],
    ['backtest run none.json', /none\.json cannot be read/],
    ['backtest run threshold --out LAKE/page.html', /is inside the archive/],
    ['backtest run threshold --out /dev/null/page.html', /\/dev\/null is not a folder/],
    ["backtest run threshold --save --user ''", /--user must not be empty/],
    ['backtest show x', /This archive has no saved backtest x\. Run \S*oddslake backtest list --output /],
  ])('%s: %s', async (line, sentence, env = {}) => {
    const LAKE = lake();
    const { code, stdout, stderr } = await run([...split(line, { LAKE }), '--output', LAKE], env);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(sentence);
    expect(stderr).not.toMatch(/hunter22|\n\s+at /);
  });
});
