import fc from 'fast-check';
import { expect, test } from 'vitest';
import { findRepeatedKey } from '../../src/server/http/json-body.ts';

test.each([
  ['{"a":1,"a":2}', 'a'],
  ['{"a":1,"\\u0061":1}', 'a'],
  ['{"a":{"b":[{"c":1},{"c":1, "d":[], "c":{}}]}}', 'a.b.1.c'],
  ['[{"a":1},{"a":1}]', null],
  ['{"a":"a","b":"\\"a\\":","c":["a","a"]}', null],
  ['{"a":{"a":{"a":1}},"b":{"a":1}}', null],
  ['{"__proto__":1,"__proto__":2}', '__proto__'],
  ['{"\\\\":1,"\\\\":2}', '\\'],
  ['{"":1,"":2}', ''],
  ['"a"', null],
  ['1', null],
])('the repeated key of %s is %s', (text, path) => {
  expect(findRepeatedKey(text)).toBe(path);
});

test('JSON of a value has no repeated key; with a key of an object once more, it has', () => {
  const space = fc.constantFrom('', ' ', '\n\t');
  fc.assert(
    fc.property(fc.jsonValue(), space, fc.nat(), (value, indent, seed) => {
      expect(findRepeatedKey(JSON.stringify(value, null, indent))).toBe(null);
      const objects: Record<string, unknown>[] = [];
      JSON.stringify(value, (_, inner: unknown) => {
        if (typeof inner === 'object' && inner !== null && !Array.isArray(inner) && Object.keys(inner).length > 0)
          objects.push(inner as Record<string, unknown>);
        return inner;
      });
      if (objects.length === 0) return;
      const chosen = objects[seed % objects.length]!;
      const key = Object.keys(chosen)[seed % Object.keys(chosen).length]!;
      const marker = 'a marker that no generated value contains';
      const text = JSON.stringify(
        value,
        (_, inner: unknown) => (inner === chosen ? { [marker]: 0, ...(inner as object) } : inner),
        indent,
      );
      const repeated = text.replace(JSON.stringify(marker), () => JSON.stringify(key));
      expect(findRepeatedKey(repeated)?.split('.').at(-1)).toBe(key.split('.').at(-1));
    }),
  );
});
