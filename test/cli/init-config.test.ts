import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import {
  createDisk,
  type Disk,
  type FileSystemCalls,
  systemCalls,
  systemDisk,
} from '../../src/archive/disk/file-system.ts';
import { archiveExists, openArchive } from '../../src/archive/open-archive.ts';
import { collectAnswers, formatConfig, formatSchemaReference, writeConfig } from '../../src/cli/init-config.ts';
import { isValid, parseDocumentLayer, parseTextLayer, settingSchemas } from '../../src/settings/layers.ts';

test('writes chosen settings with comments and a pointer to all others', () => {
  const text = formatConfig(
    new Map<string, unknown>([
      ['upstream.base_url', 'https://example.org:8443/api'],
      ['upstream.api_key_file', '../key file'],
      ['archive.output', 'lake'],
      ['poll.page_limit', 1000],
    ]),
  );
  const [, , pointer] = text.split('\n');
  expect(existsSync(pointer!.slice(pointer!.indexOf('/')))).toBe(true);
  expect(text.split('\n').slice(3)).toEqual([
    '',
    '# The market data service.',
    'upstream:',
    '  # Its base URL.',
    '  base_url: https://example.org:8443/api',
    '  # File that holds the market data key.',
    '  api_key_file: "../key file"',
    '',
    'poll:',
    '  page_limit: 1000',
    '',
    'archive:',
    "  # The archive's root.",
    '  output: lake',
    '',
  ]);
});

test('names the source of the key if there is no key file', () => {
  expect(formatConfig(new Map([['upstream.base_url', 'http://h']]))).toContain('key is read from ODDSLAKE_API_KEY');
});

test('any chosen texts survive writing and reading a config', () => {
  const awkward = fc.constantFrom(
    'null',
    'yes',
    '1e3',
    '0x10',
    '~',
    '- a',
    'a: b',
    '# c',
    '*x',
    '2026-01-01',
    ':',
    'a:',
  );
  const text = fc.oneof(awkward, fc.string({ minLength: 1, unit: 'grapheme' }), fc.string({ minLength: 1 }));
  const value = fc.oneof(
    text,
    fc.double().map((n) => n + 0),
    fc.integer(),
    fc.constant(null),
    fc.array(text, { maxLength: 3 }),
  );
  const choice = fc
    .tuple(fc.constantFrom(...settingSchemas), value)
    .filter(([[, leaf], any]) => isValid(leaf, any))
    .map(([[path], any]): [string, unknown] => [path, any]);
  fc.assert(
    fc.property(fc.array(choice, { maxLength: 6 }), (choices) => {
      const chosen = new Map(choices);
      const { values } = parseDocumentLayer(parse(formatConfig(chosen), { stringKeys: true }), 'test');
      expect(new Map(values)).toEqual(chosen);
    }),
    { numRuns: 500 },
  );
});

test('writes sections in the order of default.yaml', () => {
  const text = formatConfig(
    new Map<string, unknown>([
      ['poll.page_limit', 10],
      ['archive.output', 'lake'],
      ['upstream.base_url', 'https://example.org'],
    ]),
  );
  expect(text.match(/^\w+:/gm)).toEqual(['upstream:', 'poll:', 'archive:']);
});

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'oddslake-init-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Gives these answers in order; further questions fail the test. */
function person(...answers: string[]) {
  const requested: string[] = [];
  const reported: string[] = [];
  const ask = async (question: string): Promise<string> => {
    requested.push(question);
    const answer = answers.shift();
    if (answer === undefined) throw new Error(`requested too much: ${question}`);
    return answer;
  };
  return {
    requested,
    reported,
    ask,
    askHidden: (question: string) => ask(`(hidden) ${question}`),
    print: (text: string) => void reported.push(text),
  };
}

const url = parseTextLayer('upstream.base_url', 'https://example.org', '--base-url');

