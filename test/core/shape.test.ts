import fc from 'fast-check';
import { expect, test } from 'vitest';
import { startShape } from '../../src/core/shape.ts';

const pathsOf = (...records: unknown[]): string[] => {
  const sample = startShape();
  for (const record of records) sample.add(record);
  return [...sample.shape()!.keys()].sort();
};

test('fields are counted by path, of those objects that could have them', () => {
  const sample = startShape();
  sample.add({ a: 1, list: [{ x: 'one' }, { x: 2 }, {}] });
  sample.add({ a: null, list: [] });
  sample.add(7);
  expect(Object.fromEntries(sample.shape()!)).toEqual({
    '': { of: 3, types: { object: 2, number: 1 }, isMap: false },
    a: { of: 2, types: { number: 1, null: 1 }, isMap: false },
    list: { of: 2, types: { array: 2 }, isMap: false },
    'list/*': { of: 3, types: { object: 3 }, isMap: false },
    'list/*/x': { of: 3, types: { string: 1, number: 1 }, isMap: false },
  });
});

test('names that look like paths are kept apart from paths', () => {
  expect(pathsOf({ 'a/b': 1, a: { b: 2 }, '*': 3, '': 4, __proto__: 5 })).toEqual(['', 'a', 'a/b', 'a~1b', '~', '~*']);
  expect(pathsOf(JSON.parse('{"__proto__": 1, "constructor": 2}'))).toEqual(['', '__proto__', 'constructor']);
});

test('an object with too many names is a map; too many fields over all are none to speak of', () => {
  const wide = (from: number, count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${from + i}`, { z: 1 }]));
  expect(pathsOf({ fine: 1, map: wide(0, 60) }, { fine: 1, map: wide(60, 60) })).toEqual(['', 'fine', 'map']);
  const sample = startShape();
  sample.add(wide(0, 60));
  for (let i = 0; i < 60; i++) sample.add({ [`k${i}`]: wide(100 * i, 60) });
  expect(sample.shape()).toBeNull();
});

test('any JSON at all can be added, and a long list costs no more than a short one', () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue()), (values) => {
      const sample = startShape();
      for (const value of values) sample.add(value);
      expect(sample.shape()?.get('')?.of ?? 0).toBe(values.length);
    }),
  );
  const sample = startShape();
  sample.add(Array.from({ length: 100_000 }, (_, i) => ({ i })));
  expect(sample.shape()!.get('*')!.of).toBe(16);
});
