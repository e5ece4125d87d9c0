import { readdirSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { access, expectSentence, fixedDay, fixedNow, folder, hashes, sandbox } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

describe('bad settings and bad usage exit 2 before any work', () => {
  const cases: [string, string[], Record<string, string>, RegExp][] = [
    ['no URL', ['nightly', '--json', '--output', '{}'], {}, /ODDSLAKE_BASE_URL/],
    [
      'no key',
      ['nightly', '--json', '--output', '{}'],
      { ODDSLAKE_BASE_URL: 'http://127.0.0.1:9' },
      /ODDSLAKE_API_KEY/,
    ],
    ['an unknown key', ['nightly', '--json', '--output', '{}', '--set', 'poll.pagelimit=3'], {}, /poll\.pagelimit/],
    [
      'a bad value',
      ['nightly', '--json', '--output', '{}', '--set', 'poll.page_limit=many'],
      {},
      /poll\.page_limit.*many/s,
    ],
    ['a --set without =', ['nightly', '--json', '--output', '{}', '--set', 'poll.page_limit'], {}, /--set/],
    [
      'a bad value of the environment',
      ['nightly', '--json', '--output', '{}'],
      { ODDSLAKE_REQUESTS_PER_SECOND: '0' },
      /ODDSLAKE_REQUESTS_PER_SECOND/,
    ],
    ['a config that is not there', ['nightly', '--json', '--config', '{}/none.yaml'], {}, /none\.yaml/],
    ['a --date that is no day', ['nightly', '--json', '--output', '{}', '--date', '2025-02-30'], {}, /--date/],
    [
      'a --date in the future',
      ['nightly', '--json', '--output', '{}', '--date', '2099-01-01'],
      access('http://127.0.0.1:9'),
      /future/,
    ],
    [
      'an empty window',
      ['backfill', '--json', '--output', '{}', '--from', '2025-01-02', '--to', '2025-01-02'],
      access('http://127.0.0.1:9'),
      /--from/,
    ],
    [
      'a time without a zone',
      ['backfill', '--json', '--output', '{}', '--from', '2025-01-02T00:00', '--to', '2025-01-03'],
      access('http://127.0.0.1:9'),
      /--from/,
    ],
    ['an archive that nobody named', ['nightly', '--json'], access('http://127.0.0.1:9'), /no archive/],
    ['a zone that is none', ['import', '--json', '--output', '{}', 'x.csv', '--tz', 'Mars'], {}, /--tz "Mars"/],
    ['a cover that is no window', ['import', '--json', '--output', '{}', 'x.csv', '--covers', '2025'], {}, /--covers/],
    ['a recording that is not there', ['import', '--json', '--output', '{}', '{}/x.csv'], {}, /x\.csv: no such file/],
    ['nothing to publish', ['publish', '--json', '--output', '{}/none'], {}, /no archive/],
  ];

  test.each(cases)('%s', async (_, args, env, sentence) => {
    const output = folder();
    const ended = await run(
      args.map((arg) => arg.replace('{}', output)),
      env,
      output,
    );
    expectSentence(ended, 2, sentence);
    expect(ended.summary).toMatchObject({ outcome: 'usage', run_id: null, requests: 0 });
    expect(readdirSync(output)).toEqual([]);
  });

  test.each([
    ['an unknown command', ['nightlyy'], /unknown command 'nightlyy'/],
    ['a flag before its command', ['--output', 'x', 'status'], /^oddslake: --output must follow the command/],
    [
      'an unknown flag',
      ['nightly', '--dat', '2025-01-01'],
      /^oddslake: unknown option '--dat'[\s\S]*oddslake nightly --help/,
    ],
    [
      'the name of a SQL file',
      ['sql', 'q.sql', '--output', 'l'],
      /"q\.sql" is the name of a file.*sql --output l "\$\(cat q\.sql\)"/,
    ],
    ['completion without a shell', ['completion'], /missing required argument 'shell': one of bash, zsh, fish\n/],
    ['a flag without its value', ['backfill', '--from', '2025-01-01'], /--to/],
    ['a wait that is no number', ['nightly', '--wait', 'long'], /--wait/],
    ['status of an archive that is not there', ['status', '--output', '/nonexistent/x'], /no archive/],
    ['gaps of an archive that is not there', ['gaps', '--json', '--output', '/nonexistent/x'], /no archive/],
    ['a lag that is no time', ['status', '--output', '/nonexistent/x', '--max-lag', 'long'], /--max-lag/],
  ])('%s', async (_, args, sentence) => {
    const ended = await run(args);
    expect(ended.code, ended.stderr).toBe(2);
    expect(ended.stderr).toMatch(sentence);
    expect(ended.stderr).not.toMatch(/\n\s+at /);
  });

  test("another upstream's archive", async () => {
    const output = folder();
    const box = await sandbox({ nowMs: fixedNow, markets: 6, ticksPerDay: 100 });
    expect((await job('nightly', box.url, output, '--date', fixedDay)).code).toBe(0);
    const before = hashes(output, '.');
    const other = await job('nightly', box.url, output, '--date', fixedDay, '--set', 'source.name=other');
    expectSentence(other, 2, /belongs to the upstream box, not to other/);
    expect(hashes(output, '.')).toEqual(before);
  });
});

test.each([
  ['nightly', '--dat', '2025-01-01', '--json'],
  ['backfill', '--json', '--from', '2025-01-01'],
  ['ticks', '--json', '--wait', 'long'],
])('bad usage of a job is reported in JSON too: %s %s %s %s', async (...args) => {
  const ended = await run(args);
  expect(ended.code).toBe(2);
  expect(ended.summary).toMatchObject({ job: args[0], outcome: 'usage', exit_code: 2, run_id: null });
  expect(ended.stderr.replace('\n', ' ')).toContain(ended.summary.error!);
});
