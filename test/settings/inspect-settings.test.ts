import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { checkSettings, listSettings } from '../../src/settings/inspect-settings.ts';
import { settingSchemas } from '../../src/settings/layers.ts';
import type { SettingSources } from '../../src/settings/load.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'settings-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function write(text: string): string {
  const path = join(folder, 'c.yaml');
  writeFileSync(path, text);
  return path;
}

const list = (sources: Partial<SettingSources>) => listSettings({ env: {}, cwd: folder, ...sources });
const check = (sources: Partial<SettingSources>) => checkSettings({ env: {}, cwd: folder, ...sources });

describe('listSettings', () => {
  test('names the source of every value, with the line of the config', async () => {
    const config = write(
      '# comment\npoll:\n  page_limit: 7\n\n  overlap_minutes: 90\nupstream: {concurrency: 2,\n  retry_attempts_max: 3}\n',
    );
    const env = { ODDSLAKE_REQUESTS_PER_SECOND: '9' };
    const { settings } = await list({ config, env, set: ['poll.overlap_minutes=80'], output: 'there' });
    expect(settings.map(({ key }) => key)).toEqual([...settingSchemas.keys()]);
    const byKey = new Map(settings.map((setting) => [setting.key, setting]));
    const inConfig = (line: number) => ({ kind: 'config', name: config, line });
    expect(byKey.get('poll.page_limit')).toEqual({
      key: 'poll.page_limit',
      value: 7,
      default: 5000,
      from: inConfig(3),
    });
    expect(byKey.get('upstream.concurrency')?.from).toEqual(inConfig(6));
    expect(byKey.get('upstream.retry_attempts_max')?.from).toEqual(inConfig(7));
    expect(byKey.get('poll.overlap_minutes')).toMatchObject({ value: 80, from: { kind: 'flag', name: '--set' } });
    expect(byKey.get('archive.output')).toMatchObject({ value: 'there', from: { kind: 'flag', name: '--output' } });
    const name = 'ODDSLAKE_REQUESTS_PER_SECOND';
    expect(byKey.get('upstream.requests_per_second')?.from).toEqual({ kind: 'environment', name, line: null });
    expect(byKey.get('log.level')?.from).toEqual({ kind: 'default', name: null, line: null });
  });

  test('hides secrets, and lists the settings of sources', async () => {
    const config = write('sources:\n  alpha:\n    api_key: secret-1\n    base_url: https://a:secret-2@example.org\n');
    const env = { ODDSLAKE_TOKEN_SECRET: 'secret-3'.repeat(8), ODDSLAKE_DATABASE_URL: 'postgres://a:secret-4@db/x' };
    const { settings } = await list({ config, env });
    expect(JSON.stringify(settings)).not.toContain('secret-');
    expect(settings.find(({ key }) => key === 'sources.alpha.api_key')).toEqual({
      key: 'sources.alpha.api_key',
      value: '(hidden)',
      default: null,
      from: { kind: 'config', name: config, line: 3 },
    });
  });
});

