import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import { checkProperty } from '../harness/properties.ts';

const bytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Characters on both sides of every boundary of UTF-8 and UTF-16. */
const borders = ['', 'a', '\0', '\x7f', '\x80', '߿', 'ࠀ', '퟿', '', '￿', '\u{10000}', '😀', '\u{10ffff}'];
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 6 }),
  fc.array(fc.constantFrom(...borders), { maxLength: 4 }).map((parts) => parts.join('')),
);

describe('strings', () => {
  test('sort by UTF-8 bytes, emoji after the basic plane', () => {
    expect(compareUtf8('😀', '￿')).toBeGreaterThan(0);
    expect('😀' > '￿').toBe(false);
    checkProperty([text, text], 1000, (a, b) => {
      expect(Math.sign(compareUtf8(a, b))).toBe(bytes(a, b));
    });
  });

  test('sort the same after any common prefix, including half a surrogate pair', () => {
    checkProperty([text, text, text], 100, (start, a, b) => {
      expect(Math.sign(compareUtf8(start + a, start + b))).toBe(bytes(start + a, start + b));
    });
    // U+1F600 and U+1F601 share their first unit.
    expect(compareUtf8('😀', '😁')).toBeLessThan(0);
  });

  test('have a total order even with unpaired surrogates', () => {
    const broken = fc.array(fc.constantFrom('a', '\ud800', '\udc00', '\udfff', '\ue000', '😀'), { maxLength: 3 });
    const anyText = broken.map((units) => units.join(''));
    checkProperty([anyText, anyText, anyText], 100, (a, b, c) => {
      expect(compareUtf8(a, b) === 0).toBe(a === b);
      expect(Math.sign(compareUtf8(a, b))).toBe(-Math.sign(compareUtf8(b, a)) + 0);
      if (compareUtf8(a, b) < 0 && compareUtf8(b, c) < 0) expect(compareUtf8(a, c)).toBeLessThan(0);
    });
  });
});
