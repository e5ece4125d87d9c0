import { UsageError } from '../base/errors.ts';
import { parseDuration, parseTime } from '../base/time.ts';
import { checkSandboxOptions, describeExpected, type SandboxOptions } from '../sandbox/sandbox-options.ts';

/** A flag of `oddslake sandbox`, its help with the default in words, the option that it sets, and the parser of its value. */
type SandboxFlag = readonly [
  flags: string,
  text: string,
  option: keyof SandboxOptions,
  parse: (text: string, flag: string) => unknown,
];

const parseText = (text: string): string => text;

/** Parses a duration with a unit, such as `300ms` or `90s`, or a plain number of milliseconds. */
const parseMs = (text: string, flag: string): number => parseDuration(/^\d+$/.test(text) ? `${text}ms` : text, flag);

/** Flags for what people try. All other options of a sandbox are those of `--options`. */
export const sandboxFlags: readonly SandboxFlag[] = [
  ['--port <n>', 'TCP port on 127.0.0.1 (default: a free one)', 'port', Number],
  ['--key <key>', 'market data key that the sandbox accepts (default: sandbox-key)', 'key', parseText],
  ['--now <time>', 'fixed current time of the sandbox (default: the system clock)', 'nowMs', parseTime],
  ['--seed <n>', 'random seed (default: 1)', 'seed', Number],
  ['--market-count <n>', 'number of concurrent simulated markets (default: 40)', 'markets', Number],
  ['--ticks-per-day <n>', 'mean number of ticks per day and symbol (default: 400)', 'ticksPerDay', Number],
  ['--retention <duration>', 'maximum age of ticks, e.g. 3d (default: unlimited)', 'retentionMs', parseDuration],
  ['--rate <n>', 'requests per second; others get status 429 (default: unlimited)', 'requestsPerSecond', Number],
  ['--latency <duration>', 'delay of each response, e.g. 300ms or 1s (default: none)', 'latencyMs', parseMs],
  ['--fault-share <share>', 'share of requests that hit a fault (default: 0)', 'faultShare', Number],
];

/**
 * Parses the sandbox options from the flags that Commander read. Flags override `--options`.
 * @throws UsageError with the flag or the option, its value and the expected value
 */
export function parseSandboxOptions(values: Readonly<Record<string, unknown>>): SandboxOptions {
  const out: Record<string, unknown> = parseJsonOptions(values.options);
  for (const [flags, , option, parse] of sandboxFlags) {
    const flag = flags.split(' ')[0]!;
    const text = values[flag.slice(2).replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())];
    if (text === undefined) continue;
    const value = parse(String(text), flag);
    const expected = describeExpected(option, value);
    if (expected !== null) throw new UsageError(`${flag} ${JSON.stringify(text)}: expected ${expected}`);
    out[option] = value;
  }
  return checkSandboxOptions(out);
}

function parseJsonOptions(text: unknown): Record<string, unknown> {
  if (text === undefined) return {};
  try {
    const value: unknown = JSON.parse(String(text));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  } catch {
    // The error below says what was expected.
  }
  throw new UsageError(`--options ${JSON.stringify(text)}: expected one JSON object, e.g. '{"lateShare": 0.02}'`);
}
