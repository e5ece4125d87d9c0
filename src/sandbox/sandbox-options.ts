import { UsageError } from '../base/errors.ts';
import { dayMs, minuteMs, type Window } from '../base/window.ts';
import { describeExpected as describeSchema, isValid } from '../settings/layers.ts';
import {
  createChoice,
  createChoiceList,
  createFlag,
  createInteger,
  createNullable,
  createNumber,
} from '../settings/setting-table.ts';
import { bookShapes, pageLayouts } from './page-formats.ts';
import { limiterKinds, rateHeaderForms } from './rate-limit.ts';
import { type OptionValues, readDefaults, type TickBehavior, tickBehaviorTable } from './tick-behavior.ts';

/**
 * Faults that the sandbox injects, one per request.
 * - a number: that status as problem+json; `429-seconds`, `503` carry `Retry-After: 1`, `429-date` an HTTP-date
 * - `reset`: the connection is reset before any header · `reset-body`: within the body
 * - `half-body`: half of the body that content-length announces · `half-body-close`: half of the body, ended by closing
 *   the connection
 * - `bad-json`: 200, malformed · `html`: 200, a web page
 * - `error-200`: 200, an error beside empty lists · `bare-200`: 200, empty lists without any other field
 * - `stall`: nothing for stallMs, then the correct response · `slow-body`: half, nothing for stallMs, then the rest
 * - `wrong-symbol`: echoes another symbol (ticks and order books) · `wrong-count`: `count` is one too high
 */
export const faultKinds = [
  '429-seconds',
  '429-date',
  '408',
  '425',
  '500',
  '502',
  '503',
  '504',
  'reset',
  'reset-body',
  'half-body',
  'half-body-close',
  'bad-json',
  'html',
  'error-200',
  'bare-200',
  'stall',
  'slow-body',
  'wrong-symbol',
  'wrong-count',
] as const;

export type FaultKind = (typeof faultKinds)[number];

const latestMs = Date.UTC(2100, 0, 1);
const timerMsMax = 0x7fff_ffff;

const isRecord = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** The options of a sandbox, with default and bounds; those about paging are in `tickBehaviorTable`. */
const optionTable = {
  /** TCP port on 127.0.0.1; 0 selects a free port. */
  port: createInteger(0, 0, 65_535),
  /** The market data key, expected as `Authorization: Bearer KEY`; other keys get 401. */
  key: { type: 'string', pattern: '^[!-~]+$', description: 'printable ASCII without spaces', default: 'sandbox-key' },
  /** Whether the right key gets 403 too. */
  forbidden: createFlag(false),
  /** The same for order books only. */
  booksForbidden: createFlag(false),
  /** The current time of the sandbox, epoch milliseconds; null uses the system clock. */
  nowMs: createNullable(createInteger(0, 0, latestMs)),
  /** Seed of all generated data and faults. */
  seed: createInteger(1, 0, 0xffff_ffff),

  /** Number of concurrent simulated markets; when one closes, another follows. */
  markets: createInteger(40, 1, 20_000),
  /** Share of the time during which each of them is open; the rest is the pause before the next. */
  activeShare: createNumber(0.85, 0.05, 0.98),
  /** Mean ticks per day of an open symbol; individual symbols get 0.1 to 8 times as many. */
  ticksPerDay: createNumber(400, 1, 100_000),
  /** Maximum time from opening to closing, in days; most markets are open for 4 days or more, some for half a day. */
  lifetimeDaysMax: createNumber(45, 0.5, 1_000),
  /** Time of the earliest data, epoch milliseconds. */
  epochMs: createInteger(Date.UTC(2025, 0, 1), 0, latestMs),

  /** Share of ticks that become visible late, by up to `lateDelayMsMax` after their time. */
  lateShare: createNumber(0, 0, 1),
  lateDelayMsMax: createInteger(10 * minuteMs, 1, timerMsMax),
  /** Share of ticks that have another price until `reviseAfterMs` after their time. */
  reviseShare: createNumber(0, 0, 1),
  reviseAfterMs: createInteger(10 * minuteMs, 1, timerMsMax),
  /** Share of ticks that disappear when they are older than `thinAfterMs`. */
  thinShare: createNumber(0, 0, 1),
  thinAfterMs: createInteger(2 * dayMs, 0, latestMs),

  /** Ticks per response if the request has no limit; `cap` still applies. */
  defaultLimit: createInteger(5_000, 1, 1_000_000),
  /** Length of the window if the request has no `from`, ms. */
  defaultWindowMs: createInteger(dayMs, 1, latestMs),
  /** JSON layout of a tick page; `compact` is as documented, `mixed` alternates. */
  layout: createChoice([...pageLayouts, 'mixed'], 'compact'),
  /** Shapes of order books, used in turn; an empty list disables the route. */
  bookShapes: createChoiceList(bookShapes, ['objects']),
  /** Retention, ms: older ticks are not returned, and `from` states it; null keeps all. */
  retentionMs: createNullable(createInteger(dayMs, 1, latestMs)),
  /** Lag of each replica, milliseconds; a random one responds to a tick request. One replica without lag by default. */
  replicaLagsMs: createCheck<readonly number[]>(
    [0],
    'at least one lag, none of them negative',
    (value) =>
      Array.isArray(value) && value.length > 0 && value.every((lag) => isValid(createInteger(0, 0, latestMs), lag)),
  ),
  /** Windows without ticks that responses state as `gaps`. */
  gaps: createCheck<readonly Window[]>(
    [],
    'windows from..to, each with from before to',
    (value) =>
      Array.isArray(value) && value.every((window: Window | null) => window !== null && window.from < window.to),
  ),
  /** Maximum markets per response. */
  marketsCap: createInteger(100_000, 0, 1_000_000),
  /** What `total` counts: the matching markets, those of them up to the cap, or those in the response. */
  marketsTotal: createChoice(['matching', 'capped', 'response'], 'matching'),
  /** Whether each response draws its markets at random, instead of taking the first ones. */
  marketsShuffled: createFlag(false),
  /** Whether responses are compressed for clients that accept gzip. */
  gzip: createFlag(true),

  /** Requests allowed per second and key; requests above it get 429; null sets no limit. */
  requestsPerSecond: createNullable(createNumber(1, 0.01, 1_000_000)),
  /** How that limit counts: sliding windows, fixed windows, or a token bucket. */
  limiter: createChoice(limiterKinds, 'sliding'),
  /** Rate limit headers: none, RateLimit of the IETF draft or its older form, or X-RateLimit. */
  rateHeaders: createChoice(rateHeaderForms, 'none'),
  /** Form of Retry-After in a 429 of that limit. */
  retryAfter: createChoice(['seconds', 'date', 'none'], 'seconds'),
  /** Delay before each response, in milliseconds. */
  latencyMs: createInteger(0, 0, timerMsMax),
  /** Share of requests with one of `faults`, which are all kinds by default. */
  faultShare: createNumber(0, 0, 1),
  faults: createChoiceList(faultKinds),
  /** Duration of the pause in the faults `stall` and `slow-body`, milliseconds. */
  stallMs: createInteger(minuteMs, 1, timerMsMax),
  /**
   * Response fields to change, by route and path such as `ticks:count`, with `*` for every element: remove it (`gone`),
   * set it to `null`, write it as `text`, or rename it (`=name`).
   */
  reshape: createCheck<Readonly<Record<string, string>>>(
    {},
    'fields as route:path (routes markets, ticks, orderbook), each with gone, null, text or =name',
    (value) =>
      isRecord(value) &&
      Object.entries(value).every(
        ([field, how]) => /^(markets|ticks|orderbook):./.test(field) && /^(gone|null|text|=.+)$/.test(String(how)),
      ),
  ),
  /** Symbols whose ticks and order books always get this status; with 200 it is the fault `error-200`. */
  faultSymbols: createCheck<Readonly<Record<string, 200 | 404 | 500>>>(
    {},
    'symbols, each with 200, 404 or 500',
    (value) => isRecord(value) && Object.values(value).every((status) => [200, 404, 500].includes(status as number)),
  ),
} as const;

