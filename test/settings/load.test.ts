import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { UsageError } from '../../src/base/errors.ts';
import { loadSettings, type SettingSources } from '../../src/settings/load.ts';
import { listSecrets, requireOtherUpstream, requireUpstream } from '../../src/settings/settings.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'settings-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const load = (sources: Partial<SettingSources> = {}) => loadSettings({ env: {}, cwd: folder, ...sources });

function write(name: string, text: string | Uint8Array): string {
  mkdirSync(join(folder, name, '..'), { recursive: true });
  writeFileSync(join(folder, name), text);
  return name;
}

async function refusal(sources: Partial<SettingSources>): Promise<string> {
  const error = await load(sources).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(UsageError);
  return (error as Error).message;
}

test('every wrong setting is named at once, with its line in the config, and nothing that only follows from another', async () => {
  const config = write('c.yaml', 'upstream:\n  base_url: ftp://x\npoll:\n  settle_hours: soon\n');
  expect(
    await refusal({ config, env: { ODDSLAKE_REQUESTS_PER_SECOND: 'many' }, set: ['poll.overlap_minutes=1'] }),
  ).toBe(
    [
      `3 settings are wrong: ${join(folder, config)}:4: poll.settle_hours is "soon": expected a number from 0 to 168`,
      'ODDSLAKE_REQUESTS_PER_SECOND: upstream.requests_per_second is "many": expected a number from 0.001 to 100000',
      `${join(folder, config)}:2: upstream.base_url is "ftp://x": expected an http or https URL without credentials, query or fragment`,
    ].join('; '),
  );
});

test.each([
  ['upstream.base_url in F/c.yaml:2', 'F/key (upstream.api_key_file in F/c.yaml:3)', {}],
  ['ODDSLAKE_BASE_URL', 'ODDSLAKE_API_KEY', { env: { ODDSLAKE_BASE_URL: 'https://b.test', ODDSLAKE_API_KEY: 'k' } }],
  [
    '--set upstream.base_url',
    '--set upstream.api_key',
    { set: ['upstream.base_url=https://b.test', 'upstream.api_key=k'] },
  ],
])('knows that the address comes from %s, and the key from %s', async (baseUrl, apiKey, more) => {
  write('key', 'sesame');
  const config = write('c.yaml', 'upstream:\n  base_url: https://a.test\n  api_key_file: key\n');
  const put = (text: string): string => text.replaceAll('F/', `${folder}/`);
  expect((await load({ config, ...more })).upstreamFrom).toEqual({ baseUrl: put(baseUrl), apiKey: put(apiKey) });
});

describe('precedence', () => {
  test('flags override environment, environment the file, the file the defaults', async () => {
    const config = write('c.yaml', 'upstream: {requests_per_second: 2, concurrency: 9, retry_attempts_max: 2}');
    const env = { ODDSLAKE_REQUESTS_PER_SECOND: '3' };
    const settings = await load({ config, env });
    expect(settings.upstream).toMatchObject({ requestsPerSecond: 3, concurrency: 9, requestDeadlineSeconds: 60 });
    const flagged = await load({ config, env, set: ['upstream.requests_per_second=4'] });
    expect(flagged.upstream.requestsPerSecond).toBe(4);
  });

  test('the last --set of a key wins, and a specific flag overrides --set', async () => {
    const { log, archive } = await load({
      set: ['log.level=warn', 'log.level=error', 'archive.output=a'],
      output: 'b',
    });
    expect(log.level).toBe('error');
    expect(archive.output).toBe(join(folder, 'b'));
  });

  test('--config overrides ODDSLAKE_CONFIG', async () => {
    write('one.yaml', 'log: {level: warn}');
    write('two.yaml', 'log: {level: error}');
    const env = { ODDSLAKE_CONFIG: 'one.yaml' };
    expect((await load({ env })).log.level).toBe('warn');
    expect((await load({ env, config: 'two.yaml' })).log.level).toBe('error');
  });

  test('ignores empty and unknown variables', async () => {
    const empty = { ODDSLAKE_OUTPUT: '', ODDSLAKE_CONFIG: ' ', ODDSLAKE_REQUESTS_PER_SECOND: '', ODDSLAKE_API_KEY: '' };
    expect(await load({ env: { ...empty, ODDSLAKE_COLOUR: 'blue' } })).toEqual(await load());
  });

  test('does not read a config of the working folder by default', async () => {
    write('oddslake.yaml', 'log: {level: error}');
    expect((await load()).log.level).toBe('info');
  });
});

