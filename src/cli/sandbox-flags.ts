import { UsageError } from '../base/errors.ts';
import { parseDuration, parseTime } from '../base/time.ts';
import type { SandboxOptions } from '../sandbox/options.ts';

/** A flag of `oddslake sandbox` and the option that it sets. */
interface SandboxFlagSpec {
  readonly flags: string;
  readonly text: string;
  readonly option: keyof SandboxOptions;
  /** Parses the value; `flag` is for error messages. */
  readonly parse: (text: string, flag: string) => unknown;
}

const parseText = (text: string): string => text;
const parseList = (text: string): string[] => text.split(',').filter((name) => name !== '');

/** Parses a comma-separated list of `route:path=gone`, or `route:path==name` for a renamed field. */
const parseFields = (text: string): Record<string, string> =>
  Object.fromEntries(parseList(text).map((field) => [field.replace(/=.*/s, ''), field.replace(/^[^=]*=?/s, '')]));

/** Parses a comma-separated list of `from..to`. */
const parseWindows = (text: string, flag: string): object[] =>
  parseList(text).map((window) => {
    const [from = '', to = ''] = window.split('..');
    return { from: parseTime(from, flag), to: parseTime(to, flag) };
  });

/** Parses a duration with a unit, such as `300ms` or `90s`, or a plain number of milliseconds. */
const parseMs = (text: string, flag: string): number => parseDuration(/^\d+$/.test(text) ? `${text}ms` : text, flag);

/**
 * Flags, texts, options and parsers. The texts repeat the defaults so that help need not load the sandbox; a test compares
 * them.
 */
