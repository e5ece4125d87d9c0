import { expect, test } from 'vitest';
import { parseSandboxOptions, sandboxFlags } from '../../src/cli/sandbox-flags.ts';
import { describeExpected, sandboxDefaults } from '../../src/sandbox/options.ts';

test('help names the actual defaults', () => {
  const words = new Map<unknown, unknown>([
    ...([
      ['a free one', 0],
      ['the system clock', null],
      ['unlimited', null],
      ['never', null],
      ['no sampling', null],
      ['any age', null],
      ['one', null],
      ['none', 0],
    ] as const),
    ['all', sandboxDefaults.faults],
    ['no window', sandboxDefaults.gaps],
    ['no field', sandboxDefaults.reshape],
  ]);
  const named = sandboxFlags.filter(({ text }) => text.includes('(default: '));
  expect(named).toHaveLength(sandboxFlags.length - 3);
  for (const { flags, text, option, parse } of named) {
    const stated = /\(default: (.*)\)$/.exec(text)![1]!;
    const isWord = words.has(stated) && typeof sandboxDefaults[option] !== 'string';
    expect(isWord ? words.get(stated) : parse(stated, flags), flags).toEqual(sandboxDefaults[option]);
  }
});

test.each([
  [{ cap: 'x' }, /^--cap "x": expected a whole number from 1 to/],
  [{ rate: '0' }, /^--rate "0": expected a number from 0\.01 to/],
  [{ order: 'up' }, /^--order "up": expected one of ascending, newest-first, shuffled$/],
  [{ latency: '1.5s' }, /^--latency "1\.5s": expected a whole number with a unit \(300ms/],
  [{ lateDelay: '5' }, /^--late-delay "5": expected a whole number with a unit/],
  [{ faults: '500,nix' }, /^--faults "500,nix": expected a list of/],
  [{ reshape: 'ticks:count' }, /^--reshape "ticks:count": expected fields as route:path/],
  [{ capVariation: '2' }, /^--cap-variation "2": expected a number from 0 to 0\.95$/],
  [{ honors: 'from' }, /^--honors "from": expected one of window, end, hours, nothing$/],
  [{ echoWindow: 'half' }, /^--echo-window "half": expected one of clamped, echo, tightened, cut, cut-from/],
  [{ replicaLags: '90' }, /^--replica-lags "90": expected a whole number with a unit/],
  [{ replicaLags: ',' }, /^--replica-lags ",": expected at least one lag/],
  [{ gaps: '2026-07-02..2026-07-01' }, /^--gaps .*expected windows from\.\.to, each with from before to/],
  [{ gaps: '2026-07-02' }, /^--gaps "": expected/],
  [{ reshape: 'nowhere:count=gone' }, /expected fields as route:path/],
])('names the flag of an invalid value: %j', (given, sentence) => {
  expect(() => parseSandboxOptions(given, describeExpected)).toThrow(sentence);
});

test('flags without a value invert their option', () => {
  expect(parseSandboxOptions({ fromExclusive: true, toInclusive: true }, describeExpected)).toEqual({
    fromInclusive: false,
    toInclusive: true,
  });
});

test('parses changed fields', () => {
  expect(parseSandboxOptions({ reshape: 'markets:markets/*/question=gone,ticks:count==n' }, describeExpected)).toEqual({
    reshape: { 'markets:markets/*/question': 'gone', 'ticks:count': '=n' },
  });
});

test('every paging option has a flag', () => {
  const given = {
    capUnit: 'bytes',
    capVariation: '0.05',
    capBySymbol: true,
    capDropsAfter: '3',
    truncate: 'alternating',
    sample: '200',
    uncappedAge: '1h',
    honors: 'end',
    carryInShare: '0.5',
    unusableShare: '0.01',
    invalidShare: '0.1',
    burstTicks: '9',
    echoWindow: 'cut-to',
    generatedAtLag: 'none',
    generatedAtResolution: '5s',
    replicaLags: '0s,90s',
    gaps: '2026-07-01..2026-07-02,2026-07-03T00:00:00Z..2026-07-03T01:00:00Z',
  };
  const [day1, day3] = [Date.UTC(2026, 6, 1), Date.UTC(2026, 6, 3)];
  expect(parseSandboxOptions(given, describeExpected)).toEqual({
    capUnit: 'bytes',
    capVariation: 0.05,
    capBySymbol: true,
    capDropsAfter: 3,
    truncate: 'alternating',
    sample: 200,
    uncappedAgeMs: 3_600_000,
    honors: 'end',
    carryInShare: 0.5,
    unusableShare: 0.01,
    invalidShare: 0.1,
    burstTicks: 9,
    echoWindow: 'cut-to',
    generatedAtLagMs: null,
    generatedAtResolutionMs: 5000,
    replicaLagsMs: [0, 90_000],
    gaps: [
      { from: day1, to: day1 + 86_400_000 },
      { from: day3, to: day3 + 3_600_000 },
    ],
  });
});

test.each([
  ['300ms', 300],
  ['300', 300],
  ['2s', 2000],
])('--latency %s is %i ms', (latency, ms) => {
  expect(parseSandboxOptions({ latency }, describeExpected)).toEqual({ latencyMs: ms });
});
