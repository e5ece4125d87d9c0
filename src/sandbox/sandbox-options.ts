import { UsageError } from '../base/errors.ts';
import { dayMs, minuteMs, type Window } from '../base/window.ts';
import { type BookShape, bookShapes, type PageLayout, pageLayouts } from './page-formats.ts';
import { type LimiterKind, limiterKinds, type RateHeaderForm, rateHeaderForms } from './rate-limit.ts';
import {
  capUnits,
  defaultTickBehavior,
  honoredParts,
  statedEnds,
  type TickBehavior,
  tickOrders,
  truncations,
} from './tick-behavior.ts';

/**
 * Faults that the sandbox injects, one per request.
 * - a number: that status as problem+json; `429-seconds`, `503` carry `Retry-After: 1`, `429-date` an HTTP-date
 * - `reset`: the connection is reset before any header · `reset-body`: within the body
 * - `half-body`: half of the body that content-length announces · `half-body-close`: half of the body, ended by closing
 *   the connection
 * - `bad-json`: 200, malformed · `html`: 200, a web page
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
  'stall',
  'slow-body',
  'wrong-symbol',
  'wrong-count',
] as const;

export type FaultKind = (typeof faultKinds)[number];

/** Options of a sandbox; TickBehavior holds those about paging. `rules` has the bounds. */
export interface SandboxOptions extends TickBehavior {
  /** TCP port on 127.0.0.1; 0 selects a free port. Default 0. */
  readonly port: number;
  /** The market data key, expected as `Authorization: Bearer KEY`; other keys get 401. */
  readonly key: string;
  /** Whether the right key gets 403 too. Default false. */
  readonly forbidden: boolean;
  /** The same for order books only. Default false. */
  readonly booksForbidden: boolean;
  /** The current time of the sandbox, epoch milliseconds; null uses the system clock. Default null. */
  readonly nowMs: number | null;
  /** Seed of all generated data and faults. Default 1. */
  readonly seed: number;

  /** Number of concurrent simulated markets; when one closes, another follows. Default 40. */
  readonly markets: number;
  /** Share of the time during which each of them is open; the rest is the pause before the next. Default 0.85. */
  readonly activeShare: number;
  /** Mean ticks per day of an open symbol; individual symbols get 0.1 to 8 times as many. Default 400. */
  readonly ticksPerDay: number;
  /**
   * Maximum time from opening to closing, in days; most markets are open for 4 days or more, some for half a day.
   * Default 45.
   */
  readonly lifetimeDaysMax: number;
  /** Time of the earliest data, epoch milliseconds. Default 2025-01-01. */
  readonly epochMs: number;

  /** Share of ticks that become visible late, by up to `lateDelayMsMax` after their time. Defaults 0, 10 minutes. */
  readonly lateShare: number;
  readonly lateDelayMsMax: number;
  /** Share of ticks that have another price until `reviseAfterMs` after their time. Defaults 0, 10 minutes. */
  readonly reviseShare: number;
  readonly reviseAfterMs: number;
  /** Share of ticks that disappear when they are older than `thinAfterMs`. Defaults 0, 2 days. */
  readonly thinShare: number;
  readonly thinAfterMs: number;

  /** Ticks per response if the request has no limit; `cap` still applies. Default 5000. */
  readonly defaultLimit: number;
  /** Length of the window if the request has no `from`. Default one day. */
  readonly defaultWindowMs: number;
  /** JSON layout of a tick page; `mixed` alternates. Default `compact`, as documented. */
  readonly layout: PageLayout | 'mixed';
  /** Shapes of order books, used in turn; an empty list disables the route. Default `objects`. */
  readonly bookShapes: readonly BookShape[];
  /** Retention, ms: older ticks are not returned, and `from` states it; null keeps all. Default null. */
  readonly retentionMs: number | null;
  /** Lag of each replica, milliseconds; a random one responds to a tick request. Default one replica without lag. */
  readonly replicaLagsMs: readonly number[];
  /** Windows without ticks that responses state as `gaps`. Default none. */
  readonly gaps: readonly Window[];
  /** Maximum markets per response. Default 100,000. */
  readonly marketsCap: number;
  /** Whether responses are compressed for clients that accept gzip. Default true. */
  readonly gzip: boolean;

