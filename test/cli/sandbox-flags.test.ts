import { expect, test } from 'vitest';
import { parseSandboxOptions, sandboxFlags } from '../../src/cli/commands/sandbox.ts';
import { checkSandboxOptions, type SandboxOptions, sandboxDefaults } from '../../src/sandbox/sandbox-options.ts';

test('help names the actual defaults', () => {
  const words = new Map<unknown, unknown>([
    ...([
      ['a free one', 0],
      ['the system clock', null],
      ['unlimited', null],
      ['none', 0],
    ] as const),
  ]);
  for (const [flags, text, option, parse] of sandboxFlags) {
    const stated = /\(default: (.*)\)$/.exec(text)![1]!;
    const isWord = words.has(stated) && typeof sandboxDefaults[option] !== 'string';
    expect(isWord ? words.get(stated) : parse(stated, flags), flags).toEqual(sandboxDefaults[option]);
  }
});

test.each([
  [{ marketCount: 'x' }, /^--market-count "x": expected a whole number from 1 to/],
  [{ rate: '0' }, /^--rate "0": expected a number from 0\.01 to/],
  [{ latency: '1.5s' }, /^--latency "1\.5s": expected a whole number with a unit \(300ms/],
  [{ retention: '5' }, /^--retention "5": expected a whole number with a unit/],
])('names the flag of an invalid value: %j', (given, sentence) => {
  expect(() => parseSandboxOptions(given)).toThrow(sentence);
});

test.each<[Partial<Record<keyof SandboxOptions, unknown>>, RegExp]>([
  [{ order: 'up' }, /^sandbox: order is "up", expected one of ascending, newest-first, shuffled$/],
  [{ faults: ['500', 'nix'] }, /expected a list of 429-seconds/],
  [{ reshape: { 'ticks:count': '' } }, /expected fields as route:path/],
  [{ reshape: { 'nowhere:count': 'gone' } }, /expected fields as route:path/],
  [{ capVariation: 2 }, /expected a number from 0 to 0\.95$/],
  [{ honors: 'from' }, /expected one of window, end, hours, nothing$/],
  [{ echoWindow: 'half' }, /expected one of clamped, echo, tightened, cut, cut-from/],
  [{ replicaLagsMs: [] }, /expected at least one lag/],
  [{ gaps: [{ from: 2, to: 1 }] }, /expected windows from\.\.to, each with from before to/],
])('names the option of an invalid value: %j', (given, sentence) => {
  expect(() => checkSandboxOptions(given as Partial<SandboxOptions>)).toThrow(sentence);
});

test('options are one JSON object, which flags override', () => {
  const given = { options: '{"cap": 7, "fromInclusive": false, "seed": 2}', seed: '3' };
  expect(parseSandboxOptions(given)).toEqual({ ...sandboxDefaults, cap: 7, fromInclusive: false, seed: 3 });
  for (const options of ['', 'cap=7', '[7]', 'null'])
    expect(() => parseSandboxOptions({ options })).toThrow(/^--options ".*": expected one JSON object/);
});

test.each([
  ['300ms', 300],
  ['300', 300],
  ['2s', 2000],
])('--latency %s is %i ms', (latency, ms) => {
  expect(parseSandboxOptions({ latency })).toEqual({ ...sandboxDefaults, latencyMs: ms });
});
