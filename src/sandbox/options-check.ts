import { UsageError } from '../base/errors.ts';
import type { Window } from '../base/window.ts';
import { bookShapes } from './book-shapes.ts';
import { faultKinds } from './faults.ts';
import { type ChangeableOptions, fixedOptions, type SandboxOptions, sandboxDefaults } from './options.ts';
import { limiterKinds, rateHeaderForms } from './rate-limit.ts';
import { capUnits, honoredParts, statedEnds, tickOrders, truncations } from './tick-behavior.ts';
import { pageLayouts } from './tick-page.ts';

interface OptionRule {
  readonly expected: string;
  readonly holds: (value: unknown) => boolean;
}

const latestMs = Date.UTC(2100, 0, 1);
const timerMsMax = 0x7fff_ffff;

function createNumberRule(min: number, max: number): OptionRule {
  return {
    expected: `a number from ${min} to ${max}`,
    holds: (value) => typeof value === 'number' && value >= min && value <= max,
  };
}

function createIntegerRule(min: number, max: number): OptionRule {
  return {
    expected: `a whole number from ${min} to ${max}`,
    holds: (value) => Number.isInteger(value) && createNumberRule(min, max).holds(value),
  };
}

function createNullableRule(rule: OptionRule): OptionRule {
  return { expected: `${rule.expected}, or null`, holds: (value) => value === null || rule.holds(value) };
}

function createEnumRule(...allowed: readonly string[]): OptionRule {
  return { expected: `one of ${allowed.join(', ')}`, holds: (value) => allowed.includes(value as string) };
}

const booleanRule: OptionRule = { expected: 'true or false', holds: (value) => typeof value === 'boolean' };

const rules: { readonly [name in keyof SandboxOptions]: OptionRule } = {
  port: createIntegerRule(0, 65_535),
  key: {
    expected: 'printable ASCII without spaces',
    holds: (value) => typeof value === 'string' && /^[!-~]+$/.test(value),
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
    holds: (value) =>
      Array.isArray(value) && value.every((shape) => (bookShapes as readonly unknown[]).includes(shape)),
  },
  retentionMs: createNullableRule(createIntegerRule(1, latestMs)),
  replicaLagsMs: {
    expected: 'at least one lag, none of them negative',
    holds: (value) =>
      Array.isArray(value) && value.length > 0 && value.every((lag) => createIntegerRule(0, latestMs).holds(lag)),
  },
  gaps: {
    expected: 'windows from..to, each with from before to',
    holds: (value) => Array.isArray(value) && value.every(({ from, to }: Window) => from < to),
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
    holds: (value) => Array.isArray(value) && value.every((kind) => (faultKinds as readonly unknown[]).includes(kind)),
  },
  stallMs: createIntegerRule(1, timerMsMax),
  reshape: {
    expected: 'fields as route:path (routes markets, ticks, orderbook), each with gone, null, text or =name',
    holds: (value) =>
      typeof value === 'object' &&
      value !== null &&
      Object.entries(value).every(
        ([field, how]) => /^(markets|ticks|orderbook):./.test(field) && /^(gone|null|text|=.+)$/.test(String(how)),
      ),
  },
  faultSymbols: {
    expected: 'symbols, each with 404 or 500',
    holds: (value) =>
      typeof value === 'object' &&
      value !== null &&
      Object.values(value).every((status) => status === 404 || status === 500),
  },
};

/** What the option expects instead of this value; null if the value is valid. */
export const describeExpected = (name: keyof SandboxOptions, value: unknown): string | null =>
  rules[name].holds(value) ? null : rules[name].expected;

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
