import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { Value } from 'typebox/value';
import { describe, expect, test } from 'vitest';
import { readConfigFile } from '../../src/settings/config-file.ts';
import {
  defaultLayer,
  describeExpected,
  isValid,
  readEnvironmentLayers,
  settingSchemas,
} from '../../src/settings/layers.ts';
import { settingsSchema } from '../../src/settings/setting-table.ts';
import { checkProperty } from '../harness/properties.ts';

const defaultFile = new URL('../../config/default.yaml', import.meta.url).pathname;

describe('config/default.yaml', () => {
  test('has exactly the keys of the schema, with their defaults', async () => {
    const [layer] = await readConfigFile(defaultFile);
    expect([...layer!.values]).toEqual([...defaultLayer.values]);
  });

  test('describes every key with the words of its error message', () => {
    const printed = commentsByKey(readFileSync(defaultFile, 'utf8'));
    for (const [path, leaf] of settingSchemas) {
      expect(printed.get(path.split('.').at(-1)!), path).toContainEqual(
        expect.stringContaining(`(${describeExpected(leaf)})`),
      );
    }
  });
});

test('config/example.env names only variables that are read', () => {
  const text = readFileSync(new URL('../../config/example.env', import.meta.url), 'utf8');
  const named = [...text.matchAll(/^#?(ODDSLAKE_[A-Z_]+)=/gm)].map(([, name]) => name!);
  expect(named.length).toBe(15);
  for (const name of named.filter((name) => name !== 'ODDSLAKE_CONFIG')) {
    expect(readEnvironmentLayers({ [name]: name.endsWith('SECOND') ? '1' : 'x'.repeat(32) }), name).toHaveLength(1);
  }
});

describe('the schema', () => {
  test('is a JSON Schema that accepts its defaults', () => {
    for (const [path, leaf] of settingSchemas) expect(isValid(leaf, leaf.default), path).toBe(true);
    expect(Value.Check(settingsSchema, {})).toBe(false);
    const poll = {
      overlap_minutes: 60,
      overlap_minutes_max: 1440,
      settle_hours: 24,
      pieces: true,
      recheck_share: 0.01,
      page_limit: 5000,
      future_skew_seconds: 300,
    };
    expect(Value.Check(settingsSchema.properties.poll, poll)).toBe(true);
    expect(Value.Check(settingsSchema.properties.poll, { ...poll, other: 1 })).toBe(false);
  });

  test('validates like a JSON Schema validator', () => {
    const value = fc.oneof(
      fc.constantFrom(null, undefined, true, '', 'info', 'x'.repeat(201), {}, [], Number.NaN, Number.POSITIVE_INFINITY),
      fc.constantFrom(0, -0, 1, 0.25, 4, 1024, 1025, 3600, 3600.5, 100_000, 100_001, -1, '4'),
      fc.double(),
      fc.integer(),
      fc.array(fc.oneof(fc.string(), fc.integer())),
    );
    checkProperty(
      [fc.constantFrom(...settingSchemas), value],
      5000,
      ([, leaf], any) => isValid(leaf, any) === Value.Check(leaf, any),
    );
  });
});

/** The comments above each key, by the last name of the key. */
function commentsByKey(yaml: string): Map<string, string[]> {
  const printed = new Map<string, string[]>();
  let comment = '';
  for (const line of yaml.split('\n')) {
    const key = /^ *([a-z_]+):/.exec(line)?.[1];
    if (key === undefined) comment = line.trim().startsWith('#') ? comment + line.trim().slice(1) : '';
    else {
      printed.set(key, [...(printed.get(key) ?? []), comment]);
      comment = '';
    }
  }
  return printed;
}
