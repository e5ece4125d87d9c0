import { isIP } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../base/ports.ts';
import { paths } from '../../contract/paths.ts';
import { MeResponse } from '../../contract/service.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { KeyHolder, Principal, User } from '../workspace/owner.ts';

/** Credential holders whose requests are counted, and addresses whose failures are counted. */
const principalsMax = 100_000;
const addressesMax = 100_000;
/** Bad credentials that one address may send in a minute. */
const failuresMax = 60;

/**
 * The authentication hook of the service: identifies the caller and counts the request against its rate limit. Throws 401
 * without a valid credential, 429 above the rate limit, and 403 if the route does not accept this kind of credential.
 */
export function createAuthenticationHook({ workspace, settings, clock }: ServiceContext) {
  const requests = createFixedWindowLimiter(clock, principalsMax);
  const failures = createFixedWindowLimiter(clock, addressesMax);

  /** Authenticates a credential. Failures of an address do not block credentials that were recently valid. */
  const authenticate = async (credential: string, request: FastifyRequest): Promise<Principal> => {
    const familiar = workspace.isCachedCredential(credential);
    const address = toNetworkPrefix(request.ip);
    // Taken before authentication, so that concurrent requests cannot exceed the limit.
    const decision = familiar ? null : failures.acquire(address, failuresMax);
    if (decision?.isAllowed === false)
      throw createRateLimitError('Too many invalid credentials from this address.', 'address', failuresMax, decision);
    let principal: Principal | null = null;
    try {
      principal = await workspace.authenticate(credential, clock.nowMs());
    } catch (error) {
      if (decision !== null) failures.refund(address);
      throw error;
    }
    if (principal === null)
      throw new ProblemError(401, 'The credential is invalid, expired or revoked.', createChallenge('invalid_token'));
    if (decision !== null) failures.refund(address);
    return principal;
  };

  const count = (principal: Principal, reply: FastifyReply): void => {
    const defaultQuota = settings.service.requestsPerMinute;
    const quota = principal.kind === 'key' ? (principal.requestsPerMinute ?? defaultQuota) : defaultQuota;
    const name = principal.kind === 'key' ? `key ${principal.id}` : `user ${principal.user}`;
    const decision = requests.acquire(name, quota);
    const { kind } = principal;
    if (!decision.isAllowed)
      throw createRateLimitError(`This ${kind} may make ${quota} requests a minute.`, kind, quota, decision);
    reply.headers(formatRateLimitHeaders(kind, quota, decision));
  };

  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const access = request.routeOptions.config.access ?? 'key';
    const { authorization } = request.headers;
    if (access === 'open' || (access === 'either' && authorization === undefined)) return;
    if (authorization === undefined) {
      const how = 'Send a credential in the Authorization header: Bearer, then the credential.';
      throw new ProblemError(401, how, createChallenge());
    }
    const [, credential] = /^Bearer +([\x21-\x7e]+) *$/i.exec(authorization) ?? [];
    // An empty credential is rejected without a database query.
    const principal = await authenticate(credential ?? '', request);
    request.principal = principal;
    count(principal, reply);
    requireAccess(principal, access);
  };
}

function createRateLimitError(
  detail: string,
  policy: string,
  quota: number,
  decision: RateLimitDecision,
): ProblemError {
  const { resetSeconds } = decision;
  return new ProblemError(429, `${detail} Try again in ${resetSeconds} s.`, {
    headers: { ...formatRateLimitHeaders(policy, quota, decision), 'retry-after': String(resetSeconds) },
  });
}

/** The network of an address. For IPv6 this is the /64 prefix, because a client usually has a complete /64. */
export function toNetworkPrefix(ip: string): string {
  // A proxy may pass on any text of any length.
  if (isIP(ip) === 0) return 'unknown';
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(ip)?.[1];
  if (mapped !== undefined || !ip.includes(':')) return mapped ?? ip;
  const [head = '', tail = ''] = ip.toLowerCase().split('%')[0]!.split('::');
  const [first, last] = [head, tail].map((part) => (part === '' ? [] : part.split(':')));
  const zeros = ip.includes('::') ? Array<string>(Math.max(0, 8 - first!.length - last!.length)).fill('0') : [];
  return [...first!, ...zeros, ...last!].slice(0, 4).join(':');
}

/** Counters that start with the first request and reset when their window ends. */
interface FixedWindowLimiter {
  /** Takes one of `quota` permits in the window of `name`. Takes none if `isAllowed` is false. */
  acquire(name: string, quota: number): RateLimitDecision;
  /** Returns a permit. */
  refund(name: string): void;
}

