import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { settingSchemas } from '../../src/settings/layers.ts';
import { access, folder, sandbox } from './lake.ts';
import { run } from './run-program.ts';

const bad = `upstream:
  base_url: BASE
  requests_per_secnod: 3
poll:
  page_limit: many
`;

test('config show lists changed settings with value and source, without secrets', async () => {
  const cwd = folder();
  const config = join(cwd, 'c.yaml');
  writeFileSync(config, 'poll:\n  page_limit: 77\nsource: {name: "<b>\\u202e"}\n');
  const env = { ODDSLAKE_API_KEY: 'sandbox-key' };
  const shown = await run(['config', 'show', '--config', config, '--output', cwd], env);
  expect([shown.code, shown.stderr]).toEqual([0, '']);
  expect(shown.stdout).toMatch(/^poll\.page_limit +\S*c\.yaml:2 +77$/m);
  expect(shown.stdout).toMatch(/^upstream\.api_key +ODDSLAKE_API_KEY +\(hidden\)$/m);
  expect(shown.stdout).toMatch(/^archive\.output +--output +\S+$/m);
  expect(shown.stdout).toContain('<b>\\u202e');
  expect(shown.stdout).toMatch(/4 of \d+ settings differ from their default/);
  const all = await run(['config', 'show', '--config', config, '--all', '--json'], env);
  expect(all.stdout).not.toContain('sandbox-key');
  const { settings, config: named } = JSON.parse(all.stdout);
  expect([named, settings.length]).toEqual([config, settingSchemas.size]);
  const none = await run(['config', 'show']);
  expect(none.stdout).toMatch(/no config file\nall \d+ settings have their defaults\n/);
});

test('config check lists every problem, exits 2, and never contacts the network', async () => {
  const box = await sandbox({ markets: 2 });
  const cwd = folder();
  const config = join(cwd, 'c.yaml');
  writeFileSync(config, bad.replace('BASE', box.url));
  const checked = await run(['config', 'check', '--config', config, '--set', 'log.lvel=info'], access(box.url));
  expect(checked.code).toBe(2);
  expect(checked.stdout).toContain('→ did you mean upstream.requests_per_second?');
  expect(checked.stdout).toMatch(/✗ poll\.page_limit is "many"\n {2}expected a whole number from 1 to 1000000\n/);
  expect(checked.stdout).toMatch(/✗ log\.lvel\n {2}unknown setting\n {2}in --set\n/);
  expect(checked.stdout).toMatch(/3 problems\n$/);
  const asJson = await run(['config', 'check', '--config', config, '--json'], access(box.url));
  expect(asJson.code).toBe(2);
  expect(JSON.parse(asJson.stdout)).toMatchObject({
    config,
    valid: false,
    exit_code: 2,
    problems: [{ key: 'upstream.requests_per_secnod', from: { line: 3 } }, { key: 'poll.page_limit' }],
  });
  writeFileSync(config, `upstream:\n  base_url: ${box.url}\n`);
  const valid = await run(['config', 'check', '--config', config], access(box.url));
  expect([valid.code, valid.stdout]).toEqual([0, expect.stringMatching(/^✓ .*c\.yaml: no problems\n$/)]);
  expect(box.stats().requests).toBe(0);
});