describe('the output', () => {
  test('is relative to the working folder and not named by default', async () => {
    const { archive, configFile } = await load();
    expect(archive).toMatchObject({ output: join(folder, 'output/archive'), outputNamed: false });
    expect(configFile).toBeNull();
  });

  test('is relative to the folder of the config file', async () => {
    const config = write('there/c.yaml', '');
    expect((await load({ config })).archive).toMatchObject({
      output: join(folder, 'there/output/archive'),
      outputNamed: false,
    });
    expect((await load({ config, env: { ODDSLAKE_OUTPUT: 'mine' } })).archive.output).toBe(join(folder, 'there/mine'));
    expect((await load({ config, output: '/elsewhere' })).archive.output).toBe('/elsewhere');
  });

  test('is named by flag, environment or config file', async () => {
    const config = write('c.yaml', 'archive: {output: output/archive}');
    const named = [{ output: 'o' }, { set: ['archive.output=o'] }, { env: { ODDSLAKE_OUTPUT: 'o' } }, { config }];
    for (const sources of named) expect((await load(sources)).archive.outputNamed).toBe(true);
  });
});

describe('values given as text', () => {
  test('are parsed as numbers, lists, strings and null', async () => {
    const set = ['poll.overlap_minutes=1.5e2', 'symbols=A, B?,C.d', 'source.name=007', 'source.views=["a,b"]'];
    const settings = await load({ set });
    expect(settings.poll.overlapMinutes).toBe(150);
    expect(settings.symbols).toEqual(['A', 'B?', 'C.d']);
    expect(settings.source).toMatchObject({ name: '007', views: ['a,b'] });
    expect((await load({ set: ['source.name=null', 'symbols='] })).symbols).toEqual([]);
    expect((await load({})).archive.candles).toEqual(['1h', '1d']);
    expect((await load({ set: ['archive.candles='] })).archive.candles).toEqual([]);
  });

  test.each([
    ['upstream.requests_per_second=0', 'is 0: expected a number from 0.001 to 100000'],
    ['upstream.concurrency=2.5', 'is 2.5: expected a whole number from 1 to 256'],
    ['upstream.concurrency= ', 'is " ": expected a whole number'],
    ['upstream.concurrency=0x4', 'is "0x4": expected a whole number'],
    ['upstream.concurrency=1e999', 'is Infinity: expected a whole number'],
    ['archive.parts=1025', 'is 1025: expected a whole number from 1 to 1024'],
    ['archive.output=', 'is "": expected a non-empty string'],
    ['log.level=loud', 'is "loud": expected one of trace, debug'],
    ['symbols=A,,B', 'symbols[1] is "": expected a string of 1 to 1000 characters'],
    ['archive.candles=1h,5m', 'archive.candles[1] is "5m": expected one of 1h, 1d'],
    ['archive.candles=[1h', 'archive.candles is "[1h": expected a list of 1h, 1d'],
    ['symbols=[7]', 'symbols[0] is 7: expected a string of 1 to 1000 characters; quote it'],
    ['symbols=[A', 'is "[A": expected a list'],
  ])('are rejected with key, value and expectation: %s', async (set, message) => {
    expect(await refusal({ set: [set] })).toContain(message);
    expect(await refusal({ set: [set] })).toMatch(/^--set: [a-z_.]+/);
  });

  test('errors name the variable', async () => {
    const env = { ODDSLAKE_REQUESTS_PER_SECOND: 'fast' };
    expect(await refusal({ env })).toMatch(
      /^ODDSLAKE_REQUESTS_PER_SECOND: upstream.requests_per_second is "fast": expected/,
    );
  });

  test.each(['', 'upstream', '=3'])('are rejected without a key: %j', async (set) => {
    expect(await refusal({ set: [set] })).toContain('expected key.path=value');
  });
});