  /** Requests allowed per second and key; requests above it get 429; null sets no limit. Default null. */
  readonly requestsPerSecond: number | null;
  /** How that limit counts: sliding windows, fixed windows, or a token bucket. Default `sliding`. */
  readonly limiter: LimiterKind;
  /** Rate limit headers: none, RateLimit of the IETF draft or its older form, or X-RateLimit. Default `none`. */
  readonly rateHeaders: RateHeaderForm;
  /** Form of Retry-After in a 429 of that limit. Default `seconds`. */
  readonly retryAfter: 'seconds' | 'date' | 'none';
  /** Delay before each response, in milliseconds. Default 0. */
  readonly latencyMs: number;
  /** Share of requests with one of `faults`. Default 0, all kinds. */
  readonly faultShare: number;
  readonly faults: readonly FaultKind[];
  /** Duration of the pause in the faults `stall` and `slow-body`, milliseconds. Default one minute. */
  readonly stallMs: number;
  /**
   * Response fields to change, by route and path such as `ticks:count`, with `*` for every element: remove it (`gone`),
   * set it to `null`, write it as `text`, or rename it (`=name`). Default none.
   */
  readonly reshape: Readonly<Record<string, string>>;
  /** Symbols whose ticks and order books always get this status. */
  readonly faultSymbols: Readonly<Record<string, 404 | 500>>;
}

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

export const sandboxDefaults: SandboxOptions = {
  port: 0,
  key: 'sandbox-key',
  forbidden: false,
  booksForbidden: false,
  nowMs: null,
  seed: 1,
  markets: 40,
  activeShare: 0.85,
  ticksPerDay: 400,
  lifetimeDaysMax: 45,
  epochMs: Date.UTC(2025, 0, 1),
  lateShare: 0,
  lateDelayMsMax: 10 * minuteMs,
  reviseShare: 0,
  reviseAfterMs: 10 * minuteMs,
  thinShare: 0,
  thinAfterMs: 2 * dayMs,
  ...defaultTickBehavior,
  defaultLimit: 5_000,
  defaultWindowMs: dayMs,
  layout: 'compact',
  bookShapes: ['objects'],
  retentionMs: null,
  replicaLagsMs: [0],
  gaps: [],
  marketsCap: 100_000,
  gzip: true,
  requestsPerSecond: null,
  limiter: 'sliding',
  rateHeaders: 'none',
  retryAfter: 'seconds',
  latencyMs: 0,
  faultShare: 0,
  faults: faultKinds,
  stallMs: minuteMs,
  reshape: {},
  faultSymbols: {},
};

interface OptionRule {
  readonly expected: string;
  readonly isValid: (value: unknown) => boolean;
}

const latestMs = Date.UTC(2100, 0, 1);
const timerMsMax = 0x7fff_ffff;

function createNumberRule(min: number, max: number): OptionRule {
  return {
    expected: `a number from ${min} to ${max}`,
    isValid: (value) => typeof value === 'number' && value >= min && value <= max,
  };
}

function createIntegerRule(min: number, max: number): OptionRule {
  return {
    expected: `a whole number from ${min} to ${max}`,
    isValid: (value) => Number.isInteger(value) && createNumberRule(min, max).isValid(value),
  };
}

function createNullableRule(rule: OptionRule): OptionRule {
  return { expected: `${rule.expected}, or null`, isValid: (value) => value === null || rule.isValid(value) };
}

function createEnumRule(...allowed: readonly string[]): OptionRule {
  return { expected: `one of ${allowed.join(', ')}`, isValid: (value) => allowed.includes(value as string) };
}

const booleanRule: OptionRule = { expected: 'true or false', isValid: (value) => typeof value === 'boolean' };