/** An option that JSON Schema does not describe. */
function createCheck<V>(value: V, expected: string, isValid: (value: unknown) => boolean) {
  return { default: value, expected, isValid };
}

const allOptions = { ...tickBehaviorTable, ...optionTable };

export type SandboxOptions = TickBehavior & OptionValues<typeof optionTable>;

/** Options that `Sandbox.set` may not change: feed and port are created once. */
const fixedOptions = [
  'port',
  'seed',
  'markets',
  'activeShare',
  'ticksPerDay',
  'lifetimeDaysMax',
  'epochMs',
] as const satisfies readonly (keyof SandboxOptions)[];

export type ChangeableOptions = Partial<Omit<SandboxOptions, (typeof fixedOptions)[number]>>;

export const sandboxDefaults: SandboxOptions = readDefaults(allOptions);

/** What the option expects instead of this value; null if the value is valid. */
export function describeExpected(name: keyof SandboxOptions, value: unknown): string | null {
  const option = allOptions[name];
  if ('isValid' in option) return option.isValid(value) ? null : option.expected;
  return isValid(option, value) ? null : describeSchema(option);
}

/**
 * The given options over `base`; an undefined option keeps its value.
 * @throws UsageError for an unknown name or an invalid value
 */
export function checkSandboxOptions(given: Partial<SandboxOptions>, base = sandboxDefaults): SandboxOptions {
  const options: Record<string, unknown> = { ...base };
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(allOptions, name)) throw new UsageError(`sandbox: unknown option ${name}`);
    if (value === undefined) continue;
    const expected = describeExpected(name as keyof SandboxOptions, value);
    if (expected !== null) throw new UsageError(`sandbox: ${name} is ${JSON.stringify(value)}, expected ${expected}`);
    options[name] = value;
  }
  return options as unknown as SandboxOptions;
}

/** Like `checkSandboxOptions`, for a running sandbox: options that are fixed at the start cannot change. */
export function applyOptionChanges(given: ChangeableOptions, base: SandboxOptions): SandboxOptions {
  const fixed = fixedOptions.find((name) => Object.hasOwn(given, name));
  if (fixed !== undefined) throw new UsageError(`sandbox: ${fixed} cannot change while it runs`);
  return checkSandboxOptions(given, base);
}
