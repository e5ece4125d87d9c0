import { isIP } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../base/ports.ts';
import type { ServiceContext } from '../http/context.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { KeyHolder, Principal, User } from '../workspace/owner.ts';

/** Holders of credentials whose requests are counted, and addresses whose failures are. */
const principalsMax = 100_000;
const addressesMax = 100_000;
/** Bad credentials that one address may send in a minute. */
const failuresMax = 60;

/**
 * The door of the service: finds out who asks, counts the request against the credential's rate, and throws where the
 * route is not for it: 401 without a good credential, 429 beyond the rate, 403 for the wrong kind.
 */
export function createAuthenticationHook({ workspace, settings, clock }: ServiceContext) {
  const requests = createFixedWindowLimiter(clock, principalsMax);
  const failures = createFixedWindowLimiter(clock, addressesMax);

  /** Whom a credential stands for. What was good lately is not held up by what else its address sends. */
  const judge = async (credential: string, request: FastifyRequest): Promise<Principal> => {
    const familiar = workspace.isCachedCredential(credential);
    const address = toNetworkPrefix(request.ip);
    // Before it is judged, so that many at once are no way around.
    const taken = familiar ? null : failures.acquire(address, failuresMax);
    if (taken?.isAllowed === false)
      throw createRateLimitError(
        'Too many credentials from this address were not good.',
        'address',
        failuresMax,
        taken,
      );
    let principal: Principal | null = null;
    try {
      principal = await workspace.authenticate(credential, clock.nowMs());
    } catch (error) {
      if (taken !== null) failures.refund(address);
      throw error;
    }
    if (principal === null)
      throw new ProblemError(
        401,
        'The credential is not one that is good here and now.',
        createChallenge('invalid_token'),
      );
    if (taken !== null) failures.refund(address);
    return principal;
  };

  const count = (principal: Principal, reply: FastifyReply): void => {
    const everybody = settings.service.requestsPerMinute;
    const quota = principal.kind === 'key' ? (principal.requestsPerMinute ?? everybody) : everybody;
    const name = principal.kind === 'key' ? `key ${principal.id}` : `user ${principal.user}`;
    const taken = requests.acquire(name, quota);
    const { kind } = principal;
    if (!taken.isAllowed)
      throw createRateLimitError(`This ${kind} may make ${quota} requests a minute.`, kind, quota, taken);
    reply.headers(formatRateLimitHeaders(kind, quota, taken));
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
    // No credential at all is known to be none without a look.
    const principal = await judge(credential ?? '', request);
    request.principal = principal;
    count(principal, reply);
    requireAccess(principal, access);
  };
}

function createRateLimitError(detail: string, policy: string, quota: number, taken: RateLimitDecision): ProblemError {
  const { resetSeconds } = taken;
  return new ProblemError(429, `${detail} Try again in ${resetSeconds} s.`, {
    headers: { ...formatRateLimitHeaders(policy, quota, taken), 'retry-after': String(resetSeconds) },
  });
}

/** Whom an address belongs to: of IPv6 everybody has a network of their own, 64 bits long. */
export function toNetworkPrefix(ip: string): string {
  // What a proxy passes on may be any text, of any length.
  if (isIP(ip) === 0) return 'unknown';
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(ip)?.[1];
  if (mapped !== undefined || !ip.includes(':')) return mapped ?? ip;
  const [head = '', tail = ''] = ip.toLowerCase().split('%')[0]!.split('::');
  const [first, last] = [head, tail].map((part) => (part === '' ? [] : part.split(':')));
  const zeros = ip.includes('::') ? Array<string>(Math.max(0, 8 - first!.length - last!.length)).fill('0') : [];
  return [...first!, ...zeros, ...last!].slice(0, 4).join(':');
}

/** Counts that begin with the first request and start anew when their window is over. */
export interface FixedWindowLimiter {
  /** Takes one of `quota` in the window of `name`; `allowed` is false where none was left, and nothing is taken then. */
  acquire(name: string, quota: number): RateLimitDecision;
  /** Puts one back that was taken for nothing. */
  refund(name: string): void;
}

export interface RateLimitDecision {
  readonly isAllowed: boolean;
  readonly remaining: number;
  /** Whole seconds until the window is over, at least 1. */
  readonly resetSeconds: number;
}

/** The window of every limit. */
export const windowSeconds = 60;

interface WindowCount {
  used: number;
  /** Monotonic ms. */
  readonly endsAt: number;
}

/** Windows of at most `namesMax` names; beyond it the one not seen for longest begins anew. */
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
export const formatRateLimitHeaders = (
  policy: string,
  quota: number,
  { remaining, resetSeconds }: RateLimitDecision,
) => ({
  'ratelimit-policy': `"${policy}";q=${quota};w=${windowSeconds}`,
  ratelimit: `"${policy}";r=${remaining};t=${resetSeconds}`,
});

/**
 * Who may use a route: `open` everybody, `key` holders of a market data key, `user` bearers of a user token, `research`
 * those among them whose token has that scope, `either` a key or, in its place, nothing (the route tells less then), `any`
 * a credential of either kind.
 */
export type Access = 'open' | 'key' | 'user' | 'research' | 'either' | 'any';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Without it a route asks for a key. */
    access?: Access;
  }
  interface FastifyRequest {
    principal: Principal | null;
  }
}

/** The header that a 401 has, and a 403 for the lack of a scope (RFC 6750). */
export const createChallenge = (error?: string) => ({
  headers: { 'www-authenticate': error === undefined ? 'Bearer' : `Bearer error="${error}"` },
});

/** Throws 403 where a route is not for who asks. */
export function requireAccess(principal: Principal, access: Access): void {
  if (access === 'open' || access === 'any') return;
  const wanted = access === 'user' || access === 'research' ? 'user' : 'key';
  if (principal.kind !== wanted) {
    throw new ProblemError(
      403,
      wanted === 'key' ? 'Market data is read with a market data key.' : 'This belongs to users: send a user token.',
    );
  }
  if (access === 'research' && !(principal as User).scopes.includes('research')) {
    throw new ProblemError(403, 'The token lacks the scope research.', {
      headers: { 'www-authenticate': 'Bearer error="insufficient_scope", scope="research"' },
    });
  }
}

/** The key that a route for key holders was asked with. */
export function requireKeyHolder(request: FastifyRequest): KeyHolder {
  const { principal } = request;
  if (principal?.kind !== 'key') throw new ProblemError(403, 'Market data is read with a market data key.');
  return principal;
}

/** The bearer of the token that a user's route was asked with. */
export function requireUser(request: FastifyRequest): User {
  const { principal } = request;
  if (principal?.kind !== 'user') throw new ProblemError(403, 'This belongs to users: send a user token.');
  return principal;
}
