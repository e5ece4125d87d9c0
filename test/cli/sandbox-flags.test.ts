import { expect, test } from 'vitest';
import { sandboxFlags, sandboxOptionsOf } from '../../src/cli/sandbox-flags.ts';
import { sandboxDefaults } from '../../src/sandbox/options.ts';
import { expectedOf } from '../../src/sandbox/options-check.ts';

test('every default that help names is the one that holds', () => {
  const words = new Map<unknown, unknown>([
    ...([
      ['a free one', 0],
      ['the clock', null],
      ['all is', null],
      ['any number', null],
      ['none', 0],
    ] as const),
    ['all', sandboxDefaults.faults],
    ['no field', sandboxDefaults.reshape],
  ]);
  const named = sandboxFlags.filter(({ text }) => text.includes('(default: '));
  expect(named).toHaveLength(sandboxFlags.length - 2);
  for (const { flags, text, option, read } of named) {
    const told = /\(default: (.*)\)$/.exec(text)![1]!;
    const isWord = words.has(told) && typeof sandboxDefaults[option] !== 'string';
    expect(isWord ? words.get(told) : read(told, flags), flags).toEqual(sandboxDefaults[option]);
  }
});

test.each([
  [{ cap: 'x' }, /^--cap "x": expected a whole number from 1 to/],
  [{ rate: '0' }, /^--rate "0": expected a number from 0\.01 to/],
  [{ order: 'up' }, /^--order "up": expected one of ascending, newest-first, shuffled$/],
  [{ lateDelay: '5' }, /^--late-delay "5": expected a whole number with a unit/],
  [{ faults: '500,nix' }, /^--faults "500,nix": expected a list of/],
  [{ reshape: 'ticks:count' }, /^--reshape "ticks:count": expected fields as route:path/],
  [{ reshape: 'nowhere:count=gone' }, /expected fields as route:path/],
])('a bad value is told with its flag: %j', (given, sentence) => {
  expect(() => sandboxOptionsOf(given, expectedOf)).toThrow(sentence);
});

test('flags that take no value turn their option over', () => {
  expect(sandboxOptionsOf({ fromExclusive: true, toInclusive: true }, expectedOf)).toEqual({
    fromInclusive: false,
    toInclusive: true,
  });
});

test('fields that are to look otherwise are read with what becomes of them', () => {
  expect(sandboxOptionsOf({ reshape: 'markets:markets/*/question=gone,ticks:count==n' }, expectedOf)).toEqual({
    reshape: { 'markets:markets/*/question': 'gone', 'ticks:count': '=n' },
  });
});