describe('checkSettings', () => {
  test('lists every problem at once, with key, value, expectation, suggestion and line', async () => {
    const config = write(`upstream:
  requests_per_secnod: 3
  concurrency: 0
poll: {recheck_share: lots}
symbols: [A, 7]
schedule: {nightly: "61 3 * * *"}
notify: {when: here}
upstream_: 1
source: 4
`);
    const { problems } = await check({ config, set: ['log.level=inof', 'log.lvel=info'] });
    const at = (line: number) => ({ kind: 'config', name: config, line });
    expect(problems.map(({ key, from }) => [key, from?.line ?? from?.name])).toEqual([
      ['upstream.requests_per_secnod', 2],
      ['upstream.concurrency', 3],
      ['poll.recheck_share', 4],
      ['symbols[1]', 5],
      ['schedule.nightly', 6],
      ['notify.when', 7],
      ['upstream_', 8],
      ['source', 9],
      ['log.level', '--set'],
      ['log.lvel', '--set'],
    ]);
    expect(problems[0]).toEqual({
      message: `${config}: unknown setting upstream.requests_per_secnod: did you mean upstream.requests_per_second?`,
      key: 'upstream.requests_per_secnod',
      value: null,
      expected: null,
      suggestion: 'upstream.requests_per_second',
      from: at(2),
    });
    expect(problems[1]).toMatchObject({ value: '0', expected: 'a whole number from 1 to 256', suggestion: null });
    expect(problems[2]).toMatchObject({ value: '"lots"', expected: 'a number from 0 to 1', suggestion: null });
    expect(problems[8]).toMatchObject({ value: '"inof"', suggestion: 'info' });
    expect(problems[9]).toMatchObject({ suggestion: 'log.level' });
  });

  test('checks addresses, keys and relations, and shows no secret', async () => {
    const config = write(`upstream:
  base_url: https://a:secret-1@example.org
  api_key_file: none.key
  retry_delay_seconds_min: 300
notify: {webhook_url: "ftp://secret-2"}
service: {tokens: {secret: secret-3}}
`);
    const { problems } = await check({ config });
    expect(problems.map(({ key }) => key)).toEqual([
      'upstream.base_url',
      'upstream.retry_delay_seconds_min',
      'notify.webhook_url',
      'service.tokens.secret',
      null,
    ]);
    expect(problems.at(-1)!.message).toMatch(/none\.key: there is no such file/);
    expect(JSON.stringify(problems)).not.toContain('secret-');
  });

  test('does not compare a default with a value because the other value is invalid', async () => {
    const config = write('poll: {settle_hours: soon}\n');
    expect((await check({ config })).problems.map(({ key }) => key)).toEqual(['poll.settle_hours']);
  });

  test('checks the settings of sources', async () => {
    const config = write('upstream: {base_url: "https://a.org"}\nsources:\n  alpha: {base_url: b}\n  "A B": {}\n');
    expect((await check({ config })).problems.map(({ key, from }) => [key, from?.line])).toEqual([
      ['upstream.base_url', 1],
      ['sources.alpha.base_url', 3],
      ['sources.A B', 4],
    ]);
  });

  test.each([
    ['a file that is not there', null, /there is no such file/],
    ['text that is not YAML', 'poll: {page_limit: [}', /not valid YAML at line 1/],
    ['a key that occurs twice', 'poll: {}\npoll: {}\n', /not valid YAML at line 2, column 1 \(DUPLICATE_KEY\)/],
  ])('reports %s once', async (_, text, message) => {
    const config = text === null ? join(folder, 'none.yaml') : write(text);
    expect((await check({ config })).problems).toMatchObject([{ message: expect.stringMatching(message), key: null }]);
  });

  test('reports misspelled variables, and no variables of other programs', async () => {
    const env = {
      ODDSLAKE_OUTPT: 'x',
      ODDSLAKE_API_KYE: 'secret-1',
      ODDSLAKE_API_KEY_ALPHA: 'x',
      ODDSLAKE_PORT_8080_TCP: 'tcp://10.0.0.1',
      ODDSLAKE_SERVICE_HOST: 'x',
      OTHER_OUTPT: 'x',
    };
    const { problems } = await check({ env });
    expect(problems.map(({ key, suggestion }) => [key, suggestion])).toEqual([
      ['ODDSLAKE_OUTPT', 'ODDSLAKE_OUTPUT'],
      ['ODDSLAKE_API_KYE', 'ODDSLAKE_API_KEY'],
    ]);
    expect(JSON.stringify(problems)).not.toContain('secret-');
  });

  test('finds no problem in the defaults', async () => {
    const config = new URL('../../config/default.yaml', import.meta.url).pathname;
    expect(await check({ config })).toEqual({ config, problems: [] });
  });
});
