import { UsageError } from '../base/errors.ts';
import { parseDuration, parseTime } from '../base/time.ts';
import { checkSandboxOptions, describeExpected, type SandboxOptions } from '../sandbox/sandbox-options.ts';

/** A flag of `oddslake sandbox` and the option that it sets. */
interface SandboxFlag {
  readonly flags: string;
  /** Ends with the default in words. */
  readonly text: string;
  readonly option: keyof SandboxOptions;
  /** Parses the value; `flag` is for error messages. */
  readonly parse: (text: string, flag: string) => unknown;
}

const parseText = (text: string): string => text;

/** Parses a duration with a unit, such as `300ms` or `90s`, or a plain number of milliseconds. */
const parseMs = (text: string, flag: string): number => parseDuration(/^\d+$/.test(text) ? `${text}ms` : text, flag);

/** Flags of what the simulated data depend on, which `sandbox files` has too. */
export const sandboxDataFlags: readonly SandboxFlag[] = [
  {
    flags: '--now <time>',
    text: 'fixed current time of the sandbox (default: the system clock)',
    option: 'nowMs',
    parse: parseTime,
  },
  { flags: '--seed <n>', text: 'random seed (default: 1)', option: 'seed', parse: Number },
  {
    flags: '--market-count <n>',
    text: 'number of concurrent simulated markets (default: 40)',
    option: 'markets',
    parse: Number,
  },
  {
    flags: '--ticks-per-day <n>',
    text: 'mean number of ticks per day and symbol (default: 400)',
    option: 'ticksPerDay',
    parse: Number,
  },
];

/** Flags for what people try. All other options of a sandbox are those of `--options`. */
export const sandboxFlags: readonly SandboxFlag[] = [
  { flags: '--port <n>', text: 'TCP port on 127.0.0.1 (default: a free one)', option: 'port', parse: Number },
  {
    flags: '--key <key>',
    text: 'market data key that the sandbox accepts (default: sandbox-key)',
    option: 'key',
    parse: parseText,
  },
  ...sandboxDataFlags,
  {
    flags: '--retention <duration>',
    text: 'maximum age of returned ticks, e.g. 3d (default: unlimited)',
    option: 'retentionMs',
    parse: parseDuration,
  },
  {
    flags: '--rate <n>',
    text: 'rate limit in requests per second; other requests get status 429 (default: unlimited)',
    option: 'requestsPerSecond',
    parse: Number,
  },
  {
    flags: '--latency <duration>',
    text: 'delay of each response, e.g. 300ms or 1s (default: none)',
    option: 'latencyMs',
    parse: parseMs,
  },
  {
    flags: '--fault-share <share>',
    text: 'share of requests that hit a fault (default: 0)',
    option: 'faultShare',
    parse: Number,
  },
];

/**
 * Parses the sandbox options from the flags that Commander read. Flags override `--options`.
 * @throws UsageError with the flag or the option, its value and the expected value
 */
export function parseSandboxOptions(values: Readonly<Record<string, unknown>>): SandboxOptions {
  const out: Record<string, unknown> = parseJsonOptions(values.options);
  for (const { flags, option, parse } of sandboxFlags) {
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
