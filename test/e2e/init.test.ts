import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
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
    expect(made.stdout).toMatch(/ nightly\n/);
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

  test('the next steps need no --config in the folder of oddslake.yaml, and name any other', async () => {
    const cwd = folder();
    const flags = ['--base-url', 'http://127.0.0.1:9', '--no-check'];
    const reported = await expectDone(init(cwd, flags));
    // At once, before anything is requested or tried.
    expect(reported.stderr).toMatch(/^No key is set: set ODDSLAKE_API_KEY, or name a file .*--api-key-file\./);
    // Each command can be pasted.
    expect(reported.stdout).toMatch(
      /Next:\n\n {2}export ODDSLAKE_API_KEY=…\n {2}\S+ nightly\n {2}\S+ status\n[\s\S]*\n {2}export ODDSLAKE_CONFIG=\/\S+\/oddslake\.yaml\n$/,
    );
    await expectDone(run(['status'], {}, cwd));
    const other = await expectDone(init(cwd, ['lake.yaml', ...flags]));
    expect(other.stdout).toMatch(/\n {2}\S+ nightly --config lake\.yaml\n {2}\S+ status --config lake\.yaml\n/);
    const elsewhere = { ODDSLAKE_CONFIG: join(cwd, 'lake.yaml') };
    const hidden = await expectDone(init(folder(), flags, elsewhere));
    expect(hidden.stdout).toContain(' nightly --config oddslake.yaml\n');
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
      const flags = ['--base-url', box.url, '--output', 'lake', '--name', 'box', '--rate', '2000'];
      const stopped = await typeInto(cwd, flags, ['n\n'], 'another-key');
      expect(stopped).toMatch(
        /the service rejected it[\s\S]*Write the config anyway\? \[y\/N\]: [\s\S]*Nothing was written/,
      );
      expect(readdirSync(cwd)).toEqual([]);
      const made = await typeInto(cwd, flags, ['y\n', 'y\n'], 'sandbox-key');
      expect(made).toMatch(/Run the first nightly job now\? \[Y\/n\]: [\s\S]*nightly +done/);
      expect(readFileSync(join(cwd, 'oddslake.yaml'), 'utf8')).toContain('all_live: true');
    },
  );
});

/** Runs init on a terminal, gives these answers to its questions, and resolves to what the terminal showed. */
function typeInto(
  cwd: string,
  flags: readonly string[],
  answers: readonly (string | NodeJS.Signals)[],
  key?: string,
  terminal = 'xterm',
): Promise<string> {
  const command = `stty -a; ${[launcher, 'init', ...flags].map((word) => JSON.stringify(word)).join(' ')}; stty -a`;
  const env = { ...processEnv, TERM: terminal, SHELL: '/bin/sh', ...(key !== undefined && { ODDSLAKE_API_KEY: key }) };
  const child = spawn('script', ['-qec', command, '/dev/null'], { cwd, env });
  const left = [...answers];
  let shown = '';
  let answered = 0;
  return new Promise((done, fail) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      shown += text;
      // Each question ends with its choices or its default.
      if (!/(?:\]|example\.org): $/.test(stripVTControlCharacters(shown.slice(answered)))) return;
      answered = shown.length;
      const answer = left.shift() ?? '\u0003';
      if (answer.startsWith('SIG')) process.kill(findProgram(cwd), answer);
      else child.stdin.write(answer);
    });
    child.on('error', fail).on('close', () => done(stripVTControlCharacters(shown)));
  });
}

/** The process of the program whose working folder this is. */
function findProgram(cwd: string): number {
  const isProgram = (pid: string): boolean => {
    try {
      return (
        readlinkSync(`/proc/${pid}/cwd`) === cwd && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('main.ts')
      );
    } catch {
      return false;
    }
  };
  return Number(readdirSync('/proc').find((name) => /^\d+$/.test(name) && isProgram(name)));
}

