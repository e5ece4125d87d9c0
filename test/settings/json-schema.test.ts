import { globSync, readFileSync } from 'node:fs';
import { Ajv, type ValidateFunction } from 'ajv';
import { beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { UsageError } from '../../src/base/errors.ts';
import { formatConfig } from '../../src/cli/init-config.ts';
import { parseDocumentLayer } from '../../src/settings/layers.ts';
import { buildConfigSchema } from '../docs/config-schema.ts';
import { expectUpToDate, project } from '../docs/kept-current.ts';
import { parseComments } from '../docs/yaml-comments.ts';

const read = (path: string): string => readFileSync(project + path, 'utf8');

let validate: ValidateFunction;
beforeAll(() => {
  const schema = buildConfigSchema(parseComments(read('config/default.yaml')));
  expectUpToDate('config/schema.json', `${JSON.stringify(schema, null, 2)}\n`);
  validate = new Ajv({ allErrors: true, allowUnionTypes: true }).compile(JSON.parse(read('config/schema.json')));
});
const isValid = (yaml: string): boolean => validate(parse(yaml));
/** Whether the program accepts the keys and values of a config. */
function isAccepted(yaml: string): boolean {
  try {
    parseDocumentLayer(parse(yaml, { stringKeys: true }), 'c.yaml');
    return true;
  } catch (error) {
    if (error instanceof UsageError) return false;
    throw error;
  }
}

test('the configs of the package are valid', () => {
  const configs = globSync(['config/default.yaml', 'deploy/oddslake.yaml'], { cwd: project });
  expect(configs).toEqual(expect.arrayContaining(['config/default.yaml', 'deploy/oddslake.yaml']));
  for (const path of configs)
    expect(validate(parse(read(path))), `${path}: ${JSON.stringify(validate.errors)}`).toBe(true);
  const chosen = new Map<string, unknown>([
    ['upstream.base_url', 'https://example.org'],
    ['symbols', ['1', 'true']],
    ['source.name', 'null'],
  ]);
  expect(isValid(formatConfig(chosen))).toBe(true);
});

test.each([
  '',
  'poll:\n',
  'poll: {page_limit: 7}',
  'upstream: {api_key: null, request_deadline_seconds: 0.1}',
  'schedule: {nightly: null, ticks: "@hourly"}',
  'archive: {candles: []}',
  'symbols: [A, "7"]',
  'sources: {alpha: {base_url: "https://a", symbol_paths: [x]}, b-2: }',
  'sources:\n',
])('accepts what the program accepts: %j', (yaml) => {
  expect([isValid(yaml), isAccepted(yaml)]).toEqual([true, true]);
});

test.each([
  'weather: 1',
  'poll: {pagelimit: 7}',
  'poll: 7',
  'poll: {page_limit: 0}',
  'poll: {page_limit: 2.5}',
  'poll: {page_limit: "7"}',
  'poll: {page_limit: null}',
  'poll: {recheck_share: lots}',
  'upstream: {request_deadline_seconds: 0}',
  'upstream: {api_key: ""}',
  'archive: {candles: [5m]}',
  'symbols: [A, 7]',
  'symbols: A',
  'log: {level: loud}',
  'service: {tokens: {secret: short}}',
  'service: {metrics_key: "a key with spaces in it"}',
  'sources: {ALPHA: {}}',
  'sources: {file: {}}',
  'sources: {alpha: {name: x}}',
  'sources: {alpha: {linger_days: 1}}',
  'sources: {alpha: {concurrency: 0}}',
  'sources: [alpha]',
  '- 1',
])('rejects what the program rejects: %j', (yaml) => {
  expect([isValid(yaml), isAccepted(yaml)]).toEqual([false, false]);
});