describe('an unknown setting', () => {
  test.each([
    ['upstream.concurency', 'upstream.concurrency'],
    ['concurrency', 'upstream.concurrency'],
    ['upstream.requestsPerSecond', 'upstream.requests_per_second'],
    ['poll.overlap-minutes', 'poll.overlap_minutes'],
    ['poll.parts', 'archive.parts'],
  ])('%s suggests %s', async (given, meant) => {
    expect(await refusal({ set: [`${given}=1`] })).toBe(`--set: unknown setting ${given}: did you mean ${meant}?`);
  });

  test.each(['weather', '__proto__.x', 'constructor', 'upstream.toString', 'x'.repeat(10_000)])(
    'is refused without a guess where nothing is near: %s',
    async (given) => {
      const message = await refusal({ set: [`${given}=1`] });
      expect(message).toMatch(/unknown setting .*: config\/default.yaml lists every setting$/);
      expect(message.length).toBeLessThan(250);
    },
  );

  test('is rejected in a file by its path', async () => {
    const config = write('c.yaml', 'poll:\n  overlap_minuets: 3\n');
    expect(await refusal({ config })).toBe(
      `${join(folder, config)}:2: unknown setting poll.overlap_minuets: did you mean poll.overlap_minutes?`,
    );
    expect(await refusal({ config: write('d.yaml', '__proto__: {x: 1}') })).toContain('unknown setting __proto__');
  });

  test('that is a section lists its settings', async () => {
    expect(await refusal({ set: ['poll=1'] })).toContain('poll is a section: expected one of poll.overlap_minutes');
  });
});

describe('a config file', () => {
  test('may be empty or have its sections commented out', async () => {
    expect({ ...(await load({ config: write('a.yaml', '') })), configFile: null }).toEqual(await load());
    expect((await load({ config: write('b.yaml', 'poll:\n  # nothing\n') })).poll.pageLimit).toBe(5000);
  });

  test.each([
    ['a list at the top', '- 1', 'the file is [1]: expected a section with upstream'],
    ['a value for a section', 'poll: 3', 'poll is 3: expected a section with overlap_minutes'],
    ['a number for a string', 'source: {name: 12}', 'source.name is 12: expected a non-empty string or null; quote it'],
    [
      'a token id that lost its digits',
      `symbols: [${'7'.repeat(78)}]`,
      'expected a string of 1 to 1000 characters; quote it',
    ],
    ['a string for a number', "archive: {parts: '4'}", 'archive.parts is "4": expected a whole number from 1 to 1024'],
    ['nothing for a number', 'archive:\n  parts:\n', 'archive.parts is null: expected a whole number'],
    ['no number', 'archive: {parts: .nan}', 'archive.parts is NaN: expected a whole number'],
    ['a string for a list', 'symbols: A', 'symbols is "A": expected a list'],
    ['a key twice', 'log: {level: info}\nlog: {level: warn}', 'not valid YAML at line 2, column 1'],
    ['broken YAML', 'upstream: {api_key: hush', 'not valid YAML at line 1'],
    ['two documents', 'log: {}\n---\nlog: {}\n', 'not valid YAML'],
  ])('with %s is rejected', async (_, text, message) => {
    const refused = await refusal({ config: write('c.yaml', text) });
    expect(refused).toContain(message);
    expect(refused).toContain(join(folder, 'c.yaml'));
    expect(refused).not.toContain('hush');
  });

  test('is rejected if missing, a folder, not UTF-8 or too long', async () => {
    expect(await refusal({ config: 'none.yaml' })).toBe(
      `config file ${join(folder, 'none.yaml')}: there is no such file`,
    );
    expect(await refusal({ config: '.' })).toContain('it is a folder');
    expect(await refusal({ config: write('latin.yaml', new Uint8Array([0x23, 0xff])) })).toContain('cannot be read');
    expect(await refusal({ config: write('long.yaml', '#'.repeat(5_000_000)) })).toContain('longer than 4194304 bytes');
    expect(await refusal({ config: '' })).toContain('--config');
  });
});

