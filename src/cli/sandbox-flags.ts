import { UsageError } from '../core/errors.ts';
import { parseDuration, parseTime } from '../core/time.ts';
import type { SandboxOptions } from '../sandbox/options.ts';

/** A flag of `oddslake sandbox` and the option that it sets. */
export interface SandboxFlag {
  readonly flags: string;
  readonly text: string;
  readonly option: keyof SandboxOptions;
  /** Reads what was given; `flag` is for the error. */
  readonly read: (text: string, flag: string) => unknown;
}

const asIs = (text: string): string => text;
const list = (text: string): string[] => text.split(',').filter((name) => name !== '');

/** `route:path=gone`, with commas between; `route:path==name` for another name. */
const fieldsOf = (text: string): Record<string, string> =>
  Object.fromEntries(list(text).map((field) => [field.replace(/=.*/s, ''), field.replace(/^[^=]*=?/s, '')]));

/** `from..to`, with commas between. */
const windowsOf = (text: string, flag: string): object[] =>
  list(text).map((window) => {
    const [from = '', to = ''] = window.split('..');
    return { from: parseTime(from, flag), to: parseTime(to, flag) };
  });

const row = (flags: string, text: string, option: keyof SandboxOptions, read: SandboxFlag['read']): SandboxFlag => ({
  flags,
  text,
  option,
  read,
});

