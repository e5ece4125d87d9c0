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

const defineFlag = (
  flags: string,
  text: string,
  option: keyof SandboxOptions,
  read: SandboxFlagSpec['parse'],
): SandboxFlagSpec => ({
  flags,
  text,
  option,
  parse: read,
});

/** The texts repeat the defaults, so that help does not load the sandbox. A test compares them. */
export const sandboxFlags: readonly SandboxFlagSpec[] = [
  defineFlag('--port <n>', 'TCP port on 127.0.0.1 (default: a free one)', 'port', Number),
  defineFlag('--key <key>', 'market data key that requests need (default: sandbox-key)', 'key', parseText),
  defineFlag('--now <time>', 'a fixed current time (default: the clock)', 'nowMs', parseTime),
  defineFlag('--seed <n>', 'random seed (default: 1)', 'seed', Number),
  defineFlag('--market-count <n>', 'number of simulated markets at a time (default: 40)', 'markets', Number),
  defineFlag('--ticks-per-day <n>', 'mean number of ticks per day and symbol (default: 400)', 'ticksPerDay', Number),
  defineFlag('--epoch <time>', 'time of the earliest data (default: 2025-01-01)', 'epochMs', parseTime),
  defineFlag('--cap <n>', 'page cap: maximum ticks in a response (default: 5000)', 'cap', Number),
  defineFlag(
    '--cap-unit <unit>',
    'unit of the cap: rows, or bytes, where 32 bytes count as one row (default: rows)',
    'capUnit',
    parseText,
  ),
  defineFlag(
    '--cap-variation <share>',
    'maximum share by which the cap of a single page is lower (default: 0)',
    'capVariation',
    Number,
  ),
  defineFlag(
    '--cap-by-symbol',
    'each symbol has a cap of its own, at least a quarter of --cap',
    'capBySymbol',
    () => true,
  ),
  defineFlag(
    '--cap-drops-after <n>',
    'number of requests of a symbol after which its cap drops to 60 % (default: never)',
    'capFallsAfter',
    Number,
  ),
  defineFlag(
    '--truncate <side>',
    'truncation side, the ticks that a truncated page keeps: earliest, latest or alternating (default: earliest)',
    'truncate',
    parseText,
  ),
  defineFlag(
    '--sample <n>',
    'windows with more ticks return an even sample of this many (default: no sampling)',
    'sample',
    Number,
  ),
  defineFlag(
    '--uncapped-age <duration>',
    'the cap applies to ticks older than this; newer ones are appended (default: for all)',
    'liveOnTopMs',
    parseDuration,
  ),
  defineFlag(
    '--honors <part>',
    'which of from and to the server applies: window, end, hours or nothing (default: window)',
    'heeds',
    parseText,
  ),
  defineFlag(
    '--carry-in-share <share>',
    'share of responses that include the last tick before from (default: 0)',
    'carryInShare',
    Number,
  ),
  defineFlag(
    '--order <order>',
    'order of the ticks in a response: ascending, newest-first or shuffled (default: ascending)',
    'order',
    parseText,
  ),
  defineFlag('--repeat-share <share>', 'share of ticks that are sent twice (default: 0)', 'repeatShare', Number),
  defineFlag(
    '--unusable-share <share>',
    'share of ticks whose price is a string (default: 0)',
    'unusableShare',
    Number,
  ),
  defineFlag(
    '--invalid-share <share>',
    'share of added elements that are not ticks (default: 0)',
    'foreignShare',
    Number,
  ),
  defineFlag('--burst-ticks <n>', 'number of ticks in one of a hundred milliseconds (default: one)', 'crowd', Number),
  defineFlag('--from-exclusive', 'exclude a tick at from', 'fromInclusive', () => false),
  defineFlag('--to-inclusive', 'include a tick at to', 'toInclusive', () => true),
  defineFlag(
    '--echo-window <how>',
    'from and to in a response: asked (up to now), echo, tightened, cut, cut-from, cut-to, span or none (default: asked)',
    'echoWindow',
    parseText,
  ),
  defineFlag(
    '--generated-at-lag <duration>',
    'lag of generated_at; none: omit it (default: 0s)',
    'generatedBehindMs',
    (text, flag) => (text === 'none' ? null : parseDuration(text, flag)),
  ),
  defineFlag(
    '--generated-at-resolution <duration>',
    'resolution of generated_at (default: 0s)',
    'generatedStepMs',
    parseDuration,
  ),
  defineFlag(
    '--layout <layout>',
    'JSON style of pages: compact, spaced, reordered, extra, exponent or mixed (default: compact)',
    'layout',
    parseText,
  ),
  defineFlag(
    '--book-shapes <shapes>',
    'formats of order books, used in turn, comma-separated: objects, arrays, text, short, shuffled, list, map, outcomes, dollars, no-time, cents (default: objects)',
    'bookShapes',
    parseList,
  ),
  defineFlag(
    '--retention <duration>',
    'maximum age of returned data, e.g. 3d (default: unlimited)',
    'retentionMs',
    parseDuration,
  ),
  defineFlag(
    '--replica-lags <durations>',
    'comma-separated lags of replicas, e.g. 0s,90s; a random one responds (default: 0s)',
    'replicaLagsMs',
    (text, flag) => parseList(text).map((lag) => parseDuration(lag, flag)),
  ),
  defineFlag(
    '--gaps <windows>',
    'comma-separated windows without data that responses declare, as FROM..TO (default: no window)',
    'gaps',
    parseWindows,
  ),
  defineFlag(
    '--rate <n>',
    'rate limit in requests per second, beyond which the response is 429 (default: any number)',
    'requestsPerSecond',
    Number,
  ),
  defineFlag('--limiter <kind>', 'rate limiter: sliding, fixed or bucket (default: sliding)', 'limiter', parseText),
  defineFlag(
    '--rate-headers <form>',
    'rate limit headers: none, draft, old or x (default: none)',
    'rateHeaders',
    parseText,
  ),
  defineFlag('--retry-after <how>', 'on a 429: seconds, date or none (default: seconds)', 'retryAfter', parseText),
  defineFlag('--latency <duration>', 'delay of each response, e.g. 1s (default: none)', 'latencyMs', parseDuration),
  defineFlag('--fault-share <share>', 'share of requests that fail (default: 0)', 'faultShare', Number),
  defineFlag('--faults <kinds>', 'comma-separated kinds of faults (default: all)', 'faults', parseList),
  defineFlag(
    '--reshape <fields>',
    'changed fields, e.g. markets:markets/*/question=gone,ticks:ticks/*/p=text; also =null, and ==name to rename (default: no field)',
    'reshape',
    parseFields,
  ),
  defineFlag('--late-share <share>', 'share of ticks that become visible late (default: 0)', 'lateShare', Number),
  defineFlag('--late-delay <duration>', 'maximum delay of late ticks (default: 10m)', 'lateDelayMsMax', parseDuration),
  defineFlag('--revise-share <share>', 'share of ticks whose price changes (default: 0)', 'reviseShare', Number),
  defineFlag(
    '--revise-after <duration>',
    'age at which those prices change (default: 10m)',
    'reviseAfterMs',
    parseDuration,
  ),
  defineFlag('--thin-share <share>', 'share of old ticks that are removed (default: 0)', 'thinShare', Number),
  defineFlag(
    '--thin-after <duration>',
    'age at which old ticks are removed (default: 2d)',
    'thinAfterMs',
    parseDuration,
  ),
];

/**
 * Parses the sandbox options from the flags that Commander read.
 * @param expectedOf check of an option; passed in, so that help does not load the sandbox
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