describe('on a terminal', () => {
  test('asks for missing settings with defaults, and writes only chosen ones', async () => {
    const someone = person('https://example.org/', '', '', '', '');
    const { chosen, settings, typedKey } = await collectAnswers('/base', [], someone);
    expect(typedKey).toBeNull();
    expect(someone.requested).toEqual([
      'URL of the market data service, e.g. https://example.org: ',
      '(hidden) Market data key, which is not shown while you type or paste it [none, from ODDSLAKE_API_KEY]: ',
      'Requests per second that the key allows [5]: ',
      'Folder of the archive [output/archive]: ',
      'Name of the service in the archive [https://example.org]: ',
    ]);
    expect([...chosen]).toEqual([
      ['upstream.base_url', 'https://example.org/'],
      ['archive.output', 'output/archive'],
    ]);
    expect(settings.archive.output).toBe('/base/output/archive');
  });

  test('repeats a question after an invalid answer, with what was expected and without the answer', async () => {
    const answers = [
      '',
      'ftp://x',
      'example.org',
      ' https://example.org ',
      'key\u00e9',
      ' secret-1234 ',
      '0',
      '2.5',
      'lake',
    ];
    const someone = person(...answers, 'box secret-1234', 'box');
    const { chosen, settings, typedKey } = await collectAnswers('/base', [], someone);
    const address = 'Expected an http or https URL without credentials, query or fragment';
    expect(someone.reported).toEqual([
      'A value is required.',
      `${address}.`,
      `${address}: did you mean https://example.org?`,
      'Expected one line of 1 to 4096 printable ASCII characters.',
      'Expected a number from 0.001 to 100000.',
      'That is the key, which is already known.',
    ]);
    expect(Object.fromEntries(chosen)).toEqual({
      'upstream.base_url': 'https://example.org',
      'upstream.requests_per_second': 2.5,
      'archive.output': 'lake',
      'source.name': 'box',
    });
    expect([typedKey, settings.upstream.apiKey]).toEqual(['secret-1234', 'secret-1234']);
  });

  test('does not ask for given settings, nor for the key if it or its file is given', async () => {
    const base = folder();
    writeFileSync(join(base, 'key'), 'secret-1234\n');
    for (const [path, text] of [
      ['upstream.api_key', 'secret-1234'],
      ['upstream.api_key_file', 'key'],
    ] as const) {
      const someone = person('', '', '');
      const { chosen, typedKey } = await collectAnswers(base, [url, parseTextLayer(path, text, 'given')], someone);
      expect(someone.requested).toHaveLength(3);
      expect(typedKey).toBeNull();
      expect([...chosen.keys()].filter((key) => key !== 'upstream.api_key_file')).toEqual([
        'upstream.base_url',
        'archive.output',
      ]);
    }
  });
});

describe('without a terminal', () => {
  test('needs only the address of the service', async () => {
    const rate = parseTextLayer('upstream.requests_per_second', '20', '--rate');
    const { chosen } = await collectAnswers('/base', [url, rate], null);
    expect(Object.fromEntries(chosen)).toEqual({
      'upstream.base_url': 'https://example.org',
      'upstream.requests_per_second': 20,
      'archive.output': 'output/archive',
    });
  });

  test('names a missing setting', async () => {
    await expect(collectAnswers('/base', [], null)).rejects.toThrow(/--base-url.*ODDSLAKE_BASE_URL/);
  });
});