describe('the key', () => {
  test('is read from a file relative to the config, and trimmed', async () => {
    write('there/key', ' sesame-1 \n');
    const config = write('there/c.yaml', 'upstream: {api_key_file: key}');
    const { upstream } = await load({ config });
    expect(upstream).toMatchObject({ apiKey: 'sesame-1', apiKeyFile: join(folder, 'there/key') });
  });

  test('replaces a key file of a lower level, and vice versa', async () => {
    write('key', 'from-file');
    const config = write('c.yaml', 'upstream: {api_key_file: missing}');
    const settings = await load({ config, env: { ODDSLAKE_API_KEY: 'from-env' } });
    expect(settings.upstream).toMatchObject({ apiKey: 'from-env', apiKeyFile: null });
    const other = write('d.yaml', 'upstream: {api_key: from-config}');
    expect((await load({ config: other, env: { ODDSLAKE_API_KEY_FILE: 'key' } })).upstream.apiKey).toBe('from-file');
  });

  test('is rejected if given twice in one source', async () => {
    write('key', 'sesame');
    const env = { ODDSLAKE_API_KEY: 'sesame', ODDSLAKE_API_KEY_FILE: 'key' };
    expect(await refusal({ env })).toBe(
      'ODDSLAKE_API_KEY: give either upstream.api_key or upstream.api_key_file, not both',
    );
  });

  test.each(['sesame\u0007', 'ses\name', 'sésame', 'x'.repeat(5000)])(
    'never appears in the refusal: %j',
    async (key) => {
      const refused = await refusal({ env: { ODDSLAKE_API_KEY: key } });
      expect(refused).toContain(
        'upstream.api_key is (hidden): expected one line of 1 to 4096 printable ASCII characters',
      );
      write('key', key);
      expect(await refusal({ set: ['upstream.api_key_file=key'] })).toContain('(hidden)');
    },
  );

  test('of another oddslake is separate from the key of the upstream', async () => {
    write('other', ' sesame-2 \n');
    const env = { ODDSLAKE_API_KEY: 'sesame-1', ODDSLAKE_FROM_API_KEY_FILE: 'other' };
    const settings = await load({ env });
    expect(settings.upstream.apiKey).toBe('sesame-1');
    expect(settings.repair).toEqual({ fromApiKey: 'sesame-2', fromApiKeyFile: join(folder, 'other') });
    expect((await load({ env: { ODDSLAKE_FROM_API_KEY: 'sesame-3' } })).repair.fromApiKey).toBe('sesame-3');
    expect(listSecrets(settings)).toEqual(expect.arrayContaining(['sesame-1', 'sesame-2']));
    expect(requireOtherUpstream(settings, 'https://other.example/')).toEqual({
      baseUrl: 'https://other.example',
      apiKey: 'sesame-2',
    });
    const refused = await refusal({ env: { ODDSLAKE_FROM_API_KEY: 'ses\u0007ame' } });
    expect(refused).toContain('ODDSLAKE_FROM_API_KEY: repair.from_api_key is (hidden): expected one line');
  });

  test('of another oddslake is required, and its URL is validated', async () => {
    const settings = await load({});
    expect(() => requireOtherUpstream(settings, 'https://other.example')).toThrow(
      'No key for https://other.example: set ODDSLAKE_FROM_API_KEY or ODDSLAKE_FROM_API_KEY_FILE',
    );
    expect(() => requireOtherUpstream(settings, 'https://user:hush@other.example')).toThrow(
      /^--from-url is \(hidden\): expected/,
    );
    expect(() => requireOtherUpstream(settings, 'other')).toThrow(
      '--from-url is "other": expected an http or https URL',
    );
  });

  test('of a wrong type is hidden too', async () => {
    const refused = await refusal({ config: write('c.yaml', 'upstream: {api_key: 9182736455}') });
    expect(refused).toContain('upstream.api_key is (hidden): expected');
    expect(refused).not.toContain('91827364');
  });

  test('file is rejected if missing, empty or blank', async () => {
    expect(await refusal({ env: { ODDSLAKE_API_KEY_FILE: 'none' } })).toContain('none: there is no such file');
    write('key', '\n');
    expect(await refusal({ env: { ODDSLAKE_API_KEY_FILE: 'key' } })).toContain('expected one line of 1 to 4096');
  });
});

