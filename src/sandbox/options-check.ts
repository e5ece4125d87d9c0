import { UsageError } from '../core/errors.ts';
import type { Window } from '../core/window.ts';
import { bookShapes } from './book-shapes.ts';
import { faultKinds } from './faults.ts';
import { fixedOptions, type RunningOptions, type SandboxOptions, sandboxDefaults } from './options.ts';
import { limiterKinds, rateHeaderForms } from './rate-limit.ts';
import { capUnits, heededParts, statedEnds, tickOrders, truncations } from './tick-behavior.ts';
import { pageLayouts } from './tick-page.ts';

interface Rule {
  readonly expected: string;
  readonly holds: (value: unknown) => boolean;
}

const latestMs = Date.UTC(2100, 0, 1);
const timerMsMax = 0x7fff_ffff;

function number(min: number, max: number): Rule {
  return {
    expected: `a number from ${min} to ${max}`,
    holds: (value) => typeof value === 'number' && value >= min && value <= max,
  };
}

function whole(min: number, max: number): Rule {
  return {
    expected: `a whole number from ${min} to ${max}`,
    holds: (value) => Number.isInteger(value) && number(min, max).holds(value),
  };
}

function orNull(rule: Rule): Rule {
  return { expected: `${rule.expected}, or null`, holds: (value) => value === null || rule.holds(value) };
}

function oneOf(...allowed: readonly string[]): Rule {
  return { expected: `one of ${allowed.join(', ')}`, holds: (value) => allowed.includes(value as string) };
}

const flag: Rule = { expected: 'true or false', holds: (value) => typeof value === 'boolean' };

const rules: { readonly [name in keyof SandboxOptions]: Rule } = {
  port: whole(0, 65_535),
  key: {
    expected: 'printable ASCII without spaces',
    holds: (value) => typeof value === 'string' && /^[!-~]+$/.test(value),
  },
  forbidden: flag,
  booksForbidden: flag,
  nowMs: orNull(whole(0, latestMs)),
  seed: whole(0, 0xffff_ffff),
  markets: whole(1, 20_000),
  activeShare: number(0.05, 0.98),
  ticksPerDay: number(1, 100_000),
  lifeDaysMax: number(0.5, 1_000),
  epochMs: whole(0, latestMs),
  lateShare: number(0, 1),
  lateDelayMsMax: whole(1, timerMsMax),
  reviseShare: number(0, 1),
  reviseAfterMs: whole(1, timerMsMax),
  thinShare: number(0, 1),
  thinAfterMs: whole(0, latestMs),
  cap: whole(1, 1_000_000),
  capUnit: oneOf(...capUnits),
  capVariation: number(0, 0.95),
  capBySymbol: flag,
  capFallsAfter: orNull(whole(0, 1_000_000)),
  sample: orNull(whole(1, 1_000_000)),
  liveOnTopMs: orNull(whole(1, latestMs)),
  heeds: oneOf(...heededParts),
  carryInShare: number(0, 1),
  unusableShare: number(0, 1),
  foreignShare: number(0, 10),
  crowd: orNull(whole(2, 100_000)),
  generatedBehindMs: orNull(whole(0, latestMs)),
  generatedStepMs: whole(0, latestMs),
  defaultLimit: whole(1, 1_000_000),
  defaultWindowMs: whole(1, latestMs),
  truncate: oneOf(...truncations),
  order: oneOf(...tickOrders),
  repeatShare: number(0, 10),
  fromInclusive: flag,
  toInclusive: flag,
  echoWindow: oneOf(...statedEnds),
  layout: oneOf(...pageLayouts, 'mixed'),
  bookShapes: {
    expected: `a list of ${bookShapes.join(', ')}`,
    holds: (value) =>
      Array.isArray(value) && value.every((shape) => (bookShapes as readonly unknown[]).includes(shape)),
  },
  retentionMs: orNull(whole(1, latestMs)),
  replicaLagsMs: {
    expected: 'lags of one replica or more, none of them negative',
    holds: (value) => Array.isArray(value) && value.length > 0 && value.every((lag) => whole(0, latestMs).holds(lag)),
  },
  gaps: {
    expected: 'windows from..to, each of which ends after it begins',
    holds: (value) => Array.isArray(value) && value.every(({ from, to }: Window) => from < to),
  },
  marketsCap: whole(0, 1_000_000),
  gzip: flag,
  requestsPerSecond: orNull(number(0.01, 1_000_000)),
  limiter: oneOf(...limiterKinds),
  rateHeaders: oneOf(...rateHeaderForms),
  retryAfter: oneOf('seconds', 'date', 'none'),
  latencyMs: whole(0, timerMsMax),
  faultShare: number(0, 1),
  faults: {
    expected: `a list of ${faultKinds.join(', ')}`,
    holds: (value) => Array.isArray(value) && value.every((kind) => (faultKinds as readonly unknown[]).includes(kind)),
  },
  stallMs: whole(1, timerMsMax),
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

/** What was expected of an option in place of this value; null where it is one. */
export const expectedOf = (name: keyof SandboxOptions, value: unknown): string | null =>
  rules[name].holds(value) ? null : rules[name].expected;

/**
 * The given options over `base`; one given as undefined stays as it is.
 * @throws UsageError for an unknown name or a value out of bounds
 */
export function checkSandboxOptions(given: Partial<SandboxOptions>, base = sandboxDefaults): SandboxOptions {
  const options: Record<string, unknown> = { ...base };
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(rules, name)) throw new UsageError(`sandbox: there is no option ${name}`);
    if (value === undefined) continue;
    const expected = expectedOf(name as keyof SandboxOptions, value);
    if (expected !== null) throw new UsageError(`sandbox: ${name} is ${JSON.stringify(value)}, expected ${expected}`);
    options[name] = value;
  }
  return options as unknown as SandboxOptions;
}

/** As `checkSandboxOptions`, for a sandbox that runs: what is made once cannot change any more. */
export function changedOptions(given: RunningOptions, base: SandboxOptions): SandboxOptions {
  const fixed = fixedOptions.find((name) => Object.hasOwn(given, name));
  if (fixed !== undefined) throw new UsageError(`sandbox: ${fixed} cannot change while it runs`);
  return checkSandboxOptions(given, base);
}
