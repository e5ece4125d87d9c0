import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { needsCommands } from '../harness/needs.ts';
import { access, expectDone, folder, processEnv, sandbox } from './lake.ts';
import { run } from './run-program.ts';

const launcher = new URL('../../bin/oddslake', import.meta.url).pathname;

const init = (cwd: string, args: readonly string[], env: Record<string, string> = {}) =>
  run(['init', ...args], env, cwd);

describe('init', () => {
  test('writes a config for the new archive, without the key', async () => {
    const box = await sandbox({ markets: 4, ticksPerDay: 50 });
    const cwd = folder();
    const flags = ['--base-url', box.url, '--output', 'lake', '--name', 'box', '--rate', '2000'];
    const made = await expectDone(init(cwd, flags, { ODDSLAKE_API_KEY: 'sandbox-key' }));
    expect(made.stdout).toContain(`wrote ${join(cwd, 'oddslake.yaml')}`);
    expect(made.stdout).toContain(`created the archive ${join(cwd, 'lake')} for box`);
    expect(made.stdout).toMatch(/ nightly --config oddslake\.yaml\n/);
    expect(readFileSync(join(cwd, 'oddslake.yaml'), 'utf8')).not.toContain('sandbox-key');
    const secrets = {
      ...access(box.url),
      ODDSLAKE_WEBHOOK_URL: 'https://hooks.example/xyz',
      ODDSLAKE_TOKEN_SECRET: 'xyz'.repeat(20),
    };
    await expectDone(init(cwd, ['quiet.yaml', '--output', 'lake', '--name', 'box'], secrets));
    expect(readFileSync(join(cwd, 'quiet.yaml'), 'utf8')).not.toContain('xyz');
    const key = { ODDSLAKE_API_KEY: 'sandbox-key' };
    await expectDone(run(['nightly', '--config', 'oddslake.yaml', '--json'], key, cwd));
    expect(existsSync(join(cwd, 'lake', 'manifest.json'))).toBe(true);

    const again = await expectDone(
      init(cwd, ['other.yaml', '--json', '--output', 'lake', '--name', 'box'], access(box.url)),
    );
    expect(JSON.parse(again.stdout)).toEqual({
      config: join(cwd, 'other.yaml'),
      archive: join(cwd, 'lake'),
      archive_created: false,
      upstream: 'box',
      problems: 0,
      warnings: expect.any(Number),
    });
    const other = await init(cwd, ['third.yaml', '--output', 'lake', '--name', 'other'], access(box.url));
    expect(other.code).toBe(2);
    expect(other.stderr).toMatch(/belongs to the upstream box, not to other/);
    expect(existsSync(join(cwd, 'third.yaml'))).toBe(false);
  });

  test('accepts a key file, and creates the default archive', async () => {
    const box = await sandbox({ markets: 4, ticksPerDay: 50 });
    const cwd = folder();
    writeFileSync(join(cwd, 'key'), 'sandbox-key\n');
    const made = await expectDone(init(cwd, ['--base-url', box.url, '--api-key-file', 'key']));
    expect(made.stdout).not.toContain('export ODDSLAKE_API_KEY');
    await expectDone(run(['markets', '--json'], access(box.url), cwd));
    expect(existsSync(join(cwd, 'output', 'archive', 'manifest.json'))).toBe(true);
  });

  test('the config is read only if named, and commands warn otherwise', async () => {
    const cwd = folder();
    const reported = await expectDone(run(['init', '--base-url', 'http://127.0.0.1:9', '--no-check'], {}, cwd));
    // At once, before anything is requested or tried.
    expect(reported.stderr).toMatch(/^No key is set: set ODDSLAKE_API_KEY, or name a file .*--api-key-file\./);
    // Each command can be pasted.
    expect(reported.stdout).toMatch(
      /Next:\n\n {2}export ODDSLAKE_API_KEY=…\n {2}\S+ nightly --config oddslake\.yaml\n {2}\S+ status --config oddslake\.yaml\n[\s\S]*\n {2}export ODDSLAKE_CONFIG=\S+\/oddslake\.yaml\n$/,
    );
    expect(reported.stdout).toMatch(/\n {2}export ODDSLAKE_CONFIG=\//);
    const bare = await run(['nightly'], {}, cwd);
    expect([bare.code, bare.stderr]).toEqual([2, expect.stringMatching(/pass --config oddslake\.yaml/)]);
    const named = await run(['status', '--config', 'oddslake.yaml'], {}, cwd);
    expect([named.code, named.stderr]).toEqual([0, '']);
  });

  test('tries the address and the key before it writes, unless disabled', async () => {
    const box = await sandbox({ markets: 4, ticksPerDay: 50 });
    const cwd = folder();
    const flags = ['--base-url', box.url, '--output', 'lake'];
    const wrong = { ODDSLAKE_API_KEY: 'another-key' };
    const rejected = await init(cwd, flags, wrong);
    expect([rejected.code, rejected.stdout]).toEqual([3, '']);
    expect(rejected.stderr).toMatch(
      /the service rejected it .*Nothing was written; --no-check writes the config anyway/,
    );
    expect(box.stats().requests).toBe(1);
    const away = await init(cwd, ['--base-url', 'http://127.0.0.1:9', '--json'], wrong);
    expect([away.code, JSON.parse(away.stdout).exit_code]).toEqual([7, 7]);
    expect(away.stderr).toMatch(
      /The service cannot be reached: http:\/\/127\.0\.0\.1:9: connection refused\. Check --base-url/,
    );
    expect(readdirSync(cwd)).toEqual([]);
    await expectDone(init(cwd, [...flags, '--no-check'], wrong));
    expect(existsSync(join(cwd, 'oddslake.yaml'))).toBe(true);
    expect(box.stats().requests).toBe(1);
  });

  test('writes the setting of order books, prints the checks of doctor, and runs the first nightly', async () => {
    const box = await sandbox({ markets: 4, ticksPerDay: 50 });
    const cwd = folder();
    const flags = ['--base-url', box.url, '--output', 'lake', '--rate', '2000', '--order-books', '--nightly'];
    const made = await expectDone(init(cwd, flags, { ODDSLAKE_API_KEY: 'sandbox-key' }));
    expect(made.stderr).toMatch(/Reached .*\nKey accepted/);
    expect(readFileSync(join(cwd, 'oddslake.yaml'), 'utf8')).toMatch(/^orderbooks:\n {2}all_live: true$/m);
    expect(made.stdout).toMatch(/✓ node[\s\S]*✓ permissions[\s\S]*Next:\n[\s\S]*nightly +done/);
    expect(readdirSync(join(cwd, 'lake', 'orderbooks')).length).toBeGreaterThan(0);
  });

  test(
    'asks on a terminal whether to go on, and for order books and the first nightly',
    needsCommands('script'),
    async () => {
      const box = await sandbox({ markets: 4, ticksPerDay: 50 });
      const cwd = folder();
      const command = `${JSON.stringify(launcher)} init --base-url ${box.url} --output lake --name box --rate 2000`;
      const type = (answers: string, key: string): Promise<string> =>
        new Promise((done, fail) => {
          const child = spawn('script', ['-qec', command, '/dev/null'], {
            cwd,
            env: { ...processEnv, TERM: 'dumb', ODDSLAKE_API_KEY: key },
          });
          let shown = '';
          const left = [...answers];
          child.stdout.setEncoding('utf8').on('data', (text: string) => {
            shown += text;
            // Each question ends with its choices.
            if (/\[[yY]\/[nN]\]: $/.test(text)) child.stdin.write(`${left.shift()}\n`);
          });
          child.on('error', fail).on('close', () => done(shown));
        });
      const stopped = await type('n', 'another-key');
      expect(stopped).toMatch(
        /the service rejected it[\s\S]*Write the config anyway\? \[y\/N\]: [\s\S]*Nothing was written/,
      );
      expect(readdirSync(cwd)).toEqual([]);
      const made = await type('yy', 'sandbox-key');
      expect(made).toMatch(/Run the first nightly job now\? \[Y\/n\]: [\s\S]*nightly +done/);
      expect(readFileSync(join(cwd, 'oddslake.yaml'), 'utf8')).toContain('all_live: true');
    },
  );
});
