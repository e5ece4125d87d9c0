import stringWidth from 'string-width';
import { expect, test } from 'vitest';
import { measureText, oneColumnText } from '../../src/cli/table.ts';

test('each character of a text that is not measured takes one column', () => {
  const characters = Array.from({ length: 0x10000 }, (_, code) => String.fromCharCode(code)).filter((one) =>
    oneColumnText.test(one),
  );
  expect(characters.length).toBeGreaterThan(700);
  expect(characters.filter((one) => stringWidth(one) !== 1)).toEqual([]);
  // Nor do they combine: a text is as wide as its characters.
  expect(stringWidth(characters.join(''))).toBe(characters.length);
  expect(stringWidth(characters.reverse().join(''))).toBe(characters.length);
});

test('any other text is measured', () => {
  for (const text of [
    '',
    'ascii',
    'e\u0301',
    '日本',
    '👩‍👩‍👧',
    '\u001b[31mred\u001b[39m',
    'a\u200bb',
    'a\tb',
    '\u00ad',
    '1\ufe0f\u20e3',
    '‼\ufe0f',
    '↔\ufe0f',
  ])
    expect(measureText(text), text).toBe(stringWidth(text));
});