const flagRows: readonly (readonly [string, string, keyof SandboxOptions, SandboxFlagSpec['parse']])[] = [
  ['--port <n>', 'TCP port on 127.0.0.1 (default: a free one)', 'port', Number],
  ['--key <key>', 'market data key that the sandbox accepts (default: sandbox-key)', 'key', parseText],
  ['--now <time>', 'fixed current time of the sandbox (default: the system clock)', 'nowMs', parseTime],
  ['--seed <n>', 'random seed (default: 1)', 'seed', Number],
  ['--market-count <n>', 'number of concurrent simulated markets (default: 40)', 'markets', Number],
  ['--ticks-per-day <n>', 'mean number of ticks per day and symbol (default: 400)', 'ticksPerDay', Number],
  ['--epoch <time>', 'time of the earliest data (default: 2025-01-01)', 'epochMs', parseTime],
  ['--cap <n>', 'page cap: maximum number of ticks in a response (default: 5000)', 'cap', Number],
  [
    '--cap-unit <unit>',
    'unit of the page cap: rows, or bytes at 32 bytes per row (default: rows)',
    'capUnit',
    parseText,
  ],
  [
    '--cap-variation <share>',
    'lower the cap of each page by a random share, up to this (default: 0)',
    'capVariation',
    Number,
  ],
  ['--cap-by-symbol', 'give each symbol its own cap, at least a quarter of --cap', 'capBySymbol', () => true],
  [
    '--cap-drops-after <n>',
    'lower the cap of a symbol to 60 % after this many requests for it (default: never)',
    'capDropsAfter',
    Number,
  ],
  [
    '--truncate <side>',
    'which ticks a truncated page keeps: earliest, latest or alternating (default: earliest)',
    'truncate',
    parseText,
  ],
  [
    '--sample <n>',
    'if a window has more than this many ticks, return an evenly spaced sample of this size (default: no sampling)',
    'sample',
    Number,
  ],
  [
    '--uncapped-age <duration>',
    'apply the cap only to ticks older than this (default: any age)',
    'uncappedAgeMs',
    parseDuration,
  ],
  [
    '--honors <part>',
    'part of the requested window that the server honors: window, end (from is ignored), hours (whole hours) or nothing (default: window)',
    'honors',
    parseText,
  ],
  [
    '--carry-in-share <share>',
    'share of responses that include the last tick before from (default: 0)',
    'carryInShare',
    Number,
  ],
  [
    '--order <order>',
    'order of the ticks in a response: ascending, newest-first or shuffled (default: ascending)',
    'order',
    parseText,
  ],
  ['--repeat-share <share>', 'mean number of repetitions of each tick (default: 0)', 'repeatShare', Number],
  ['--unusable-share <share>', 'share of ticks whose price is a string (default: 0)', 'unusableShare', Number],
  [
    '--invalid-share <share>',
    'mean number of invalid elements (null) after each tick (default: 0)',
    'invalidShare',
    Number,
  ],
  [
    '--burst-ticks <n>',
    'number of ticks in the same millisecond, at about every 100th tick (default: one)',
    'burstTicks',
    Number,
  ],
  ['--from-exclusive', 'exclude ticks at from', 'fromInclusive', () => false],
  ['--to-inclusive', 'include ticks at to', 'toInclusive', () => true],
  [
    '--echo-window <how>',
    'values of from and to in a response: clamped (to the time with data), echo (as requested), tightened, cut, cut-from, cut-to, span or none (default: clamped)',
    'echoWindow',
    parseText,
  ],
  [
    '--generated-at-lag <duration>',
    'how far generated_at lags behind the response; none omits the field (default: 0s)',
    'generatedAtLagMs',
    (text, flag) => (text === 'none' ? null : parseDuration(text, flag)),
  ],
  [
    '--generated-at-resolution <duration>',
    'round generated_at down to a multiple of this; 0s does not round (default: 0s)',
    'generatedAtResolutionMs',
    parseDuration,
  ],
  [
    '--layout <layout>',
    'JSON layout of tick pages: compact, spaced, reordered, extra, exponent or mixed (default: compact)',
    'layout',
    parseText,
  ],
  [
    '--book-shapes <shapes>',
    'order book formats, comma-separated, used in turn: objects, arrays, text, short, shuffled, list, map, outcomes, dollars, no-time, cents (default: objects)',
    'bookShapes',
    parseList,
  ],
  [
    '--retention <duration>',
    'maximum age of returned ticks, e.g. 3d (default: unlimited)',
    'retentionMs',
    parseDuration,
  ],
  [
    '--replica-lags <durations>',
    'replica lags, comma-separated, e.g. 0s,90s; a random replica serves each tick request (default: 0s)',
    'replicaLagsMs',
    (text, flag) => parseList(text).map((lag) => parseDuration(lag, flag)),
  ],
  [
    '--gaps <windows>',
    'windows without ticks that responses report as gaps, as comma-separated FROM..TO ranges (default: no window)',
    'gaps',
    parseWindows,
  ],
  [
    '--rate <n>',
    'rate limit in requests per second; other requests get status 429 (default: unlimited)',
    'requestsPerSecond',
    Number,
  ],
  ['--limiter <kind>', 'rate-limiting algorithm: sliding, fixed or bucket (default: sliding)', 'limiter', parseText],
  [
    '--rate-headers <form>',
    'rate limit headers: none, draft (the IETF draft), old (an earlier draft) or x (X-RateLimit) (default: none)',
    'rateHeaders',
    parseText,
  ],
  [
    '--retry-after <how>',
    'format of the Retry-After header with status 429: seconds, date or none (default: seconds)',
    'retryAfter',
    parseText,
  ],
  ['--latency <duration>', 'delay of each response, e.g. 300ms or 1s (default: none)', 'latencyMs', parseMs],
  ['--fault-share <share>', 'share of requests that hit a fault (default: 0)', 'faultShare', Number],
  ['--faults <kinds>', 'kinds of faults, comma-separated (default: all)', 'faults', parseList],
  [
    '--reshape <fields>',
    'changes to response fields, comma-separated ROUTE:PATH=CHANGE, where CHANGE is gone, null, text or =NAME, e.g. ticks:ticks/*/p=text (default: no field)',
    'reshape',
    parseFields,
  ],
  ['--late-share <share>', 'share of ticks that become visible late (default: 0)', 'lateShare', Number],
  ['--late-delay <duration>', 'maximum delay of late ticks (default: 10m)', 'lateDelayMsMax', parseDuration],
  ['--revise-share <share>', 'share of ticks whose price is revised later (default: 0)', 'reviseShare', Number],
  ['--revise-after <duration>', 'age at which these prices are revised (default: 10m)', 'reviseAfterMs', parseDuration],
  ['--thin-share <share>', 'share of ticks that disappear at the age --thin-after (default: 0)', 'thinShare', Number],
  ['--thin-after <duration>', 'age at which these ticks disappear (default: 2d)', 'thinAfterMs', parseDuration],
];

export const sandboxFlags = flagRows.map(
  ([flags, text, option, parse]): SandboxFlagSpec => ({ flags, text, option, parse }),
);

/**
 * Parses the sandbox options from the flags that Commander read.
 * @param expectedOf returns what an option expects, null if the value is valid; passed in so that help need not load the
 *   sandbox
 * @throws UsageError with the flag, its value and the expected value
 */
export function parseSandboxOptions(
  values: Readonly<Record<string, unknown>>,
  expectedOf: (name: keyof SandboxOptions, value: unknown) => string | null,
): Partial<SandboxOptions> {
  const out: Record<string, unknown> = {};
  for (const { flags, option, parse } of sandboxFlags) {
    const flag = flags.split(' ')[0]!;
    const text = values[flag.slice(2).replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())];
    if (text === undefined) continue;
    const value = parse(String(text), flag);
    const expected = expectedOf(option, value);
    if (expected !== null) throw new UsageError(`${flag} ${JSON.stringify(text)}: expected ${expected}`);
    out[option] = value;
  }
  return out as Partial<SandboxOptions>;
}