describe('the key', () => {
  const pasted = 'sk-LIVE_5f0c9d0f6a1be2c3/d4e5f607==';

  test(
    'is asked for without an echo, and written into a file that only its owner reads',
    needsCommands('script'),
    async () => {
      const box = await sandbox({ markets: 4, ticksPerDay: 50, key: pasted });
      const cwd = folder();
      const flags = ['--base-url', box.url, '--rate', '2000'];
      // A wrong end that is corrected, a pasted line break, and the key again where a folder is asked for.
      const answers = [`${pasted}xy\u007f\u007f\r`, '\u001b[A\r', `${pasted}\r`, 'lake\r', 'box\r', 'n\r', 'y\r'];
      const shown = await typeInto(cwd, flags, answers);
      expect(shown).toMatch(/Key accepted[\s\S]*nightly +done/);
      // The terminal itself shows what is typed at the question for a folder, and nothing does at that for the key.
      expect(shown.split(pasted)).toHaveLength(2);
      expect(shown).not.toContain('xy');
      expect(shown).toContain('That is the key, which is already known.');
      expect(readFileSync(join(cwd, 'oddslake.key'), 'utf8')).toBe(`${pasted}\n`);
      expect(statSync(join(cwd, 'oddslake.key')).mode & 0o777).toBe(0o600);
      const config = readFileSync(join(cwd, 'oddslake.yaml'), 'utf8');
      expect(config).toMatch(/^ {2}api_key_file: oddslake\.key$/m);
      expect(config).not.toContain(pasted);
      await expectDone(run(['markets', '--json'], {}, cwd));
      // What an init that was interrupted has left is used.
      rmSync(join(cwd, 'oddslake.yaml'));
      const again = await expectDone(init(cwd, [...flags, '--output', 'lake', '--name', 'box']));
      expect(again.stderr).toContain('Key accepted');
    },
  );

  test('can be corrected on a terminal without cursor control', needsCommands('script'), async () => {
    const box = await sandbox({ markets: 2, ticksPerDay: 5 });
    const cwd = folder();
    const flags = ['--base-url', box.url, '--rate', '2000', '--output', 'lake', '--name', 'box'];
    const answers = ['sandbox-kex\u007fxy\u007f\u007fy\r', 'n\r', 'n\r'];
    const shown = await typeInto(cwd, flags, answers, undefined, 'dumb');
    expect(shown).toContain('Key accepted');
    expect(shown).not.toContain('sandbox-k');
    expect(readFileSync(join(cwd, 'oddslake.key'), 'utf8')).toBe('sandbox-key\n');
  });

  test.each([
    ['Ctrl-C', '\u0003', /stopped by SIGINT/],
    ['Ctrl-D', '\u0004', /The input ended before all questions were answered/],
    ['SIGHUP', 'SIGHUP', /Hangup/],
  ])(
    '%s at its prompt writes nothing and leaves the terminal as it was',
    needsCommands('script'),
    async (_, answer, said) => {
      const cwd = folder();
      const shown = await typeInto(cwd, ['--base-url', 'http://127.0.0.1:9'], [answer]);
      const states = shown.match(/^speed [\s\S]*?-?extproc/gm)!;
      expect(states).toHaveLength(2);
      expect(states[1]).toBe(states[0]);
      expect(shown).toMatch(said);
      expect(readdirSync(cwd)).toEqual([]);
    },
  );

  test('is never repeated, wherever it is given by mistake', async () => {
    const url = ['--base-url', 'http://127.0.0.1:9'];
    const calls: [args: readonly string[], env?: Record<string, string>][] = [
      [['init', pasted, ...url]],
      [['init', ...url, pasted, pasted]],
      [['init', '--base-url', pasted]],
      [['init', ...url, '--api-key-file', pasted]],
      [['init', ...url, '--rate', pasted]],
      [['init', ...url, '--api-key', pasted]],
      [['init', ...url, `--api-key=${pasted}`]],
      [['init', ...url, '--set', pasted]],
      [['init', ...url, '--set', `upstream.api_key=${pasted}`]],
      [['init', ...url, '--set', `upstream.concurrency=${pasted}`]],
      [['nightly', pasted]],
      [['nightly', `--api-key=${pasted}`]],
      [['nightly', `--api-key=${pasted}\n`]],
      [['nightly', '--wait', pasted]],
      [['nightly', '--log-level', pasted]],
      [[pasted]],
      [['status'], { ODDSLAKE_API_KEY_FILE: pasted }],
      [['status'], { ODDSLAKE_BASE_URL: pasted }],
      [['status'], { ODDSLAKE_REQUESTS_PER_SECOND: pasted }],
    ];
    const cwd = folder();
    for (const [args, env] of calls) {
      const ended = await run([...args, '--json'], env, cwd);
      expect(ended.code, args.join(' ')).toBe(2);
      expect(ended.stderr.length).toBeGreaterThan(20);
      expect(ended.stdout + ended.stderr, args.join(' ')).not.toContain('5f0c9d0f');
    }
    expect(readdirSync(cwd)).toEqual([]);
    // A path is shown.
    const typo = await run(['status'], { ODDSLAKE_API_KEY_FILE: '/etc/market-data-api-key' }, cwd);
    expect(typo.stderr).toContain('upstream.api_key_file /etc/market-data-api-key: there is no such file');
  });
});