/** Defaults stand in the texts, so that help needs none of the sandbox; a test holds them to it. */
export const sandboxFlags: readonly SandboxFlag[] = [
  row('--port <n>', 'TCP port on 127.0.0.1 (default: a free one)', 'port', Number),
  row('--key <key>', 'the market data key it asks for (default: sandbox-key)', 'key', asIs),
  row('--now <time>', 'what time it is there, standing still (default: the clock)', 'nowMs', parseTime),
  row('--seed <n>', 'everything made up comes from this number (default: 1)', 'seed', Number),
  row('--market-count <n>', 'simulated markets side by side (default: 40)', 'markets', Number),
  row('--ticks-per-day <n>', 'mean ticks a day of a symbol (default: 400)', 'ticksPerDay', Number),
  row('--epoch <time>', 'nothing is known from before (default: 2025-01-01)', 'epochMs', parseTime),
  row('--cap <n>', 'most ticks in an answer, whatever was asked (default: 5000)', 'cap', Number),
  row(
    '--cap-unit <unit>',
    'what the cap counts: rows, or bytes, 32 of them as one row (default: rows)',
    'capUnit',
    asIs,
  ),
  row('--cap-variation <share>', 'by how much less a single page may hold (default: 0)', 'capVariation', Number),
  row('--cap-by-symbol', 'symbols have caps of their own, from a quarter of it up', 'capBySymbol', () => true),
  row(
    '--cap-falls-after <n>',
    'requests of a symbol after which its cap is 0.6 of what it was (default: never)',
    'capFallsAfter',
    Number,
  ),
  row(
    '--truncate <side>',
    'which ticks of a window that is too full are kept: earliest, latest or alternating (default: earliest)',
    'truncate',
    asIs,
  ),
  row(
    '--sample <n>',
    'windows of more ticks are answered by an even sample of so many (default: no sampling)',
    'sample',
    Number,
  ),
  row(
    '--live-on-top <duration>',
    'the cap holds for older ticks, younger ones are put on top of them (default: for all)',
    'liveOnTopMs',
    parseDuration,
  ),
  row(
    '--heeds <part>',
    'what is heeded of from and to: window, end, hours or nothing (default: window)',
    'heeds',
    asIs,
  ),
  row(
    '--carry-in-share <share>',
    'share of answers that bring the last tick before from too (default: 0)',
    'carryInShare',
    Number,
  ),
  row(
    '--order <order>',
    'of the ticks in an answer: ascending, newest-first or shuffled (default: ascending)',
    'order',
    asIs,
  ),
  row('--repeat-share <share>', 'ticks sent twice, for each tick of an answer (default: 0)', 'repeatShare', Number),
  row('--unusable-share <share>', 'share of ticks whose price is a text (default: 0)', 'unusableShare', Number),
  row('--foreign-share <share>', 'elements that are no ticks, for each tick (default: 0)', 'foreignShare', Number),
  row('--crowd <n>', 'ticks in one millisecond in a hundred (default: one)', 'crowd', Number),
  row('--from-exclusive', 'a tick at from is not answered', 'fromInclusive', () => false),
  row('--to-inclusive', 'a tick at to is answered', 'toInclusive', () => true),
  row(
    '--echo-window <how>',
    'from and to of an answer: asked (up to now), echo, tightened, cut, cut-from, cut-to, span or none (default: asked)',
    'echoWindow',
    asIs,
  ),
  row(
    '--generated-behind <duration>',
    'how far generated_at is behind; none: it is not stated (default: 0s)',
    'generatedBehindMs',
    (text, flag) => (text === 'none' ? null : parseDuration(text, flag)),
  ),
  row(
    '--generated-step <duration>',
    'answers within so long a time state one generated_at (default: 0s)',
    'generatedStepMs',
    parseDuration,
  ),
  row(
    '--layout <layout>',
    'how pages are written: compact, spaced, reordered, extra, exponent or mixed (default: compact)',
    'layout',
    asIs,
  ),
  row(
    '--book-shapes <shapes>',
    'how order books are told, by turns, with commas between: objects, arrays, text, short, shuffled, list, map, outcomes, dollars, no-time, cents (default: objects)',
    'bookShapes',
    list,
  ),
  row('--retention <duration>', 'nothing older is answered, e.g. 3d (default: all is)', 'retentionMs', parseDuration),
  row(
    '--replica-lags <durations>',
    'how far each replica is behind, with commas between, e.g. 0s,90s; one answers (default: 0s)',
    'replicaLagsMs',
    (text, flag) => list(text).map((lag) => parseDuration(lag, flag)),
  ),
  row(
    '--gaps <windows>',
    'windows without ticks that answers name, as FROM..TO with commas between (default: no window)',
    'gaps',
    windowsOf,
  ),
  row(
    '--rate <n>',
    'requests allowed in a second, more are answered 429 (default: any number)',
    'requestsPerSecond',
    Number,
  ),
  row('--limiter <kind>', 'how it counts: sliding, fixed or bucket (default: sliding)', 'limiter', asIs),
  row('--rate-headers <form>', 'headers that tell of it: none, draft, old or x (default: none)', 'rateHeaders', asIs),
  row('--retry-after <how>', 'on a 429: seconds, date or none (default: seconds)', 'retryAfter', asIs),
  row('--latency <duration>', 'wait before each answer, e.g. 1s (default: none)', 'latencyMs', parseDuration),
  row('--fault-share <share>', 'share of requests that meet a fault (default: 0)', 'faultShare', Number),
  row('--faults <kinds>', 'which, with commas between (default: all)', 'faults', list),
  row(
    '--reshape <fields>',
    'fields that are not what they were, e.g. markets:markets/*/question=gone,ticks:ticks/*/p=text; null and =name are the others (default: no field)',
    'reshape',
    fieldsOf,
  ),
  row('--late-share <share>', 'share of ticks that become visible late (default: 0)', 'lateShare', Number),
  row('--late-delay <duration>', 'by at most so much (default: 10m)', 'lateDelayMsMax', parseDuration),
  row('--revise-share <share>', 'share of ticks whose price changes (default: 0)', 'reviseShare', Number),
  row('--revise-after <duration>', 'so long after their time (default: 10m)', 'reviseAfterMs', parseDuration),
  row('--thin-share <share>', 'share of old ticks that are gone (default: 0)', 'thinShare', Number),
  row('--thin-after <duration>', 'once they are so old (default: 2d)', 'thinAfterMs', parseDuration),
];

/**
 * The options that flags ask for, by the names that Commander gives them. `expectedOf`: the sandbox's own checks, from
 * outside so that help loads nothing of it.
 * @throws UsageError naming the flag, what was given and what was expected
 */
export function sandboxOptionsOf(
  given: Readonly<Record<string, unknown>>,
  expectedOf: (name: keyof SandboxOptions, value: unknown) => string | null,
): Partial<SandboxOptions> {
  const out: Record<string, unknown> = {};
  for (const { flags, option, read } of sandboxFlags) {
    const flag = flags.split(' ')[0]!;
    const text = given[flag.slice(2).replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())];
    if (text === undefined) continue;
    const value = read(String(text), flag);
    const expected = expectedOf(option, value);
    if (expected !== null) throw new UsageError(`${flag} ${JSON.stringify(text)}: expected ${expected}`);
    out[option] = value;
  }
  return out as Partial<SandboxOptions>;
}