const rules: { readonly [name in keyof SandboxOptions]: OptionRule } = {
  port: createIntegerRule(0, 65_535),
  key: {
    expected: 'printable ASCII without spaces',
    isValid: (value) => typeof value === 'string' && /^[!-~]+$/.test(value),
  },
  forbidden: booleanRule,
  booksForbidden: booleanRule,
  nowMs: createNullableRule(createIntegerRule(0, latestMs)),
  seed: createIntegerRule(0, 0xffff_ffff),
  markets: createIntegerRule(1, 20_000),
  activeShare: createNumberRule(0.05, 0.98),
  ticksPerDay: createNumberRule(1, 100_000),
  lifetimeDaysMax: createNumberRule(0.5, 1_000),
  epochMs: createIntegerRule(0, latestMs),
  lateShare: createNumberRule(0, 1),
  lateDelayMsMax: createIntegerRule(1, timerMsMax),
  reviseShare: createNumberRule(0, 1),
  reviseAfterMs: createIntegerRule(1, timerMsMax),
  thinShare: createNumberRule(0, 1),
  thinAfterMs: createIntegerRule(0, latestMs),
  cap: createIntegerRule(1, 1_000_000),
  capUnit: createEnumRule(...capUnits),
  capVariation: createNumberRule(0, 0.95),
  capBySymbol: booleanRule,
  capDropsAfter: createNullableRule(createIntegerRule(0, 1_000_000)),
  sample: createNullableRule(createIntegerRule(1, 1_000_000)),
  uncappedAgeMs: createNullableRule(createIntegerRule(1, latestMs)),
  honors: createEnumRule(...honoredParts),
  carryInShare: createNumberRule(0, 1),
  unusableShare: createNumberRule(0, 1),
  invalidShare: createNumberRule(0, 10),
  burstTicks: createNullableRule(createIntegerRule(2, 100_000)),
  generatedAtLagMs: createNullableRule(createIntegerRule(0, latestMs)),
  generatedAtResolutionMs: createIntegerRule(0, latestMs),
  defaultLimit: createIntegerRule(1, 1_000_000),
  defaultWindowMs: createIntegerRule(1, latestMs),
  truncate: createEnumRule(...truncations),
  order: createEnumRule(...tickOrders),
  repeatShare: createNumberRule(0, 10),
  fromInclusive: booleanRule,
  toInclusive: booleanRule,
  echoWindow: createEnumRule(...statedEnds),
  layout: createEnumRule(...pageLayouts, 'mixed'),
  bookShapes: {
    expected: `a list of ${bookShapes.join(', ')}`,
    isValid: (value) =>
      Array.isArray(value) && value.every((shape) => (bookShapes as readonly unknown[]).includes(shape)),
  },
  retentionMs: createNullableRule(createIntegerRule(1, latestMs)),
  replicaLagsMs: {
    expected: 'at least one lag, none of them negative',
    isValid: (value) =>
      Array.isArray(value) && value.length > 0 && value.every((lag) => createIntegerRule(0, latestMs).isValid(lag)),
  },
  gaps: {
    expected: 'windows from..to, each with from before to',
    isValid: (value) =>
      Array.isArray(value) && value.every((window: Window | null) => window !== null && window.from < window.to),
  },
  marketsCap: createIntegerRule(0, 1_000_000),
  gzip: booleanRule,
  requestsPerSecond: createNullableRule(createNumberRule(0.01, 1_000_000)),
  limiter: createEnumRule(...limiterKinds),
  rateHeaders: createEnumRule(...rateHeaderForms),
  retryAfter: createEnumRule('seconds', 'date', 'none'),
  latencyMs: createIntegerRule(0, timerMsMax),
  faultShare: createNumberRule(0, 1),
  faults: {
    expected: `a list of ${faultKinds.join(', ')}`,
    isValid: (value) =>
      Array.isArray(value) && value.every((kind) => (faultKinds as readonly unknown[]).includes(kind)),
  },
  stallMs: createIntegerRule(1, timerMsMax),
  reshape: {
    expected: 'fields as route:path (routes markets, ticks, orderbook), each with gone, null, text or =name',
    isValid: (value) =>
      typeof value === 'object' &&
      value !== null &&
      Object.entries(value).every(
        ([field, how]) => /^(markets|ticks|orderbook):./.test(field) && /^(gone|null|text|=.+)$/.test(String(how)),
      ),
  },
  faultSymbols: {
    expected: 'symbols, each with 404 or 500',
    isValid: (value) =>
      typeof value === 'object' &&
      value !== null &&
      Object.values(value).every((status) => status === 404 || status === 500),
  },
};

/** What the option expects instead of this value; null if the value is valid. */
export const describeExpected = (name: keyof SandboxOptions, value: unknown): string | null =>
  rules[name].isValid(value) ? null : rules[name].expected;

/**
 * The given options over `base`; an undefined option keeps its value.
 * @throws UsageError for an unknown name or an invalid value
 */
export function checkSandboxOptions(given: Partial<SandboxOptions>, base = sandboxDefaults): SandboxOptions {
  const options: Record<string, unknown> = { ...base };
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(rules, name)) throw new UsageError(`sandbox: unknown option ${name}`);
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
