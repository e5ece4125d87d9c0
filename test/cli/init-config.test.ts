import { existsSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { formatConfig } from '../../src/cli/init-config.ts';
import { isValid, parseDocumentLayer, settingSchemas } from '../../src/settings/source.ts';

test('writes chosen settings with comments and a pointer to all others', () => {
  const text = formatConfig(
    new Map<string, unknown>([
      ['upstream.base_url', 'https://example.org:8443/api'],
      ['upstream.api_key_file', '../key file'],
      ['archive.output', 'lake'],
      ['poll.page_limit', 1000],
    ]),
  );
  const [, pointer] = text.split('\n');
  expect(existsSync(pointer!.slice(pointer!.indexOf('/')))).toBe(true);
  expect(text.split('\n').slice(2)).toEqual([
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
