import { expect, test } from 'vitest';
import { gapsText } from '../../src/cli/gaps-text.ts';

test('a symbol breaks no line and moves no cursor', () => {
  const gap = { symbol: 'a\nb\u001b[2J', from: 0, to: 1000 };
  expect(gapsText({ from: 0, to: 1000, count: 1, gaps: [gap] }).split('\n')[0]).toMatch(/a\\nb\\u001b\[2J$/);
});