interface RateLimitDecision {
  readonly isAllowed: boolean;
  readonly remaining: number;
  /** Whole seconds until the window is over, at least 1. */
  readonly resetSeconds: number;
}

/** The window of every limit. */
const windowSeconds = 60;

interface WindowCount {
  used: number;
  /** Monotonic ms. */
  readonly endsAt: number;
}

/** Counters of at most `namesMax` names; beyond that the least recently used counter is reset. */
export function createFixedWindowLimiter(clock: Clock, namesMax: number): FixedWindowLimiter {
  const counts = new LRUCache<string, WindowCount>({ max: namesMax });
  return {
    acquire(name, quota) {
      const nowMs = clock.monotonicMs();
      let count = counts.get(name);
      if (count === undefined || count.endsAt <= nowMs) {
        count = { used: 0, endsAt: nowMs + windowSeconds * 1000 };
        counts.set(name, count);
      }
      const allowed = count.used < quota;
      if (allowed) count.used++;
      const resetSeconds = Math.max(1, Math.ceil((count.endsAt - nowMs) / 1000));
      return { isAllowed: allowed, remaining: Math.max(0, quota - count.used), resetSeconds };
    },
    refund(name) {
      const count = counts.peek(name);
      if (count !== undefined && count.used > 0) count.used--;
    },
  };
}

/** The headers of draft-ietf-httpapi-ratelimit-headers, version 8 and later. */
const formatRateLimitHeaders = (policy: string, quota: number, { remaining, resetSeconds }: RateLimitDecision) => ({
  'ratelimit-policy': `"${policy}";q=${quota};w=${windowSeconds}`,
  ratelimit: `"${policy}";r=${remaining};t=${resetSeconds}`,
});

/**
 * Who may use a route: `open` anyone, `key` holders of an API key, `user` holders of a user token, `research` holders of a
 * user token with that scope, `either` holders of an API key or requests without a credential (which get a shorter
 * response), `any` holders of either kind of credential.
 */
export type Access = 'open' | 'key' | 'user' | 'research' | 'either' | 'any';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Default: `key`. */
    access?: Access;
  }
  interface FastifyRequest {
    principal: Principal | null;
  }
}

/** The WWW-Authenticate header of a 401, and of a 403 for a missing scope (RFC 6750). */
const createChallenge = (error?: string) => ({
  headers: { 'www-authenticate': error === undefined ? 'Bearer' : `Bearer error="${error}"` },
});

/** Throws 403 if the route does not accept this principal. */
export function requireAccess(principal: Principal, access: Access): void {
  if (access === 'open' || access === 'any') return;
  const requiredKind = access === 'user' || access === 'research' ? 'user' : 'key';
  if (principal.kind !== requiredKind) {
    throw new ProblemError(
      403,
      requiredKind === 'key' ? 'Market data requires a market data key.' : 'This route requires a user token.',
    );
  }
  if (access === 'research' && !(principal as User).scopes.includes('research')) {
    throw new ProblemError(403, 'The token does not have the scope research.', {
      headers: { 'www-authenticate': 'Bearer error="insufficient_scope", scope="research"' },
    });
  }
}

/** The holder of the API key of a request. */
export function requireKeyHolder({ principal }: Pick<FastifyRequest, 'principal'>): KeyHolder {
  if (principal?.kind !== 'key') throw new ProblemError(403, 'Market data requires a market data key.');
  return principal;
}

/** The user of the token of a request. */
export function requireUser({ principal }: Pick<FastifyRequest, 'principal'>): User {
  if (principal?.kind !== 'user') throw new ProblemError(403, 'This route requires a user token.');
  return principal;
}

/** `/api/v1/me`. */
export function registerUserRoutes(app: App, { settings, clock }: ServiceContext): void {
  app.get(
    paths.me,
    {
      config: { access: 'any' },
      schema: {
        summary: 'The credential and its permissions',
        tags: ['users'],
        response: { 200: MeResponse },
      },
    },
    async ({ principal }): Promise<MeResponse> => {
      const defaultQuota = settings.service.requestsPerMinute;
      const generated_at = clock.nowMs();
      if (principal?.kind === 'key') {
        const { kind, id, name, requestsPerMinute } = principal;
        return { kind, key: { id, name }, requests_per_minute: requestsPerMinute ?? defaultQuota, generated_at };
      }
      if (principal === null) throw new Error('a request without a credential passed authentication');
      const { kind, user, workspace, scopes } = principal;
      return { kind, user, workspace, scopes: [...scopes], requests_per_minute: defaultQuota, generated_at };
    },
  );
}
