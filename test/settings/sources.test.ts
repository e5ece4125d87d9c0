import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { UsageError } from '../../src/base/errors.ts';
import { listChosenSettings, loadSettings, type SettingSources } from '../../src/settings/load.ts';
import { listSecrets, listSourceSettings, requireUpstream, selectSource } from '../../src/settings/settings.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sources-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function write(text: string): string {
  writeFileSync(join(folder, 'c.yaml'), text);
  return 'c.yaml';
}

const load = (text: string, sources: Partial<SettingSources> = {}) =>
  loadSettings({ env: {}, cwd: folder, config: write(text), ...sources });

async function refusal(text: string, sources: Partial<SettingSources> = {}): Promise<string> {
  const error = await load(text, sources).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(UsageError);
  return (error as Error).message;
}

const two = `
sources:
  alpha: {base_url: "https://a.test/", api_key: key-a, requests_per_second: 7, views: [live]}
  beta: {base_url: "https://b.test", api_key: key-b, field_paths: {question: [q]}}
`;

test('a source has its own settings, and those of the sections where it has none', async () => {
  const { sources, sourceName } = await load(`${two}upstream: {requests_per_second: 2, concurrency: 3}\n`);
  expect(sourceName).toBeNull();
  expect(sources.map(({ name }) => name)).toEqual(['alpha', 'beta']);
  const [alpha, beta] = sources;
  expect(alpha!.upstream).toMatchObject({
    baseUrl: 'https://a.test',
    apiKey: 'key-a',
    requestsPerSecond: 7,
    concurrency: 3,
  });
  expect(beta!.upstream).toMatchObject({ baseUrl: 'https://b.test', requestsPerSecond: 2, concurrency: 3 });
  expect([alpha!.source.views, beta!.source.views]).toEqual([['live'], ['matched', 'resolving']]);
  expect(beta!.source.fieldPaths).toMatchObject({ question: ['q'], outcome: ['outcome', 'result'] });
});

test('without sources there is one service', async () => {
  const settings = await load('upstream: {base_url: "https://a.test"}\nsources:\n');
  expect(settings.sources).toEqual([]);
  expect(listSourceSettings(settings)).toEqual([settings]);
});

test('the settings of a source are those of a run that collects it', async () => {
  const settings = await load(`${two}orderbooks: {symbols: ["beta:X"]}\n`);
  const alpha = selectSource(settings, 'alpha');
  expect(requireUpstream(alpha)).toEqual({ baseUrl: 'https://a.test', apiKey: 'key-a' });
  expect(alpha.orderbooks.symbols).toEqual([]);
  expect(selectSource(settings, 'beta').orderbooks.symbols).toEqual(['beta:X']);
  expect(listSourceSettings(settings).map(({ sourceName }) => sourceName)).toEqual(['alpha', 'beta']);
  expect(listSecrets(settings)).toEqual(expect.arrayContaining(['key-a', 'key-b']));
});

test('variables and flags set those of a named source, and a key file replaces a key', async () => {
  writeFileSync(join(folder, 'key'), ' from-file\n');
  const env = {
    ODDSLAKE_BASE_URL_ALPHA: 'https://other.test',
    ODDSLAKE_API_KEY_FILE_ALPHA: 'key',
    ODDSLAKE_REQUESTS_PER_SECOND_ALPHA: '3',
    ODDSLAKE_API_KEY_B_2: 'key-b-2',
    ODDSLAKE_API_KEY_GAMMA: 'ignored',
  };
  const text = 'sources:\n  alpha: {api_key: key-a}\n  b-2: {base_url: "https://b.test"}\n';
  const { sources } = await load(text, {
    env,
    set: ['sources.alpha.concurrency=9', 'sources.b-2.requests_per_second=1'],
  });
  expect(sources[0]!.upstream).toMatchObject({
    baseUrl: 'https://other.test',
    apiKey: 'from-file',
    apiKeyFile: join(folder, 'key'),
    requestsPerSecond: 3,
    concurrency: 9,
  });
  expect(sources[1]!.upstream).toMatchObject({ apiKey: 'key-b-2', requestsPerSecond: 1 });
  expect(sources).toHaveLength(2);
});

test('the address and the key of one service are refused beside sources', async () => {
  for (const env of [{ ODDSLAKE_BASE_URL: 'https://x.test' }, { ODDSLAKE_API_KEY: 'secret-key' }]) {
    const message = await refusal(two, { env });
    expect(message).toContain(Object.keys(env)[0]);
    expect(message).toMatch(
      /sources alpha, beta: set sources\.alpha\.(base_url|api_key) or ODDSLAKE_(BASE_URL|API_KEY)_ALPHA/,
    );
    expect(message).not.toContain('secret-key');
  }
  expect(await refusal(`${two}source: {name: x}\n`)).toMatch(/source\.name belongs to an archive of one service/);
});

test.each([
  ['sources: [alpha]', /sources is \["alpha"\]: expected a section with one section for each source/],
  ['sources: {Alpha: {}}', /sources has "Alpha": expected 1 to 32 characters of a-z, 0-9 and -/],
  ['sources: {file-a: {}}', /sources has "file-a": expected .* not file/],
  [
    'sources: {alpha: {base_ulr: x}}',
    /unknown setting sources\.alpha\.base_ulr: did you mean sources\.alpha\.base_url\?/,
  ],
  ['sources: {alpha: {name: x}}', /unknown setting sources\.alpha\.name/],
  ['sources: {alpha: {linger_days: 3}}', /unknown setting sources\.alpha\.linger_days/],
  ['sources: {alpha: {concurrency: many}}', /sources\.alpha\.concurrency is "many": expected a whole number/],
  ['sources: {alpha: {api_key: 7}}', /sources\.alpha\.api_key is \(hidden\)/],
  ['sources: {alpha: {base_url: "ftp://a"}}', /: sources\.alpha\.base_url is "ftp:\/\/a"/],
  ['sources: {alpha: {api_key: a, api_key_file: b}}', /either sources\.alpha\.api_key or sources\.alpha\.api_key_file/],
  [
    'sources: {alpha: {retry_delay_seconds_min: 99}}',
    /sources\.alpha\.retry_delay_seconds_min is 99: expected sources\.alpha\.retry_delay_seconds_min \(99\) to be at most/,
  ],
  [`${two}symbols: [KX]\n`, /symbols is "KX": expected a symbol with its source, e\.g\. alpha:KX/],
  [`${two}symbols: ["alpha:KX"]\n`, /symbols of every source, or none at all: beta has none/],
])('refuses %j', async (text, why) => {
  expect(await refusal(text)).toMatch(why);
});

test('a source without an address or a key is named', async () => {
  const settings = await load('sources: {alpha: {}, beta: {base_url: "https://b.test"}}');
  expect(() => requireUpstream(selectSource(settings, 'alpha'))).toThrow(
    'No address of the source alpha: set ODDSLAKE_BASE_URL_ALPHA',
  );
  expect(() => requireUpstream(selectSource(settings, 'beta'))).toThrow(
    'No key for https://b.test: set ODDSLAKE_API_KEY_BETA or ODDSLAKE_API_KEY_FILE_BETA',
  );
});

test('the doctor lists the settings of a source, without its key', async () => {
  const chosen = await listChosenSettings({ env: {}, cwd: folder, config: write(two) });
  const values = new Map(chosen.map(({ path, value }) => [path, value]));
  expect(values.get('sources.alpha.api_key')).toBe('(hidden)');
  expect(values.get('sources.alpha.requests_per_second')).toBe('7');
});
