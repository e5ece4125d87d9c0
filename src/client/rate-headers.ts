import { getHeader, parseHttpDate, type ResponseHead } from './classify-error.ts';

/** The rate limit that response headers state. Absent and invalid values are omitted. */
interface StatedRate {
  /** Requests per second: the quota of a window of up to a minute, spread evenly. */
  readonly ratePerSecond?: number;
  /** Number of remaining requests, and time until the quota resets, in ms from now. At least 0. */
  readonly remaining?: number;
  readonly resetMs?: number;
}

interface RateLimitPolicy {
  readonly name: string;
  readonly quota: number;
  readonly windowSeconds: number;
}

/** Quotas of longer windows are budgets: they are not spread evenly. */
const rateWindowSecondsMax = 60;
/**
 * A reset of at most `roundingMs` is ignored for a policy with a window of at most `roundedSecondsMax`: the rate limiter is
 * more precise.
 */
const roundingMs = 1_000;
const roundedSecondsMax = 10;
const headerCharsMax = 2_000;
/** A later reset is invalid: no quota has a window longer than a month. */
const resetSecondsMax = 31 * 86_400;

const headerPrefixes = ['ratelimit', 'x-ratelimit', 'x-rate-limit'];

/**
 * Parses all forms of the RateLimit headers: draft-ietf-httpapi-ratelimit-headers from version 8 on (`RateLimit-Policy:
 * "default";q=100;w=60`, `RateLimit: "default";r=50;t=30`), version 7 (`RateLimit: limit=100, remaining=50, reset=30`),
 * versions 3 to 6 (`RateLimit-Limit`, `-Remaining`, `-Reset`, policies as `100;w=60`), and X-RateLimit-*, whose reset may be
 * a time in epoch seconds or milliseconds. `nowMs` is epoch milliseconds.
 */
export function parseRateHeaders(head: ResponseHead, nowMs: number): StatedRate {
  if (!hasRateHeaders(head)) return {};
  const text = (name: string): string => {
    const value = head.headers[name];
    return (Array.isArray(value) ? value.join(', ') : (value ?? '')).slice(0, headerCharsMax);
  };
  const policies = headerPrefixes.flatMap((prefix) => [
    ...parsePolicies(text(`${prefix}-policy`)),
    ...parsePolicies(text(`${prefix}-limit`)),
  ]);
  const shortWindowed = policies.filter(({ windowSeconds }) => windowSeconds <= rateWindowSecondsMax);
  const rate = Math.min(...shortWindowed.map(({ quota, windowSeconds }) => quota / windowSeconds));
  const serverMs = parseHttpDate(getHeader(head, 'date')?.trim() ?? '') ?? nowMs;
  const quotas = [
    ...parseRemainingQuotas(text('ratelimit')),
    ...headerPrefixes.flatMap((prefix) => parsePrefixedQuotas(prefix, text, serverMs)),
  ];
  // The quota with the fewest remaining requests, and the latest reset among equals.
  const scarcest = quotas
    .filter(({ resetMs, name }) => !isRounding(resetMs, name, policies))
    .sort((a, b) => a.remaining - b.remaining || b.resetMs - a.resetMs)[0];
  return {
    ...(Number.isFinite(rate) ? { ratePerSecond: rate } : {}),
    ...(scarcest === undefined ? {} : { remaining: scarcest.remaining, resetMs: scarcest.resetMs }),
  };
}

/** Whether any rate-limit header is present. Most services send none. */
function hasRateHeaders({ headers }: ResponseHead): boolean {
  for (const name in headers) if (headerPrefixes.some((prefix) => name.startsWith(prefix))) return true;
  return false;
}

interface RemainingQuota {
  readonly name: string | null;
  readonly remaining: number;
  readonly resetMs: number;
}

/** A reset in whole seconds is too coarse for a short window. The rate limiter is more precise. */
function isRounding(resetMs: number, name: string | null, policies: readonly RateLimitPolicy[]): boolean {
  const policy = policies.find((each) => each.name === name) ?? (policies.length === 1 ? policies[0] : undefined);
  return policy !== undefined && policy.windowSeconds <= roundedSecondsMax && resetMs <= roundingMs;
}

/** Parses structured-field list members: `"name";q=100;w=60`, or `100;w=60`. Units other than requests are ignored. */
function parsePolicies(text: string): RateLimitPolicy[] {
  return parseListMembers(text).flatMap(({ item, parameters }) => {
    const quota = parseAmount(parameters.get('q') ?? item);
    const windowSeconds = parseAmount(parameters.get('w'));
    const unit = parameters.get('qu') ?? 'requests';
    if (quota === undefined || windowSeconds === undefined || unit !== 'requests') return [];
    return quota >= 1 && windowSeconds > 0 ? [{ name: item, quota, windowSeconds }] : [];
  });
}

/** Parses `"name";r=50;t=30`, or the members `remaining=50` and `reset=30` of version 7. */
function parseRemainingQuotas(text: string): RemainingQuota[] {
  const list = parseListMembers(text);
  const byName = list.flatMap(({ item, parameters }) =>
    toRemainingQuotas(item, parameters.get('r'), parameters.get('t')),
  );
  const member = (name: string) => list.find(({ item }) => item.startsWith(`${name}=`))?.item.slice(name.length + 1);
  return [...byName, ...toRemainingQuotas(null, member('remaining'), member('reset'))];
}

function parsePrefixedQuotas(prefix: string, text: (name: string) => string, serverMs: number): RemainingQuota[] {
  const reset = parseAmount(text(`${prefix}-reset`));
  if (reset === undefined) return [];
  const atMs = reset >= 1e12 ? reset : reset * 1000;
  const seconds = reset >= 1e9 ? Math.max(0, atMs - serverMs) / 1000 : reset;
  return toRemainingQuotas(null, text(`${prefix}-remaining`), String(seconds));
}

function toRemainingQuotas(
  name: string | null,
  remainingText: string | undefined,
  resetText: string | undefined,
): RemainingQuota[] {
  const [remaining, reset] = [parseAmount(remainingText), parseAmount(resetText)];
  if (remaining === undefined || reset === undefined || reset > resetSecondsMax) return [];
  return [{ name, remaining, resetMs: Math.ceil(reset * 1000) }];
}

interface ListMember {
  readonly item: string;
  readonly parameters: ReadonlyMap<string, string>;
}

/** Splits an RFC 9651 list into members with parameters. Quoted strings may contain commas and semicolons. */
function parseListMembers(text: string): ListMember[] {
  return splitUnquoted(text, ',').map((member) => {
    const [item = '', ...rest] = splitUnquoted(member, ';');
    const pairs = rest.map((pair) => pair.split(/=(.*)/s, 2) as [string, string?]);
    return {
      item: unquote(item),
      parameters: new Map(pairs.map(([name, value = '']) => [name.trim(), unquote(value)])),
    };
  });
}

const splitUnquoted = (text: string, mark: ',' | ';'): string[] =>
  [...text.matchAll(mark === ',' ? /(?:"(?:[^"\\]|\\.)*"|[^",])+/g : /(?:"(?:[^"\\]|\\.)*"|[^";])+/g)]
    .map(([piece]) => piece.trim())
    .filter((piece) => piece !== '');

const unquote = (text: string): string => text.trim().replace(/^"(.*)"$/s, '$1');

/** Parses a non-negative number. Undefined if more text follows, as in `100, 100;w=60`. */
function parseAmount(text: string | undefined): number | undefined {
  if (text === undefined || !/^\s*\d{1,15}(\.\d{1,6})?\s*$/.test(text)) return undefined;
  return Number(text);
}
