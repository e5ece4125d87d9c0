import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createShapeSample } from '../../../src/archive/journal/schema-drift.ts';
import { checkProperty } from '../../harness/properties.ts';

const pathsOf = (...records: unknown[]): string[] => {
  const sample = createShapeSample();
  for (const record of records) sample.add(record);
  return [...sample.inferShape()!.keys()].sort();
};

test('counts fields by path, among the objects that could have them', () => {
  const sample = createShapeSample();
  sample.add({ a: 1, list: [{ x: 'one' }, { x: 2 }, {}] });
  sample.add({ a: null, list: [] });
  sample.add(7);
  sample.add(true);
  expect(Object.fromEntries(sample.inferShape()!)).toEqual({
    '': { of: 4, types: { object: 2, number: 1, boolean: 1 }, isMap: false },
    a: { of: 2, types: { number: 1, null: 1 }, isMap: false },
    list: { of: 2, types: { array: 2 }, isMap: false },
    'list/*': { of: 3, types: { object: 3 }, isMap: false },
    'list/*/x': { of: 3, types: { string: 1, number: 1 }, isMap: false },
  });
});

test('distinguishes names that look like paths from paths', () => {
  expect(pathsOf({ 'a/b': 1, a: { b: 2 }, '*': 3, '': 4, __proto__: 5 })).toEqual(['', 'a', 'a/b', 'a~1b', '~', '~*']);
  expect(pathsOf(JSON.parse('{"__proto__": 1, "constructor": 2}'))).toEqual(['', '__proto__', 'constructor']);
});

test('treats an object with too many names as a map, and gives up on too many fields', () => {
  const wide = (from: number, count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${from + i}`, { z: 1 }]));
  expect(pathsOf({ fine: 1, map: wide(0, 60) }, { fine: 1, map: wide(60, 60) })).toEqual(['', 'fine', 'map']);
  const sample = createShapeSample();
  sample.add(wide(0, 60));
  for (let i = 0; i < 60; i++) sample.add({ [`k${i}`]: wide(100 * i, 60) });
  expect(sample.inferShape()).toBeNull();
});

test('accepts any JSON, and a long list costs no more than a short one', () => {
  checkProperty([fc.array(fc.jsonValue())], 100, (values) => {
    const sample = createShapeSample();
    for (const value of values) sample.add(value);
    expect(sample.inferShape()?.get('')?.of ?? 0).toBe(values.length);
  });
  const sample = createShapeSample();
  sample.add(Array.from({ length: 100_000 }, (_, i) => ({ i })));
  expect(sample.inferShape()!.get('*')!.of).toBe(16);
});

/** An object of `count` names, with values from `value`. */
const wide = (count: number, value: (i: number) => unknown = () => 1, from = 0): Record<string, unknown> =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${from + i}`, value(from + i)]));

test('finds fields up to five levels below the record', () => {
  expect(pathsOf({ a: { a: { a: { a: { a: { a: 1 } } } } } })).toEqual([
    '',
    'a',
    'a/a',
    'a/a/a',
    'a/a/a/a',
    'a/a/a/a/a',
  ]);
  expect(pathsOf([[[[[[1]]]]]])).toEqual(['', '*', '*/*', '*/*/*', '*/*/*/*', '*/*/*/*/*']);
});

test('treats 65 names as a map and 64 as fields, and keeps the fields beside it', () => {
  expect(pathsOf(wide(64))).toHaveLength(65);
  expect(pathsOf(wide(65))).toEqual(['']);
  expect(pathsOf({ map: wide(65, () => ({ deep: 1 })), mapped: { map: 1 } })).toEqual([
    '',
    'map',
    'mapped',
    'mapped/map',
  ]);
  const sample = createShapeSample();
  sample.add({ map: wide(65) });
  expect(sample.inferShape()!.get('map')).toEqual({ of: 1, types: { object: 1 }, isMap: true });
  sample.add({ map: wide(3), other: 1 });
  expect([...sample.inferShape()!.keys()]).toEqual(['', 'map', 'other']);
});

test('gives up above 2,000 fields', () => {
  const inferOf = (fields: number) => {
    const sample = createShapeSample();
    // The record, 40 fields, and 49 in each: 2,001.
    sample.add(wide(40, (i) => wide(i === 0 ? 49 - (2001 - fields) : 49)));
    return sample.inferShape();
  };
  expect(inferOf(2000)!.size).toBe(2000);
  expect(inferOf(2001)).toBeNull();
});

test('treats names with the same first hundred characters as one field', () => {
  const name = 'n'.repeat(99);
  expect(pathsOf({ [`${name}ab`]: 1, [`${name}ac`]: 1, [`${name}b`]: 1 })).toEqual(['', `${name}a`, `${name}b`]);
});

test('samples sixteen elements of a longer list, including the first and the last', () => {
  const namesOf = (length: number) =>
    pathsOf([Array.from({ length }, (_, i) => ({ [`k${i}`]: 1 }))]).filter((path) => path.includes('k'));
  expect(namesOf(16)).toHaveLength(16);
  expect(namesOf(31)).toEqual(Array.from({ length: 16 }, (_, i) => `*/*/k${2 * i}`).sort());
});