function makeFolder(): string {
  const path = mkdtempSync(join(tmpdir(), 'oddslake-place-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

const text = 'upstream:\n  base_url: https://box.test\n';

function init(disk: Disk, at: string): boolean {
  return writeConfig(disk, join(at, 'oddslake.yaml'), text, () => {
    const root = join(at, 'lake');
    const isNew = !archiveExists(root, disk);
    const upstream = 'https://box.test';
    openArchive({ root, create: true, upstream, parts: 2, writer: 'test' }, disk).close();
    return isNew;
  });
}

/** A disk of a process that is killed before its n-th change: later changes have no effect. */
function dying(at: number): { disk: Disk; changes: () => number } {
  let changes = 0;
  const calls = Object.fromEntries(
    Object.entries(systemCalls).map(([name, call]) => [
      name,
      (...args: unknown[]) => {
        if (name === 'close') return (call as (...given: unknown[]) => unknown)(...args);
        changes++;
        if (changes >= at) throw new Error('killed');
        return (call as (...given: unknown[]) => unknown)(...args);
      },
    ]),
  ) as unknown as FileSystemCalls;
  return { disk: createDisk(calls), changes: () => changes };
}

test('init can be repeated after it was killed at any point', () => {
  const calm = dying(Number.POSITIVE_INFINITY);
  const undisturbed = makeFolder();
  expect(init(calm.disk, undisturbed)).toBe(true);
  const left = readdirSync(undisturbed).sort();
  expect(left).toEqual(['lake', 'oddslake.yaml']);
  let refused = 0;
  for (let at = 1; at <= calm.changes(); at++) {
    const place = makeFolder();
    expect(() => init(dying(at).disk, place), `killed at ${at}`).toThrow();
    if (readdirSync(place).includes('oddslake.yaml')) {
      expect(archiveExists(join(place, 'lake'), systemDisk), `killed at ${at}`).toBe(true);
      expect(() => init(systemDisk, place)).toThrow(/already exists/);
      refused++;
    } else init(systemDisk, place);
    expect(readFileSync(join(place, 'oddslake.yaml'), 'utf8'), `killed at ${at}`).toBe(text);
    expect(readdirSync(place).sort(), `killed at ${at}`).toEqual(left);
  }
  // Only if just the cleanup was left.
  expect(refused).toBeLessThanOrEqual(3);
});

test('keeps an existing file, and leaves nothing behind if the archive cannot be created', () => {
  const at = makeFolder();
  const file = join(at, 'oddslake.yaml');
  const broken = (): never => {
    throw new Error('no archive');
  };
  expect(() => writeConfig(systemDisk, file, text, broken)).toThrow('no archive');
  expect(readdirSync(at)).toEqual([]);
  writeFileSync(file, 'mine');
  expect(() => writeConfig(systemDisk, file, text, () => null)).toThrow(/already exists/);
  expect([readFileSync(file, 'utf8'), readdirSync(at)]).toEqual(['mine', ['oddslake.yaml']]);
});

test('reports a full disk and leaves nothing behind', () => {
  const at = makeFolder();
  const write = (): never => {
    throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
  };
  expect(() => writeConfig(createDisk({ ...systemCalls, write }), join(at, 'a.yaml'), text, () => null)).toThrow(
    expect.objectContaining({ exitCode: 1, message: expect.stringContaining('The disk is full') }),
  );
  expect(readdirSync(at)).toEqual([]);
});

test('works on a file system without hard links', () => {
  const at = makeFolder();
  const link = (): never => {
    throw Object.assign(new Error('no links'), { code: 'EPERM' });
  };
  expect(writeConfig(createDisk({ ...systemCalls, link }), join(at, 'a.yaml'), text, () => 7)).toBe(7);
  expect([readFileSync(join(at, 'a.yaml'), 'utf8'), readdirSync(at)]).toEqual([text, ['a.yaml']]);
});

test('the reference to the schema is relative only if the package is below the config, and has no space', () => {
  const schema = '/home/a/lake/node_modules/oddslake/config/schema.json';
  expect(formatSchemaReference('/home/a/lake', schema)).toBe('./node_modules/oddslake/config/schema.json');
  expect(formatSchemaReference('/home/a/lake/conf', schema)).toBe(schema);
  expect(formatSchemaReference('/etc', '/usr/lib/node_modules/oddslake/config/schema.json')).toBe(
    '/usr/lib/node_modules/oddslake/config/schema.json',
  );
  expect(formatSchemaReference('/etc', '/a b/50%/schema.json')).toBe('file:///a%20b/50%25/schema.json');
});

test('a config names its schema in the first line, and the file is there', () => {
  const [, named] = /^# yaml-language-server: \$schema=(\S+)\n/.exec(formatConfig(new Map())) ?? [];
  expect(JSON.parse(readFileSync(named!, 'utf8'))).toMatchObject({ title: 'Config file of oddslake' });
});