describe('the upstream', () => {
  test('loses its trailing slash', async () => {
    const at = async (url: string) => (await load({ env: { ODDSLAKE_BASE_URL: url } })).upstream.baseUrl;
    expect(await at('https://Example.org/')).toBe('https://example.org');
    expect(await at('http://127.0.0.1:8080/prefix//')).toBe('http://127.0.0.1:8080/prefix');
  });

  test.each(['ftp://example.org', 'file:///etc', 'https://'])('is rejected: %s', async (url) => {
    expect(await refusal({ env: { ODDSLAKE_BASE_URL: url } })).toBe(
      `ODDSLAKE_BASE_URL: upstream.base_url is "${url}": expected an http or https URL without credentials, query or fragment`,
    );
  });

  test.each([
    ['example.org', 'https://example.org'],
    ['api.example.org:8443/v1', 'https://api.example.org:8443/v1'],
    ['localhost:8080', 'http://localhost:8080'],
    ['127.0.0.1:8080', 'http://127.0.0.1:8080'],
  ])('without a scheme is rejected with the one that is probably meant: %s', async (url, meant) => {
    expect(await refusal({ env: { ODDSLAKE_BASE_URL: url } })).toBe(
      `ODDSLAKE_BASE_URL: upstream.base_url is "${url}": expected an http or https URL without credentials, query or fragment: did you mean ${meant}?`,
    );
  });

  test.each(['https://me:hush@example.org', 'https://hush@example.org', 'https://example.org/?key=hush', 'x:hush@y'])(
    'with a secret in it is refused without showing it: %s',
    async (url) => {
      const refused = await refusal({ env: { ODDSLAKE_BASE_URL: url } });
      expect(refused).toContain('(hidden)');
      expect(refused).not.toContain('hush');
    },
  );

  test('is required only if used, and the error names the variable', async () => {
    const settings = await load();
    expect(() => requireUpstream(settings)).toThrow(/set ODDSLAKE_BASE_URL/);
    const keyless = await load({ env: { ODDSLAKE_BASE_URL: 'https://example.org' } });
    expect(() => requireUpstream(keyless)).toThrow(UsageError);
    expect(() => requireUpstream(keyless)).toThrow(/set ODDSLAKE_API_KEY or ODDSLAKE_API_KEY_FILE/);
    const whole = await load({ env: { ODDSLAKE_BASE_URL: 'https://example.org', ODDSLAKE_API_KEY: 'k' } });
    expect(requireUpstream(whole)).toEqual({ baseUrl: 'https://example.org', apiKey: 'k' });
  });
});

describe('settings that depend on each other', () => {
  test('the shortest delay of retries is at most the longest', async () => {
    const [min, max] = ['upstream.retry_delay_seconds_min', 'upstream.retry_delay_seconds_max'];
    expect((await load({ set: [`${min}=90`, `${max}=90`] })).upstream.retryDelaySecondsMin).toBe(90);
    expect(await refusal({ set: [`${min}=90`] })).toBe(
      `--set: ${min} is 90: expected ${min} (90) to be at most ${max} (30)`,
    );
    expect(await refusal({ set: [`${max}=0.1`] })).toMatch(new RegExp(`^--set: ${max} is 0.1: expected`));
  });

  test('the minimum delay is at most the maximum', async () => {
    expect(await refusal({ set: ['upstream.retry_delay_seconds_min=31'] })).toContain('to be at most');
  });
});

test('settings are deeply frozen', async () => {
  const settings = await load({ set: ['symbols=A'] });
  const frozen = [settings, settings.archive, settings.symbols, settings.source.fieldPaths.outcome];
  for (const value of frozen) expect(Object.isFrozen(value)).toBe(true);
});
